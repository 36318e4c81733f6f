"""Prompts are read strictly and split by content alone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.stages import prompts
from paceline.stages.failures import PermanentError


def _ask(text):
    return prompts.Prompt(messages=(("user", text),))


def test_both_forms_of_a_prompt_are_the_same_prompt(tmp_path):
    """A bare prompt and its message form have one key, so they are one sample."""
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "Hi"}\n\n{"messages": [{"role": "user", "content": "Hi"}]}\n')
    assert prompts.read(path) == [_ask("Hi")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "p.jsonl line 1 is not JSON"),
        ('{"text": "x"}', 'write {"prompt"'),
        ('{"prompt": ""}', 'write {"prompt"'),
        ('{"messages": [{"role": "robot", "content": "x"}]}', "with roles assistant, system, user"),
        ('{"messages": [{"role": "system", "content": "x"}]}', "is no prompt"),
        ("[1]", "is no prompt"),
        ("", "holds no prompts"),
    ],
)
def test_bad_line_is_named_with_what_is_accepted(tmp_path, line, said):
    """The user learns which line and what to write."""
    path = tmp_path / "p.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(PermanentError) as error:
        prompts.read(path)
    assert said in str(error.value)


def test_missing_file_names_the_field(tmp_path):
    """A path that is not there is the user's to correct."""
    with pytest.raises(PermanentError, match=r"set data\.prompts"):
        prompts.read(tmp_path / "none.jsonl")


@given(st.sets(st.text(min_size=1), min_size=40, max_size=80), st.randoms())
def test_split_does_not_depend_on_the_order(texts, random):
    """The same prompts in another order are split alike."""
    given_order = [_ask(text) for text in texts]
    shuffled = random.sample(given_order, len(given_order))
    assert _split_or_reason(given_order) == _split_or_reason(shuffled)


@given(st.sets(st.text(min_size=1), min_size=40, max_size=80), st.text(min_size=1))
def test_added_prompt_moves_no_other(texts, extra):
    """A prompt keeps its side when the collection grows: nothing trained on is ever held out."""
    before = _split_or_reason([_ask(text) for text in texts])
    after = _split_or_reason([_ask(text) for text in texts | {extra}])
    if isinstance(before, prompts.Split) and isinstance(after, prompts.Split):
        assert set(before.holdout) <= set(after.holdout)
        assert set(before.train) <= set(after.train)


def _split_or_reason(collection):
    try:
        return prompts.split(collection, holdout_percent=20, max_samples=None)
    except PermanentError as error:
        return str(error)


def test_split_is_about_as_large_as_asked():
    """Ten per cent of many prompts are about ten per cent."""
    split = prompts.split([_ask(f"prompt {index}") for index in range(2000)], holdout_percent=10, max_samples=None)
    assert 150 <= len(split.holdout) <= 250
    assert len(split.holdout) + len(split.train) == 2000


def test_too_few_prompts_say_what_to_give():
    """One prompt cannot be on both sides."""
    with pytest.raises(PermanentError, match="give more prompts"):
        prompts.split([_ask("only")], holdout_percent=10, max_samples=None)


def test_answered_prompt_is_asked_without_its_answer(tmp_path):
    """The target answers itself; a data set's author does not."""
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    (tmp_path / "p.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    (prompt,) = prompts.read(tmp_path)
    assert prompt.answered
    assert prompt.unanswered() == _ask("Hi")
