"""What a resource lives through, one story for each kind of rollout and one for training, for tests that disturb it.

A story is told in a namespace of its own; its pods are played, its nodes exist in the API alone, and what it makes is
the same however often the operator is killed or replaced on the way.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fakenodes
import faultproxy
import gatewayapi
import harness
import killproxy
import life
import liveusers
import survival
from paceline.api import names
from paceline.planning import kinds
from rollout import builders

# Long: an operator that lives for one write each brings on everything in a second or two.
_WITHIN_S = 900.0
_GPUS = 8
# Nobody waits for a lease here: each operator has one of its own. Losing it to a slow machine would be no finding.
_PATIENT = {"PACELINE_LEASE_DURATION": "90s", "PACELINE_LEASE_RENEW_DEADLINE": "60s"}


@dataclass(frozen=True, kw_only=True)
class Act:
    """A change that somebody makes once all is settled, and how the rollout that follows from it ends."""

    change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Given the stored resource, the merge patch of it."""
    reason: str
    serving: str
    """Method of the revision that serves in the end."""


@dataclass(frozen=True, kw_only=True)
class Story:
    """One resource, the world it lives in, and what is done to it."""

    name: str
    makes: Callable[[str], Mapping[str, Any]]
    """Given the namespace, the resource."""
    speed: float = 150.0
    """Of the first candidate; the control's is 100."""
    reason: str = ""
    users_accept: float | None = None
    """What users' requests accept of each draft, once something serves; None: there are none."""
    gpus: Mapping[str, int] = field(default_factory=dict)
    """Nodes by name; none: pods ask for no devices."""
    has_route: bool = False
    """Whether users come by an HTTPRoute, whose gateway is played."""
    then: tuple[Act, ...] = ()


def _on_nodes(namespace: str, **spec: Any) -> dict[str, Any]:
    """Return a resource of which each replica fills a node."""
    template = fakenodes.template(namespace, _GPUS)
    # From a hub: a claim that does not exist would keep the real scheduler from placing anything.
    return life.deployment(target={"uri": "hf://a/b"}, engine={"podTemplate": template}, **spec)


def _undo(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"metadata": {"annotations": {names.ANNOTATION_UNDO: stored["status"]["stable"]["hash"]}}}


TRAINING = Story(name="training", makes=lambda _: life.training_job())
PROMOTION = Story(name="promotion", makes=lambda _: life.deployment(speculation=builders.eagle3()))
REJECTION = Story(name="rejection", makes=lambda _: life.deployment(), speed=80.0)
UNDO = Story(
    name="undo",
    makes=lambda _: life.deployment(),
    then=(Act(change=_undo, reason="RolledBack", serving="None"),),
)
# Promoted for accepting 1.0 a draft at 1.5 times the control's speed, so below 0.33 it loses.
GUARD = Story(
    name="guard",
    makes=lambda _: life.deployment(guard={"window": "4s", "minDrafts": 20}),
    reason="LiveBelowBaseline",
    users_accept=0.1,
)
STEPS = Story(
    name="steps",
    makes=lambda _: life.deployment(
        replicas=2,
        guard={"enabled": False},
        rollout={"steps": [{"weight": 34, "pause": "2s"}, {"weight": 50, "pause": "2s"}]},
    ),
    users_accept=1.0,
)
# One replica each: the shares are the route's.
ROUTE = Story(
    name="route",
    makes=lambda _: life.deployment(
        traffic={"httpRoute": {"name": gatewayapi.ROUTE}},
        guard={"enabled": False},
        rollout={
            "analysis": {"measuringCopy": "Never"},
            "steps": [{"weight": 20, "pause": "2s"}, {"weight": 60, "pause": "2s"}],
        },
    ),
    users_accept=1.2,
    has_route=True,
)
# Two full nodes: the candidate takes one replica's place, and what won takes the others' one by one.
HANDOVER = Story(
    name="handover",
    makes=lambda namespace: _on_nodes(namespace, replicas=2, rollout={"replace": {"allowNodeLoss": True}}),
    gpus={"a": _GPUS, "b": _GPUS},
)
# Nodes for all: a share of users' traffic takes one replica more, which is asked for before it is made.
GROWTH = Story(
    name="growth",
    makes=lambda namespace: _on_nodes(
        namespace,
        replicas=2,
        guard={"enabled": False},
        rollout={"strategy": "Surge", "steps": [{"weight": 50, "pause": "2s"}]},
    ),
    users_accept=1.0,
    gpus={"a": _GPUS, "b": _GPUS, "c": _GPUS, "d": _GPUS, "e": _GPUS},
)
# One spare node for the second candidate and its control, which take turns on it.
TURNS = Story(
    name="turns",
    makes=_on_nodes,
    gpus={"a": _GPUS, "b": _GPUS},
    then=(Act(change=lambda _: {"spec": {"speculation": {"method": "Suffix"}}}, reason="Promoted", serving="Suffix"),),
)
STOP_AND_START = Story(
    name="stop-and-start",
    makes=lambda namespace: _on_nodes(namespace, rollout={"replace": {"allowDowntime": True, "allowNodeLoss": True}}),
    speed=50.0,
    reason="Recovered",
    gpus={"a": _GPUS},
)
ALL = (TRAINING, REJECTION, UNDO, GUARD, STEPS, ROUTE, GROWTH, HANDOVER, TURNS, STOP_AND_START)


