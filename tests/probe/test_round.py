"""A round: its order, its prompts, its report."""

import json
from contextlib import aclosing

import pytest

from paceline.api import report
from paceline.api.measurement import BlockOutcome, Measurement, ProbeReport
from paceline.api.stages import TERMINATION_LIMIT_BYTES
from paceline.probe import round as rounds
from paceline.probe import watch
from probe import fakes
from probe.engine import Engine, Misbehaviour

IMPATIENT = watch.Patience(idle_s=0.05, pause_s=0.001)


async def run(transport: fakes.FakeTransport, heard: fakes.Heard | None = None, **more: object) -> ProbeReport:
    """Return the report of a round over all engines of ``transport``."""
    config = fakes.config(*transport.engines, **more)
    arms = rounds.arms_of(config, transport, fakes.TickClock(), IMPATIENT)
    return await rounds.run(config, fakes.some_prompts(), arms, listener=heard or fakes.Heard())


@pytest.mark.parametrize(
    ("hosts", "order"), [("ab", "abba"), ("abc", "abccba"), ("a", "aa")], ids=["two", "three", "profile"]
)
async def test_arms_are_driven_in_mirrored_order(hosts: str, order: str) -> None:
    """At every concurrency, so that a drift hits all arms alike."""
    found = await run(fakes.FakeTransport(**{host: Engine() for host in hosts}))
    assert [(one.concurrency, one.position, one.arm) for one in found.measurements] == [
        (concurrency, position, arm) for concurrency in (1, 4) for position, arm in enumerate(order)
    ]
    assert {one.outcome for one in found.measurements} == {BlockOutcome.OK}
    assert found.error == ""


async def test_partners_are_asked_the_same_prompts() -> None:
    """In the same order; the second half goes on in the list where the first one stopped."""
    transport = fakes.FakeTransport(a=Engine(), b=Engine())
    await run(transport, concurrencies=[1], warmup_requests=1)
    asked = {host: [prompt for one, prompt in transport.asked if one == host][2:10] for host in "ab"}
    assert asked["a"] == asked["b"] == [f"p{number % 7}" for number in range(8)]


async def test_next_round_goes_on_in_the_prompts() -> None:
    """Over rounds all prompts are seen, not the first few again."""
    transport = fakes.FakeTransport(a=Engine())
    await run(transport, concurrencies=[1], round=1)
    assert [prompt for _, prompt in transport.asked][-8:] == [f"p{(8 + number) % 7}" for number in range(8)]


async def test_answers_of_both_arms_are_compared() -> None:
    """Speculation must not change what is said."""
    same = await run(fakes.FakeTransport(a=Engine(tokens_per_chunk=3), b=Engine()))
    assert same.greedy_agreement_percent == 100.0
    other = await run(fakes.FakeTransport(a=Engine(texts={"p1": "other "}), b=Engine()), concurrencies=[1])
    assert other.greedy_agreement_percent == 87.5
    assert [(one.compared, one.agreed) for one in other.measurements] == [(4, 3), (2, 2), (0, 0), (4, 4)]


async def test_answers_that_part_late_agree() -> None:
    """One flipped token makes all that follows another text; that is numerics, and not a wrong draft."""
    late, early = ("w " * 40 + "other ", "other " + "w " * 40)
    found = await run(
        fakes.FakeTransport(
            a=Engine(answer_tokens=1, texts={"p0": late, "p1": early}),
            b=Engine(answer_tokens=1, texts={"p0": "w " * 41, "p1": "w " * 41}),
        ),
        concurrencies=[1],
    )
    assert [(one.compared, one.agreed) for one in found.measurements if one.arm == "a"] == [(4, 3), (4, 4)]


async def test_open_loops_come_last_and_share_their_prompts() -> None:
    """Their blocks name the rate, and the concurrency that came of it."""
    transport = fakes.FakeTransport(a=Engine(answer_tokens=2), b=Engine(answer_tokens=2))
    found = await run(transport, concurrencies=[1], rates_per_minute=[600_000], open_loop_requests=5)
    assert [(one.arm, one.rate_per_minute, one.outcome) for one in found.measurements[4:]] == [
        (arm, 600_000, BlockOutcome.OK) for arm in "abba"
    ]
    assert all(one.concurrency >= 1 and one.requests == 5 for one in found.measurements[4:])
    assert [(one.compared, one.agreed) for one in found.measurements[4:]] == [(5, 5), (0, 0), (0, 0), (5, 5)]


class Wavering(Engine):
    """Answers each prompt in its own way every time it is asked."""

    async def events(self, document, number):
        """Answer, and more."""
        self.texts = {document["messages"][-1]["content"]: f"{number} "}
        async with aclosing(super().events(document, number)) as events:
            async for event in events:
                yield event


async def test_control_is_held_against_itself() -> None:
    """Numerics differ by batch: without this yardstick an honest head would be accused of changing answers."""
    found = await run(fakes.FakeTransport(a=Engine(), b=Wavering()), concurrencies=[1])
    control = [one for one in found.measurements if one.arm == "b"]
    assert [(one.compared, one.agreed) for one in control] == [(2, 0), (0, 0)]


