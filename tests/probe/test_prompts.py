"""Prompts files."""

from pathlib import Path

import pytest

from paceline.probe import prompts


def written(folder: Path, *lines: str) -> Path:
    """Return a file of lines."""
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_both_forms_are_messages(tmp_path: Path) -> None:
    """An answer that follows the last user's turn is not sent."""
    path = written(
        tmp_path,
        '{"prompt": "Hi"}',
        "",
        '{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},'
        ' {"role": "assistant", "content": "a"}], "id": 3}',
    )
    assert [[(one.role, one.content) for one in prompt] for prompt in prompts.read(path)] == [
        [("user", "Hi")],
        [("system", "s"), ("user", "u")],
    ]


def test_the_same_few_are_taken_from_the_same_file(tmp_path: Path) -> None:
    """Both arms and all rounds must be asked the same, whatever the order of lines."""
    lines = [f'{{"prompt": "number {index}"}}' for index in range(50)]
    chosen = prompts.read(written(tmp_path, *lines), max_prompts=5)
    again = prompts.read(written(tmp_path, *reversed(lines)), max_prompts=5)
    assert len(chosen) == 5
    assert set(chosen) == set(again)
    assert list(chosen) == sorted(chosen, key=lambda one: int(one[0].content.split()[1]))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([""], "hold none"),
        (['{"prompt": ""}'], "line 1 .* at least 1 character"),
        (['{"prompt": "a"}', "{}"], "line 2 .* exactly one of prompt and messages"),
        (['{"prompt": "a", "messages": [{"role": "user", "content": "b"}]}'], "exactly one"),
        (["not json"], "line 1"),
        (['{"messages": [{"role": "assistant", "content": "b"}]}'], "hold none"),
    ],
)
def test_bad_line_is_named_with_what_to_write(tmp_path: Path, lines: list[str], words: str) -> None:
    """Rather than measured without it."""
    with pytest.raises(prompts.PromptsError, match=words):
        prompts.read(written(tmp_path, *lines))


def test_missing_file_is_named(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(prompts.PromptsError, match=r"absent\.jsonl"):
        prompts.read(tmp_path / "absent.jsonl")


def test_bands_of_length_keep_every_prompt_once() -> None:
    """In its own order."""
    texts = [some("a"), some("b" * 11), some("c" * 10), some("d" * 300)]
    assert {name: list(inside) for name, inside in prompts.by_length(texts, [10, 100]).items()} == {
        "0-10": [texts[0], texts[2]],
        "11-100": [texts[1]],
        "101-": [texts[3]],
    }
    assert prompts.by_length(texts, []) == {prompts.ALL: texts}


def test_band_without_a_prompt_is_named() -> None:
    """A candidate tested on short prompts alone must not pass for long ones."""
    with pytest.raises(prompts.PromptsError, match=r"no prompt has 11-.*lengths are 1 to 1"):
        prompts.by_length([some("a")], [10])


def some(text: str) -> prompts.Prompt:
    """Return a prompt of one turn."""
    return (prompts.Message(role="user", content=text),)