class Telling:
    """A story under way."""

    def __init__(self, api: harness.Api, namespace: str, story: Story) -> None:
        """Take where it is told."""
        self._story = story
        self._manifest = story.makes(namespace)
        self._kind = kinds.BY_KIND[self._manifest["kind"]]
        drafts = self._manifest["spec"].get("speculation", {}).get("method", "")
        self.life = life.Life(
            api, namespace, speed=story.speed, watched=[self._kind.kind], reason=story.reason, candidate=drafts
        )

    @property
    def settings(self) -> dict[str, str]:
        """Environment of its operators, which see no other namespace."""
        of_it = self.life.namespace
        given = {
            "PACELINE_NAMESPACE": of_it,
            "PACELINE_NAMESPACES": of_it,
            "PACELINE_SCRAPE_INTERVAL": "1s",
            **_PATIENT,
        }
        return {**given, "PACELINE_GATEWAY": "true"} if self._story.has_route else given

    async def whole(self, *, operator: harness.Operator | None = None) -> None:
        """Tell it all: make the resource, wait for the end, and go on with what somebody does then.

        Args:
            operator: must be alive all along.
        """
        await self.life.make(self._manifest)
        await self.life.ended(operator=operator, within_s=_WITHIN_S)
        name = self._manifest["metadata"]["name"]
        for act in self._story.then:
            self.life.reason, self.life.serving = act.reason, act.serving
            stored = await self.life.api.get(self._kind, self.life.namespace, name) or {}
            await self.life.api.merge(self._kind, self.life.namespace, name, act.change(stored))
            await self.life.ended(operator=operator, within_s=_WITHIN_S)

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator[Callable[[], asyncio.Future[None]]]:
        """Tell it beside what happens in the block; yields what to await its end by, as often as wanted."""
        task = asyncio.create_task(self.whole())
        try:
            yield lambda: asyncio.shield(task)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@contextlib.asynccontextmanager
async def told(api: harness.Api, story: Story) -> AsyncIterator[Telling]:
    """Have the story's world for the length of a block: a namespace, nodes, users, and pods that are played."""
    async with harness.scratch_namespace(api) as namespace, contextlib.AsyncExitStack() as stack:
        telling = Telling(api, namespace, story)
        if story.gpus:
            await stack.enter_async_context(fakenodes.nodes(api, namespace, story.gpus))
        if story.users_accept is not None:
            await stack.enter_async_context(liveusers.using(namespace, accepted_a_draft=story.users_accept))
        if story.has_route:
            await stack.enter_async_context(gatewayapi.routed(api, namespace, life.SERVED))
        await stack.enter_async_context(telling.life.played())
        yield telling


@dataclass(frozen=True, kw_only=True)
class Account:
    """What became of a story."""

    end: life.EndState
    writes: tuple[killproxy.Write, ...]
    pods: Counter[str]
    """How many each Deployment and Job has had, in all, by name without hashes."""


async def accounted(telling: Telling, proxy: killproxy.KillProxy) -> Account:
    """Return the account of what was written so far, and of the pods that were seen."""
    pods = Counter(_parent(pod) for pod in telling.life.pods.values())
    return Account(end=await telling.life.end_state(), writes=tuple(proxy.writes), pods=pods)


def _parent(pod: Mapping[str, Any]) -> str:
    meta = pod["metadata"]
    # What a ReplicaSet adds to its Deployment's name is no hexadecimal hash.
    added = "-" + meta["labels"].get("pod-template-hash", "")
    return life.anonymous(meta["ownerReferences"][0]["name"].removesuffix(added))


async def undisturbed(kubeconfig: Path, api: harness.Api, story: Story, *, folder: Path) -> Account:
    """Let one operator live through a story; return what became of it."""
    async with told(api, story) as telling, killproxy.kill_proxy(kubeconfig, folder=folder) as (proxy, proxied):
        with harness.run_operator(proxied, log=folder / "undisturbed", forked=True, **telling.settings) as operator:
            await telling.whole(operator=operator)
            await survival.quiet(proxy)
        return await accounted(telling, proxy)


def differences(found: Account, wanted: Account) -> list[str]:
    """Return in which of its steps a life differs from one that was not disturbed; empty when in none."""
    skipped = _steps(wanted.writes) - _steps(found.writes)
    return [
        *(f"never {verb} {resource} {name}" for verb, resource, name in sorted(skipped)),
        *(f"twice {path} {name}" for path, name in faultproxy.duplicates(found.writes)),
        *_unlike("made", _made(found.writes), _made(wanted.writes)),
        *_unlike("pods of", found.pods, wanted.pods),
    ]


def _unlike(what: str, found: Counter[str], wanted: Counter[str]) -> list[str]:
    names_of_both = sorted(found.keys() | wanted.keys())
    return [f"{what} {one}: {found[one]}, not {wanted[one]}" for one in names_of_both if found[one] != wanted[one]]


def _made(writes: Iterable[killproxy.Write]) -> Counter[str]:
    """Return how many objects were made, by collection and name without hashes."""
    posted = (one for one in writes if one.verb == "POST")
    return Counter(f"{one.path.rsplit('/', 1)[-1]}/{life.anonymous(one.name)}" for one in posted)


def _steps(writes: Iterable[killproxy.Write]) -> set[tuple[str, str, str]]:
    """Return each write by what it does to which object, hashes left out."""
    found = {(killproxy.usage(one.verb, one.path, is_watch=False), one.name) for one in writes}
    return {(usage.verb, usage.resource, life.anonymous(name)) for usage, name in found}
