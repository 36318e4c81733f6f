"""The stand-in engine is enough of a vLLM for the real probe, and dies as vLLM does; no cluster is needed for this."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import aiohttp

from paceline.api.measurement import BlockOutcome, ProbeArm, ProbeConfig
from paceline.engines import metrics
from paceline.podside import clock
from paceline.probe import prompts, transport
from paceline.probe import round as rounds
from standin import users

SERVER = Path(__file__).parent / "standin" / "program" / "server.py"
NGRAM = ("--speculative-config", json.dumps({"method": "ngram", "num_speculative_tokens": 3}))


@contextlib.asynccontextmanager
async def serving(*words, **environment):
    """Run a stand-in on a free port; yields its process and address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, SERVER, "serve", "m", "--host=127.0.0.1", "--port=0", "--max-model-len=1", *words,
        env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        said = (await process.stdout.readline()).decode()
        yield process, f"http://127.0.0.1:{said.split()[-1]}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Silent:
    """A listener that says nothing."""

    def at(self, share, message):
        """Hear nothing."""

    def paused(self, arm, *, is_on):
        """Hear nothing."""

    def measured(self, measurement, message):
        """Hear nothing."""


async def test_probe_measures_the_speeds_that_were_set():
    """One round over two stand-ins: usable blocks, the ratio that was asked for, and its drafts counted."""
    speeds = json.dumps({"none": 200, "ngram": 400})
    async with (
        serving(STANDIN_SPEEDS=speeds) as (_, plain),
        serving(*NGRAM, STANDIN_SPEEDS=speeds) as (_, fast),
        transport.HttpTransport(request_timeout_s=30) as http,
    ):
        config = ProbeConfig(
            arms=[ProbeArm(arm=arm, url=url, pod_uid=arm, node="n") for arm, url in (("fast", fast), ("plain", plain))],
            model="m", prompts_path="-", concurrencies=[2], requests_per_slot=4, max_tokens=32, round=1,
        )  # fmt: skip
        asked = [(prompts.Message(role="user", content=f"prompt {number}"),) for number in range(4)]
        arms = rounds.arms_of(config, http, clock.SystemClock())
        report = await rounds.run(config, asked, arms, listener=Silent())

    assert {one.outcome for one in report.measurements} == {BlockOutcome.OK}, report.error
    rates = {arm: [one.tokens_per_second for one in report.measurements if one.arm == arm] for arm in ("fast", "plain")}
    assert 1.5 < sum(rates["fast"]) / sum(rates["plain"]) < 2.5
    assert all((one.drafts > 0) == (one.arm == "fast") for one in report.measurements)
    assert report.greedy_agreement_percent == 100.0


async def test_users_are_all_answered_and_counted_as_vllm_counts():
    """What the users got is what the metrics say, time to first token included."""
    async with serving(*NGRAM, STANDIN_SPEEDS='{"ngram": 2000}') as (_, url):
        async with users.using(url, users.Crowd(concurrency=3, max_tokens=8)) as tally:
            while tally.answered < 20:
                await asyncio.sleep(0.01)
        reading = metrics.read(await scrape(url), "m")

    assert tally.lost == []
    assert tally.all_accounted_for
    assert reading.generation_tokens == 8 * tally.answered
    assert reading.requests_finished == reading.ttft.count == tally.answered
    assert reading.ttft.seconds <= sum(tally.ttft_s)
    assert reading.drafts
    assert reading.accepted_tokens


async def test_streams_are_aborted_on_sigterm_unless_there_is_time_to_drain():
    """Without --shutdown-timeout what is in flight is lost, as with vLLM; with it, it ends first."""
    for words, lost in (((), 2), (("--shutdown-timeout=20",), 0)):
        crowd = users.Crowd(concurrency=2, max_tokens=40, questions=1)
        async with (
            serving(*words, STANDIN_SPEEDS='{"none": 40}') as (process, url),
            users.using(url, crowd) as tally,
        ):
            while 'num_requests_running{engine="0",model_name="m"} 2.0' not in await scrape(url):
                await asyncio.sleep(0.05)
            process.terminate()
        assert len(tally.lost) == lost, tally.lost
        assert tally.answered == 2 - lost


async def scrape(url):
    """Return the metrics."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        return await answer.text()