async def test_control_with_a_spoiled_block_is_not_asked_again() -> None:
    """It has enough trouble."""
    transport = fakes.FakeTransport(a=Engine(), b=Engine(misbehave={4: Misbehaviour.STATUS_500}))
    found = await run(transport, concurrencies=[1])
    assert [one.compared for one in found.measurements if one.arm == "b"] == [0, 0]


async def test_lengths_of_prompts_are_bands_of_their_own() -> None:
    """A head trained on short texts may gain on these alone; each band asks only its own prompts."""
    transport = fakes.FakeTransport(a=Engine())
    config = fakes.config("a", concurrencies=[1, 2], prompt_bounds=[10])
    mixed = [fakes.prompt("short"), fakes.prompt("a much longer one")]
    arms = rounds.arms_of(config, transport, fakes.TickClock(), IMPATIENT)
    found = await rounds.run(config, mixed, arms, listener=fakes.Heard())
    assert [(one.concurrency, one.prompt_band) for one in found.measurements[::2]] == [
        (1, "0-10"),
        (1, "11-"),
        (2, "0-10"),
        (2, "11-"),
    ]
    last = [prompt for _, prompt in transport.asked][-16:]
    assert set(last) == {"a much longer one"}


async def test_server_that_completes_nothing_is_told_apart_at_once() -> None:
    """The gate of real completions: /health would still say 200."""
    dead = Engine(misbehave=dict.fromkeys(range(99), Misbehaviour.STATUS_500))
    with pytest.raises(rounds.NotAnsweringError, match=r"arm a .* completed no request .*status 500"):
        await run(fakes.FakeTransport(a=dead, b=Engine()))


async def test_restart_between_blocks_changes_the_arm_for_good() -> None:
    """A new load is another configuration's luck, also where no block saw the restart."""

    class RestartsAfterItsFirstBlock(Engine):
        looks = 0

        def metrics(self) -> str:
            self.looks += self.requests == 7
            if self.looks == 2 and self.started_at == 1000.0:
                self.restart()
            return super().metrics()

    found = await run(fakes.FakeTransport(a=RestartsAfterItsFirstBlock()), concurrencies=[1, 1])
    assert [one.outcome for one in found.measurements] == [BlockOutcome.OK] + [BlockOutcome.ARM_CHANGED] * 3
    assert "unusable" in found.error


async def test_progress_only_grows_and_ends_at_the_whole() -> None:
    """What the operator shows."""
    heard = fakes.Heard()
    await run(fakes.FakeTransport(a=Engine(), b=Engine()), heard)
    rounded = [round(share, 9) for share in heard.shares]
    assert rounded == sorted(rounded)
    assert heard.shares[-1] == pytest.approx(1.0)
    assert len(heard.blocks) == 8


@pytest.mark.parametrize("blocks", [16, 48], ids=["two arms, four bands", "three arms, eight bands"])
def test_largest_report_fits_a_termination_message(blocks: int) -> None:
    """Four KiB is all that leaves a pod."""
    measurements = [
        Measurement(
            arm=f"{index % 3:08x}",
            node="a-node-of-some-cloud-with-a-long-name.eu-central-1.compute.internal",
            pod_uid=f"6f1c{index % 3:04x}-8f2e-4b61-9a57-0d3f5a9b7c21",
            load=1,
            round=5,
            position=index % 6,
            concurrency=2 ** (index // 6),
            started_at=f"2026-01-01T{index % 24:02}:{(index * 37) % 60:02}:{(index * 53) % 60:02}Z",
            window_ms=20_000 + (index * 7919) % 9973,
            requests=6 * 2 ** (index // 6),
            output_tokens=(index * 104_729) % 99_991,
            ttft_ms=round(((index * 7919) % 99_991) / 100, 2),
            itl_ms=round(((index * 6101) % 9_973) / 100, 2),
            ttft_p99_ms=round(((index * 48_611) % 999_983) / 100, 2),
            itl_p99_ms=round(((index * 27_644_437) % 99_991) / 100, 2),
            prompt_tokens=(index * 6_700_417) % 99_991,
            cached_tokens=(index * 433_494_437) % 49_999,
            compared=6 * 2 ** (index // 6),
            agreed=(index * 8209) % (6 * 2 ** (index // 6)),
            drafts=(index * 15_485_863) % 99_991,
            draft_tokens=(index * 32_452_843) % 299_993,
            accepted_tokens=(index * 49_979_687) % 199_999,
        )
        for index in range(blocks)
    ]
    message = report.encode(ProbeReport(measurements=measurements, greedy_agreement_percent=98.4, error="x" * 300))
    assert len(message) <= TERMINATION_LIMIT_BYTES
    assert report.decode(message, ProbeReport).measurements == measurements
    assert json.dumps(message)
