"""Real pods, real Services, real requests: users ask all along while candidates lose, win, and get their shares.

The engines are stand-ins (``standin/``), everything else is real: probe and inspection pods, EndpointSlices,
kube-proxy, the kubelet's probes and its last seconds of a pod.
"""

import collections

import aiohttp
import pytest

from paceline.api import names
from standin import frontpods, live, served, users

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


async def test_no_request_is_lost_while_candidates_lose_and_win(cluster, api, place, tmp_path):
    """Users never pause, so stable is measured on a copy; one candidate is rolled back, the next one promoted."""
    async with (
        live.serving(cluster, api, place, tmp_path) as url,
        users.using(url, users.Crowd(concurrency=3, max_tokens=24)) as tally,
    ):
        await live.ask_for(api, place, served.ngram(5))
        measured = await live.reached(api, place, lambda status: status.get("rollout", {}).get("round", 0) > 0)
        assert "on a copy that serves nobody" in measured["rollout"]["measuredOn"]
        await live.reached(api, place, live.ended("SlowerThanControl"))
        await live.only(api, place, "None")
        before = tally.answered

        await live.ask_for(api, place, served.ngram(3))
        await live.reached(api, place, live.ended("Promoted"))
        await live.only(api, place, "Ngram")
        assert tally.answered > before

    assert tally.lost == []
    assert tally.all_accounted_for
    assert tally.answered > 100


async def test_no_request_is_lost_while_a_candidate_gets_its_shares(cluster, api, place, tmp_path):
    """A third by one pod of three, half by two of four, then all; users ask all along, and both sides answer."""
    steps = [{"weight": 33, "pause": "4s"}, {"weight": 50, "pause": "4s"}]
    manifest = served.resource(place, live.BEHAVIOUR)
    manifest["spec"]["rollout"]["steps"] = steps
    shares = set()

    def is_half(status):
        shares.add((status.get("rollout") or {}).get("weight", 0))
        return 50 in shares

    async with (
        live.serving(cluster, api, place, tmp_path, manifest) as url,
        users.using(url, users.Crowd(concurrency=3, max_tokens=24)) as tally,
    ):
        await live.ask_for(api, place, served.ngram(3))
        await live.reached(api, place, is_half)
        pods = await frontpods.ready(api, place, "standin", count=4)
        before = await asked_by_revision(pods)
        await tally.more(40)
        after = await asked_by_revision(pods)
        await live.reached(api, place, live.ended("Promoted"))
        await live.only(api, place, "Ngram")

    assert 33 in shares
    assert len(after) == 2
    assert all(after[revision] > before[revision] for revision in after)
    assert tally.lost == []
    assert tally.all_accounted_for


async def asked_by_revision(pods):
    """Return how many completions were asked of pods, by their revision."""
    found = collections.Counter()
    async with aiohttp.ClientSession() as session:
        for pod in pods:
            answer = await session.get(f"http://{pod['status']['podIP']}:8000/standin")
            told = await answer.json(content_type=None)
            found[pod["metadata"]["labels"][names.LABEL_REVISION]] += sum(one["asked"] for one in told.values())
    return found
