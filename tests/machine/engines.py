"""The programs in a rollout's pods: engines of a known speed, inspections, and probes that report what they saw."""

import zlib
from collections.abc import Mapping
from typing import Any, Final

from machine.kubelet import Ending, Serving, is_ready
from machine.server import Server
from machine.watches import Scrapes
from paceline.api import names, report, stages
from paceline.api.measurement import Measurement, ProbeConfig, ProbeReport
from paceline.planning import kinds
from paceline.rollout.documents import revisions
from rollout import builders

BASE_TOKENS_PER_SECOND: Final = 100.0
DRAFTS: Final = 400
NONE: Final = "None"


LAST_WORDS = (
    "ValueError: layer 78 weights missing",
    "torch.OutOfMemoryError: CUDA out of memory.",
    "RuntimeError: NCCL error: unhandled system error",
    "RuntimeError: Engine core initialization failed. See root cause above.",
)
"""Permanent, the GPU's memory, transient, and unknown."""


class Engines:
    """The knobs are by title, which is what a revision drafts, such as ``EAGLE3 k=3``."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._titles: dict[str, str] = {}
        self.speeds: dict[str, float] = {}
        """Throughput as a multiple of the baseline's; 1 for what is not named."""
        self.accepted: dict[str, float] = {}
        """Accepted tokens a draft, 1.2 unless told otherwise."""
        self.crashing: set[str] = set()
        self.last_words = LAST_WORDS[0]
        """What engines that crash say at their end."""
        self.loads_s = 60.0
        self.hub_is_away = False
        """Whether no source can be reached."""
        self.probe_error = ""
        self.probe_hangs = False
        self.users: builders.Users | None = None
        """Whose requests the serving pods count; None for no metrics at all."""

    # -- what the kubelet asks

    def serve(self, pod: Mapping[str, Any]) -> Serving:
        """Return what a server's pod does."""
        title = self.title(pod["metadata"]["labels"][names.LABEL_REVISION])
        crashes = self.last_words if title in self.crashing else ""
        return Serving(loads_s=self.loads_s, crashes=crashes)

    def run(self, pod: Mapping[str, Any], document: str | None) -> Ending | None:
        """Return how an inspection or a probe ends."""
        if document is None:
            return None
        if pod["metadata"]["labels"][names.LABEL_PART] == "inspect":
            told = self._inspect(stages.InspectConfig.model_validate_json(document))
            code = 0 if told.result else stages.EXIT_PERMANENT if told.permanent else 1
            return Ending(code=code, message=report.encode(told))
        if self.probe_hangs:
            return None
        if self.probe_error:
            return Ending(code=1, message=report.encode(ProbeReport(error=self.probe_error)))
        return self._probe(ProbeConfig.model_validate_json(document))

    def _probe(self, config: ProbeConfig) -> Ending:
        """Return one round, or the failure of a probe whose pods went away."""
        ready = {one["metadata"]["uid"] for one in self._server.all(kinds.POD) if is_ready(one)}
        gone = [arm.arm for arm in config.arms if arm.pod_uid not in ready]
        if gone:
            return Ending(code=1, message=report.encode(ProbeReport(error=f"arm {gone[0]} does not answer")))
        order = [*config.arms, *reversed(config.arms)]
        blocks = [
            self._block(arm.arm, config=config, position=position, concurrency=concurrency)
            for concurrency in config.concurrencies
            for position, arm in enumerate(order)
        ]
        return Ending(code=0, message=report.encode(ProbeReport(measurements=blocks)), after_s=120.0)

    def _block(self, arm: str, *, config: ProbeConfig, position: int, concurrency: int) -> Measurement:
        title = self.title(arm)
        noise = zlib.crc32(f"{arm}/{config.round}/{position}/{concurrency}".encode()) % 200 / 10_000 - 0.01
        drafts = 0 if title == NONE else DRAFTS
        return builders.block(
            arm,
            tokens_per_second=BASE_TOKENS_PER_SECOND * self.speeds.get(title, 1.0) * (1 + noise) * concurrency,
            round=config.round,
            position=position,
            concurrency=concurrency,
            drafts=drafts,
            accepted=int(drafts * self.accepted.get(title, 1.2)),
        ).model_copy(update={"arm": arm})

    # -- what the operator scrapes

    def scraped(self) -> dict[str, Scrapes]:
        """Return what the servers' pods counted in the last minutes."""
        if self.users is None:
            return {}
        now = self._server.now
        times = [now - 15.0 * back for back in range(12, -1, -1) if now - 15.0 * back >= builders.NOW]
        series = tuple((at, builders.metrics(self.users, at)) for at in times)
        return {pod["metadata"]["uid"]: series for pod in self._server.all(kinds.POD)}

    # -- what tests ask

    def title(self, short: str) -> str:
        """Return what a revision drafts, also of one that has been deleted since."""
        for one in self._server.all(kinds.CONTROLLER_REVISION):
            revision_name = one["metadata"]["labels"][names.LABEL_REVISION]
            if revision_name not in self._titles:
                self._titles[revision_name] = revisions.read(one).inputs.title
        return self._titles.get(short, NONE)

    def _inspect(self, config: stages.InspectConfig) -> stages.StageReport:
        away = stages.StageReport(error="the hub does not answer")
        return away if self.hub_is_away else inspect(config)


def inspect(config: stages.InspectConfig) -> stages.StageReport:
    """Return what Inspect finds: one target is broken, another has its own digest, which no head was trained for."""
    if config.target.path.endswith("broken"):
        return stages.StageReport(error="config.json is missing; name a folder that holds a model", permanent=True)
    if config.target.path.endswith("new-target"):
        problems = ["the head was trained for another target"] if config.head_path else []
        return stages.StageReport(result=builders.inspected(builders.sha("new"), problems=problems))
    return stages.StageReport(result=builders.inspected())
