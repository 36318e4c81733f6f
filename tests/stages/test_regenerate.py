"""Answers are asked for once, kept one by one, and resumed."""

import asyncio

import pytest

from paceline.stages import jsonl, prompts, regenerate, server
from paceline.stages.failures import PermanentError, TransientError
from stages import builders

PROMPTS = [prompts.Prompt(messages=(("user", f"question {index}"),)) for index in range(6)]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Retries wait for nobody here."""
    original = asyncio.sleep
    monkeypatch.setattr(server.asyncio, "sleep", lambda _: original(0))


async def _answer_all(engine, folder, *, attempt, known=None):
    client = server.EngineServer(engine, builders.FakeClock())
    with jsonl.JsonLog(folder / f"{attempt}.jsonl") as log:
        return await regenerate.regenerate(
            client,
            PROMPTS,
            log=log,
            known=known or {},
            max_tokens=16,
            concurrency=2,
            tell=lambda *_: None,
        )


async def test_every_prompt_gets_the_targets_tokens(tmp_path):
    """Rows hold prompt and answer as the server counted them."""
    rows = await _answer_all(builders.FakeEngine(), tmp_path, attempt="a")
    assert rows[PROMPTS[0].key] == regenerate.Row(key=PROMPTS[0].key, prompt_ids=(1, 10), answer_ids=(7, 8, 9))
    assert len(rows) == len(PROMPTS)


async def test_next_attempt_asks_only_for_what_is_missing(tmp_path):
    """A kill after some answers costs none of them."""
    await _answer_all(builders.FakeEngine(), tmp_path, attempt="a")
    content = (tmp_path / "a.jsonl").read_bytes().split(b"\n")
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(content[:4]) + b"\n" + content[4][:10])
    engine = builders.FakeEngine()
    known = regenerate.load_rows(tmp_path, PROMPTS)
    rows = await _answer_all(engine, tmp_path, attempt="b", known=known)
    assert len(known) == 4
    assert len(engine.asked) == 2
    assert set(rows) == {prompt.key for prompt in PROMPTS}


async def test_refused_prompt_is_remembered_and_left_out(tmp_path):
    """A prompt that is too long is not asked for again, and does not end the run."""
    engine = builders.FakeEngine()
    engine.refuse = frozenset({"question 1"})
    await _answer_all(engine, tmp_path, attempt="a")
    assert regenerate.load_rows(tmp_path, PROMPTS)[PROMPTS[1].key] is None


async def test_refusing_most_prompts_is_the_users_to_change(tmp_path):
    """Limits that fit nothing are wrong."""
    engine = builders.FakeEngine()
    engine.refuse = frozenset(f"question {index}" for index in range(5))
    with pytest.raises(PermanentError, match=r"lower data\.regeneration\.maxTokens"):
        await _answer_all(engine, tmp_path, attempt="a")


async def test_server_that_comes_back_is_waited_for(tmp_path):
    """A few refused connections are no failure."""
    engine = builders.FakeEngine()
    engine.fail_times = 3
    assert len(await _answer_all(engine, tmp_path, attempt="a")) == len(PROMPTS)


async def test_server_that_stays_away_is_a_transient_failure(tmp_path):
    """The Job tries again; the answers so far are kept."""
    engine = builders.FakeEngine()
    engine.fail_times = 1000
    with pytest.raises(TransientError, match="stopped answering"):
        await _answer_all(engine, tmp_path, attempt="a")


def test_long_row_is_cut_and_masks_the_prompt():
    """Only the answer's tokens are learnt, within the sequence length."""
    row = regenerate.Row(key="k", prompt_ids=(1, 2), answer_ids=(3, 4, 5))
    assert row.training_record(4) == {"input_ids": [1, 2, 3, 4], "loss_mask": [0, 0, 1, 1]}
    assert row.training_record(1) == {"input_ids": [1], "loss_mask": [0]}
