"""One whole life of both kinds in a namespace: a head is trained, and a candidate is measured and promoted.

What is left at its end is the same whatever was done to the operator or its connection meanwhile, so tests compare it
with that of an undisturbed life.
"""

import asyncio
import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import fakenodes
import harness
import kubeletless
import liveusers
import playbook
from api import builders
from paceline.api import names
from paceline.planning import kinds

_CONTROL = 100.0
# Faster than any first candidate: what comes after it.
_SUFFIX = 220.0
JOB, SERVED = "head", "served"
_OURS = ((kinds.DRAFT_TRAINING_JOB, JOB), (kinds.SPECULATIVE_DEPLOYMENT, SERVED))
_CHILDREN = (
    kinds.CONFIG_MAP,
    kinds.CONTROLLER_REVISION,
    kinds.DEPLOYMENT,
    kinds.JOB,
    kinds.SERVICE,
)
_BOTH = tuple(kind.kind for kind, _ in _OURS)
_HASH = re.compile(r"-[0-9a-f]{8,12}(?=-|$)")
EndState = Mapping[str, object]


def training_job(name: str = JOB, **spec: Any) -> dict[str, Any]:
    """Return a training job whose pods may say that they started long ago, as played ones do."""
    return builders.training_job(name, **{"activeDeadline": "99999h", **spec})


def deployment(name: str = SERVED, **spec: Any) -> dict[str, Any]:
    """Return a resource whose candidate drafts by n-grams, and which drains quickly."""
    quick = {"rollout": {"deadlines": {"draining": "1s"}}, "speculation": {"method": "Ngram"}}
    return builders.deployment(name, **builders.merged(quick, spec))


