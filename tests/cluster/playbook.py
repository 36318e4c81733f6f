"""What the programs inside our pods would report, had they run: for tests on a control plane without nodes.

Every answer follows from the configuration that the operator gave the pod; how fast an arm is comes from the test.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pydantic

import harness
import kubeletless
from paceline.api import names, report, stages
from paceline.api.measurement import BlockOutcome, Measurement, ProbeConfig, ProbeReport
from paceline.planning import kinds

DIGEST = "sha256:" + "a" * 64
FACTS = stages.InspectResult(
    digest=DIGEST,
    tokenizer_digest=DIGEST,
    architecture="LlamaForCausalLM",
    hidden_size=576,
    layers=30,
    vocabulary_size=49152,
    weights_bytes=270_000_000,
    auxiliary_layers=[2, 15, 27],
    hidden_state_bytes_per_token=4608,
)
"""Of a target of 135M parameters."""
_WINDOW_MS = 10_000
_DRAFTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """Servers run and are ready; stages and probes succeed with a report."""

    api: harness.Api
    namespace: str
    speeds: Mapping[str, float]
    """Throughput of an arm by its method, in tokens a second and slot; 100 where a method is not named."""

    async def __call__(self, pod: Mapping[str, Any]) -> kubeletless.Play | None:
        """Return what is said of ``pod``."""
        labels = pod["metadata"]["labels"]
        if names.LABEL_REVISION in labels:
            return kubeletless.Play(phase="Running")
        document = await self._configuration(pod)
        if document is None:
            return None
        said = _REPORTS[document["stage"]](self, document)
        found = await said if isinstance(said, Awaitable) else said
        return kubeletless.Play(phase="Succeeded", message=report.encode(found))

    async def _configuration(self, pod: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the document mounted into ``pod``; None when it is not there, as the kubelet would wait for it."""
        for volume in pod["spec"].get("volumes") or ():
            source = volume.get("configMap") or {}
            if any(item["path"] == "stage.json" for item in source.get("items") or ()):
                found = await self.api.get(kinds.CONFIG_MAP, self.namespace, source["name"])
                return None if found is None else json.loads(found["data"]["stage.json"])
        return None

    async def _methods(self) -> dict[str, str]:
        """Return the method of each revision by its short hash."""
        found = await self.api.items(kinds.CONTROLLER_REVISION, self.namespace)
        return {one["metadata"]["labels"][names.LABEL_REVISION]: one["data"]["inputs"]["method"] for one in found}

    async def probe(self, document: Mapping[str, Any]) -> ProbeReport:
        """Return one round, A B B A at every concurrency."""
        config, methods = ProbeConfig.model_validate(document), await self._methods()
        order = [*config.arms, *reversed(config.arms)]
        return ProbeReport(
            measurements=[
                self._block(arm.arm, methods[arm.arm], config=config, position=position, concurrency=concurrency)
                for concurrency in config.concurrencies
                for position, arm in enumerate(order)
            ]
        )

    def _block(self, arm: str, method: str, *, config: ProbeConfig, position: int, concurrency: int) -> Measurement:
        # Half a percent of repeatable noise: equal figures would have no variance to judge by.
        wobble = 1.0 + 0.005 * ((position * 7 + concurrency * 3 + config.round) % 5 - 2) / 2
        rate = self.speeds.get(method, 100.0) * wobble * concurrency
        drafts = 0 if method == "None" else _DRAFTS
        return Measurement(
            arm=arm,
            round=config.round,
            position=position,
            concurrency=concurrency,
            started_at="2026-01-01T00:00:00Z",
            window_ms=_WINDOW_MS,
            requests=20,
            output_tokens=round(rate * _WINDOW_MS / 1000),
            drafts=drafts,
            draft_tokens=3 * drafts,
            accepted_tokens=drafts,
            outcome=BlockOutcome.OK,
        )


def _inspected(_: Playbook, document: Mapping[str, Any]) -> stages.StageReport:
    del document
    return _result(FACTS)


def _prepared(_: Playbook, document: Mapping[str, Any]) -> stages.StageReport:
    del document
    return _result(stages.PrepareResult(data_digest=DIGEST, train_samples=360, holdout_samples=40, train_tokens=40_000))


def _extracted(_: Playbook, document: Mapping[str, Any]) -> stages.StageReport:
    del document
    return _result(stages.ExtractResult(samples=360, tokens=40_000, hidden_bytes=184_320_000, agreement_percent=99.5))


def _trained(_: Playbook, document: Mapping[str, Any]) -> stages.StageReport:
    checkpoint = f"{document['workspace']}/heads/{document['epochs']}"
    return _result(stages.TrainResult(checkpoint=checkpoint, epochs=document["epochs"], loss=1.25))


def _evaluated(_: Playbook, document: Mapping[str, Any]) -> stages.StageReport:
    return _result(
        stages.EvaluateResult(
            acceptance_length=2.4,
            acceptance_by_position=[0.6, 0.5, 0.3],
            drafts=1000,
            accepted_tokens=1400,
            prompts=40,
            speculative_tokens=document["speculativeTokens"],
        )
    )


def _published(_: Playbook, document: Mapping[str, Any]) -> stages.StageReport:
    path = f"{document['outputPath']}/{DIGEST[7:19]}"
    return _result(stages.PublishResult(path=path, manifest_digest=DIGEST))


def _result(result: stages.AnyStageResult) -> stages.StageReport:
    return stages.StageReport(result=result)


Report = pydantic.BaseModel
_REPORTS: Mapping[str, Callable[[Playbook, Mapping[str, Any]], Report | Awaitable[Report]]] = {
    "Inspect": _inspected,
    "Prepare": _prepared,
    "Extract": _extracted,
    "Train": _trained,
    "Evaluate": _evaluated,
    "Publish": _published,
    "Probe": Playbook.probe,
}
