"""One request: how its answer is read, and each way it can fail."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.probe import block, exchange, sse
from probe import fakes
from probe.engine import Engine, Misbehaviour

WORKLOAD = block.Workload(model="m", prompts=fakes.some_prompts(), max_tokens=12)


async def ask(engine: Engine, *, stall_s: float = 5.0) -> exchange.Trace:
    """Return the trace of one request."""
    transport = fakes.FakeTransport(a=engine)
    asker = exchange.Asker(transport, fakes.TickClock(), url="http://a/", stall_s=stall_s)
    return await asker.ask(WORKLOAD.document(0), prompt=0)


async def test_answer_is_traced_token_by_token() -> None:
    """Usage in every chunk tells how many tokens each brought."""
    trace = await ask(Engine(tokens_per_chunk=5))
    assert [count for _, count in trace.marks] == [5, 10, 12]
    assert (trace.tokens, trace.text, trace.fault) == (12, "w " * 12, None)
    assert trace.first_token_s is not None
    assert trace.started_s < trace.first_token_s < trace.ended_s


async def test_usage_at_the_end_only_is_spread_over_chunks() -> None:
    """Some servers ignore continuous_usage_stats."""
    trace = await ask(Engine(tokens_per_chunk=3, usage_in_every_chunk=False))
    assert [count for _, count in trace.marks] == [3, 6, 9, 12]


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        (Misbehaviour.STATUS_500, exchange.FaultKind.REFUSED, "status 500"),
        (Misbehaviour.ERROR_IN_STREAM, exchange.FaultKind.REFUSED, "engine dead"),
        (Misbehaviour.DROP, exchange.FaultKind.LOST, "ended before"),
        (Misbehaviour.STALL, exchange.FaultKind.STALLED, "silent"),
        (Misbehaviour.NO_TOKENS, exchange.FaultKind.NO_TOKENS, "no token"),
        (Misbehaviour.NO_USAGE, exchange.FaultKind.MALFORMED, "include_usage"),
        (Misbehaviour.GARBAGE, exchange.FaultKind.MALFORMED, "html"),
    ],
)
async def test_each_failure_has_its_kind(wrong: Misbehaviour, kind: exchange.FaultKind, words: str) -> None:
    """None of them is an answer of zero tokens."""
    trace = await ask(Engine(misbehave={0: wrong}), stall_s=0.05)
    assert trace.fault is not None
    assert trace.fault.kind is kind
    assert words in trace.fault.message


@given(st.data())
def test_events_survive_any_cut_of_the_network(data: st.DataObject) -> None:
    """Pieces end in the middle of a line, of a character, of a line end."""
    stream = 'data: {"a": "é"}\r\n\r\n: comment\n\ndata: {"b": 1}\n\ndata: [DONE]\n\n'.encode()
    cuts = sorted(data.draw(st.sets(st.integers(min_value=1, max_value=len(stream) - 1))))
    buffer = sse.EventBuffer()
    found = [
        event
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for event in buffer.feed(stream[start:end])
    ]
    assert found == ['{"a": "é"}'.encode(), b'{"b": 1}', b"[DONE]"]


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b'{"choices": [3]}', b'{"usage": {"x": 1}}', b'{"choices": 1}'])
def test_chunk_of_another_shape_is_malformed(data: bytes) -> None:
    """Whatever a proxy may send."""
    with pytest.raises(sse.MalformedError, match="no chat completion chunk"):
        sse.parse(data)


def test_reasoning_counts_as_text() -> None:
    """A reasoning model's thoughts are tokens under another name."""
    chunk = sse.parse(b'{"choices": [{"delta": {"reasoning_content": "hm"}}], "usage": {"completion_tokens": 1}}')
    assert (chunk.text, chunk.completion_tokens) == ("hm", 1)


async def test_cancelled_probe_leaves_no_request_behind() -> None:
    """A pod that is deleted must free the server."""
    engine = Engine(chunk_s=10.0)
    task = asyncio.create_task(ask(engine))
    async with asyncio.timeout(10):
        while not engine.running:  # noqa: ASYNC110 - the engine is a plain value, it has no event to wait for
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.running == 0