class Life:
    """Both resources in one namespace, and their pods."""

    def __init__(
        self,
        api: harness.Api,
        namespace: str,
        *,
        speed: float = 150.0,
        watched: Collection[str] = _BOTH,
        reason: str = "",
        candidate: str = "Ngram",
    ) -> None:
        """Take the candidate's throughput; the control's is 100.

        Args:
            api: where both live.
            namespace: of theirs alone.
            speed: of the candidate.
            watched: kinds whose end is waited for.
            reason: of the rollout's end; by default the one that its speed gives it.
            candidate: how it drafts.
        """
        self.watched = watched
        self.reason = reason or ("Promoted" if speed > _CONTROL else "SlowerThanControl")
        self.serving = candidate if self.reason == "Promoted" else "None"
        self.api = api
        self.namespace = namespace
        self.pods: dict[str, Mapping[str, Any]] = {}
        """Every pod there has been, by UID, as it was when last seen."""
        speeds = {"None": _CONTROL, "Suffix": _SUFFIX, candidate: speed}
        self._stages = playbook.Playbook(api=api, namespace=namespace, speeds=speeds)

    async def make(self, *manifests: Mapping[str, Any]) -> None:
        """Make resources of ours."""
        for manifest in manifests:
            kind = kinds.BY_KIND[manifest["kind"]]
            await self.api.create(kind, {**manifest, "metadata": {**manifest["metadata"], "namespace": self.namespace}})

    async def begin(self) -> None:
        """Make both resources."""
        await self.make(training_job(), deployment())

    def played(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Play the pods for the length of a block."""
        return kubeletless.playing(self.api, self.namespace, self.play)

    async def play(self, pod: Mapping[str, Any]) -> kubeletless.Play | None:
        """Return what is said of a pod; nothing before the scheduler has found it the devices that it asks for."""
        self.pods[pod["metadata"]["uid"]] = pod
        if fakenodes.waits_for_devices(pod):
            return None
        play = await self._stages(pod)
        return None if play is None else dataclasses.replace(play, ip=liveusers.address(self.namespace))

    async def ended(self, *, operator: harness.Operator | None = None, within_s: float = 300.0) -> None:
        """Wait until the head is published, the candidate decided, and its losing arm and its Jobs gone.

        Args:
            operator: must be alive all along.
            within_s: how long that may take.
        """
        try:
            async with asyncio.timeout(within_s):
                while not (await self._is_published() and await self._is_decided()):
                    assert operator is None or operator.process.poll() is None, f"it ended: {operator.tail()}"
                    await asyncio.sleep(0.2)
        except TimeoutError:
            found = [await self.api.get(kind, self.namespace, name) for kind, name in _OURS]
            raise AssertionError(f"not ended: {[(one or {}).get('status') for one in found]}") from None

    async def _is_published(self) -> bool:
        if kinds.DRAFT_TRAINING_JOB.kind not in self.watched:
            return True
        stored = await self.api.get(kinds.DRAFT_TRAINING_JOB, self.namespace, JOB) or {}
        return bool((stored.get("status") or {}).get("phase") == "Complete")

    async def _is_decided(self) -> bool:
        if kinds.SPECULATIVE_DEPLOYMENT.kind not in self.watched:
            return True
        stored = await self.api.get(kinds.SPECULATIVE_DEPLOYMENT, self.namespace, SERVED) or {}
        status = stored.get("status") or {}
        told = {one["type"]: one["reason"] for one in status.get("conditions") or ()}
        if told.get("Progressing") != self.reason:
            return False
        return (
            len(await self.api.items(kinds.DEPLOYMENT, self.namespace)) == 1
            and not [one for one in await self.api.items(kinds.JOB, self.namespace) if _is_of(one, SERVED)]
            and await self.selected() == self.serving
        )

    async def selected(self) -> str | None:
        """Return the method of the revision that the front Service selects."""
        service = await self.api.get(kinds.SERVICE, self.namespace, SERVED)
        if service is None:
            return None
        methods = {
            one["metadata"]["labels"][names.LABEL_REVISION]: one["data"]["inputs"]["method"]
            for one in await self.api.items(kinds.CONTROLLER_REVISION, self.namespace)
        }
        return methods.get(service["spec"]["selector"].get(names.LABEL_REVISION))

    async def end_state(self) -> EndState:
        """Return what is left: children by kind and part, what is served, and what the resources say."""
        return {
            "children": await self.children(),
            "selected": await self.selected(),
            "head": await self._told(kinds.DRAFT_TRAINING_JOB, JOB),
            "served": await self._told(kinds.SPECULATIVE_DEPLOYMENT, SERVED),
        }

    async def settles(self, wanted: EndState, *, within_s: float = 90.0) -> None:
        """Wait until what is left is ``wanted``; fail with the difference."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while await self.end_state() != wanted:
                    await asyncio.sleep(0.3)
        assert await self.end_state() == wanted

    async def children(self) -> Counter[str]:
        """Return how many objects of ours there are of each kind and name, hashes left out."""
        found: Counter[str] = Counter()
        for kind in _CHILDREN:
            for one in await self.api.items(kind, self.namespace):
                if (one["metadata"].get("labels") or {}).get(names.LABEL_MANAGED_BY) == names.FIELD_MANAGER:
                    found[f"{kind.kind}/{anonymous(one['metadata']['name'])}"] += 1
        return found

    async def _told(self, kind: kinds.Kind, name: str) -> Mapping[str, str]:
        stored = await self.api.get(kind, self.namespace, name) or {}
        return {one["type"]: one["reason"] for one in (stored.get("status") or {}).get("conditions") or ()}


@contextlib.asynccontextmanager
async def undisturbed(api: harness.Api, **life: Any) -> AsyncIterator[Life]:
    """A life in a namespace of its own."""
    async with harness.scratch_namespace(api) as namespace:
        yield Life(api, namespace, **life)


def anonymous(name: str) -> str:
    """Return an object's name without hashes, which differ between lives."""
    return _HASH.sub("", name)


def _is_of(manifest: Mapping[str, Any], name: str) -> bool:
    return bool((manifest["metadata"].get("labels") or {}).get(names.LABEL_DEPLOYMENT) == name)
