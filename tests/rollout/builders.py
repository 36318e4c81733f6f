"""Objects for the tests of the rollout room."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paceline.api import names, stages
from paceline.api.measurement import BlockOutcome, Decision, Measurement, Purpose, RolloutRecord
from paceline.planning import conditions

NOW = 1_800_000_000.0
NAMESPACE = "models"
NAME = "smol"
TARGET_DIGEST = "sha256:" + "a" * 64
MANIFEST_DIGEST = "sha256:" + "d" * 64


@dataclass(frozen=True, kw_only=True)
class Users:
    """Traffic on a pod, as its engine counts it."""

    accepted_a_draft: float = 1.2
    drafts_a_second: float = 10.0
    running: float = 1.0
    prompt_tokens: int = 100
    """Of a request; each makes ten drafts."""
    before: "Users | None" = None
    since: float = NOW
    """When they came, after those ``before``."""

    def counted(self, at: float) -> "Counted":
        """Return what an engine that started at NOW has counted by then."""
        if at < self.since:
            return self.before.counted(at) if self.before else Counted()
        earlier = self.before.counted(self.since) if self.before else Counted()
        drafts = self.drafts_a_second * (at - self.since)
        return Counted(
            drafts=earlier.drafts + drafts,
            accepted=earlier.accepted + drafts * self.accepted_a_draft,
            requests=earlier.requests + drafts / 10,
            prompt_tokens=earlier.prompt_tokens + drafts / 10 * self.prompt_tokens,
        )

    def running_at(self, at: float) -> float:
        """Return the requests in flight."""
        return self.before.running_at(at) if self.before and at < self.since else self.running


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Counters of an engine."""

    drafts: float = 0.0
    accepted: float = 0.0
    requests: float = 0.0
    prompt_tokens: float = 0.0


def metrics(users: Users, at: float) -> str:
    """Return what an engine that has served ``users`` since NOW answers at ``at``."""
    counted = users.counted(at)
    label = '{engine="0",model_name="target"}'
    rows = {
        "num_requests_running": users.running_at(at),
        "generation_tokens_total": int(counted.drafts) + int(counted.accepted),
        "prompt_tokens_total": int(counted.prompt_tokens),
        "request_success_total": int(counted.requests),
        "time_to_first_token_seconds_sum": 0.1 * int(counted.requests),
        "time_to_first_token_seconds_count": int(counted.requests),
        "spec_decode_num_drafts_total": int(counted.drafts),
        "spec_decode_num_draft_tokens_total": 3 * int(counted.drafts),
        "spec_decode_num_accepted_tokens_total": int(counted.accepted),
    }
    kinds = {name: "counter" if name.endswith("_total") else "gauge" for name in rows}
    return "".join(
        f"# TYPE vllm:{name} {kinds[name]}\nvllm:{name}{label} {float(value)}\n" for name, value in rows.items()
    )


def sha(text: str) -> str:
    """Return a digest that stands for ``text``."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def spec(**changes: Any) -> dict[str, Any]:
    """Return a spec that serves with a head; ``changes`` replace whole top-level fields."""
    return {
        "target": {"uri": "pvc://models/target"},
        "engine": {"image": "vllm/vllm-openai:v0.33.0"},
        "replicas": 1,
        "speculation": eagle3(),
        "rollout": rollout(),
        "guard": {"enabled": True, "window": "2m", "minDrafts": 100},
        **changes,
    }


def eagle3(*, k: int = 3, uri: str = "pvc://models/head", digest: str = MANIFEST_DIGEST) -> dict[str, Any]:
    """Return the speculation of a head at ``k`` tokens."""
    draft = {"uri": uri, "manifestDigest": digest}
    return {"method": "EAGLE3", "draft": draft, "numSpeculativeTokens": k}


def none() -> dict[str, Any]:
    """Return no speculation."""
    return {"method": "None"}


def from_job(name: str = "train") -> dict[str, Any]:
    """Return the speculation of a training job's head."""
    return {"method": "EAGLE3", "trainingJobRef": {"name": name}, "numSpeculativeTokens": 3}


def rollout(**analysis: Any) -> dict[str, Any]:
    """Return the rollout policy; ``analysis`` are fields of it."""
    prompts = {"configMap": {"name": "prompts"}}
    return {"analysis": {"prompts": prompts, "concurrencies": [1, 8], **analysis}}


def deployment(*, name: str = NAME, generation: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a SpeculativeDeployment."""
    return {
        "apiVersion": "paceline.dev/v1alpha1",
        "kind": "SpeculativeDeployment",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-of-{name[:20]}",
            "generation": generation,
            "creationTimestamp": conditions.timestamp(NOW),
        },
        "spec": spec(**changes),
    }


def training_job(
    *, published: bool = True, uri: str = "pvc://models/trained", target: str = TARGET_DIGEST, failed: str = ""
) -> dict[str, Any]:
    """Return a DraftTrainingJob that has published, is under way, or failed."""
    status: dict[str, Any] = {}
    if published:
        status["output"] = {"uri": uri, "manifestDigest": MANIFEST_DIGEST, "acceptanceLength": "2.1"}
        status["target"] = facts(target)
    if failed:
        status["conditions"] = [{"type": "Failed", "status": "True", "message": failed}]
    return {
        "apiVersion": "paceline.dev/v1alpha1",
        "kind": "DraftTrainingJob",
        "metadata": {"name": "train", "namespace": NAMESPACE, "uid": "uid-of-train"},
        "spec": {
            "target": {"uri": "pvc://models/target"},
            "engine": {"image": "vllm/vllm-openai:v0.33.0"},
            "trainer": {"image": "trainer:1"},
            "data": {"prompts": {"configMap": {"name": "prompts"}}},
            "workspace": {"claimName": "work"},
            "output": {"uri": "pvc://models/heads"},
        },
        "status": status,
    }


def facts(digest: str = TARGET_DIGEST) -> dict[str, Any]:
    """Return what Inspect says of a target."""
    return {
        "digest": digest,
        "tokenizerDigest": sha("tokenizer"),
        "architecture": "LlamaForCausalLM",
        "hiddenSize": 576,
        "layers": 30,
        "vocabularySize": 49152,
        "weightsBytes": 270_000_000,
    }


def inspected(digest: str = TARGET_DIGEST, *, problems: Iterable[str] = ()) -> stages.InspectResult:
    """Return an inspection's result."""
    return stages.InspectResult.model_validate(
        {
            **facts(digest),
            "stage": "Inspect",
            "auxiliaryLayers": [2, 15, 27],
            "hiddenStateBytesPerToken": 4608,
            "headProblems": list(problems),
        }
    )


def block(
    arm: str,
    *,
    tokens_per_second: float = 100.0,
    round: int = 1,  # noqa: A002 - the field's name
    position: int = 0,
    concurrency: int = 1,
    drafts: int = 0,
    accepted: int = 0,
    outcome: BlockOutcome = BlockOutcome.OK,
) -> Measurement:
    """Return one block of 10 seconds."""
    return Measurement(
        arm=names.short(arm),
        round=round,
        position=position,
        concurrency=concurrency,
        started_at=conditions.timestamp(NOW),
        window_ms=10_000,
        requests=20,
        output_tokens=round_tokens(tokens_per_second),
        drafts=drafts,
        draft_tokens=3 * drafts,
        accepted_tokens=accepted,
        outcome=outcome,
    )


def round_tokens(tokens_per_second: float) -> int:
    """Return the whole tokens of 10 seconds."""
    return round(tokens_per_second * 10)


def record(number: int = 1, **fields: Any) -> RolloutRecord:
    """Return a rollout record, open unless told otherwise."""
    given = {
        "candidate": sha("candidate"),
        "purpose": Purpose.CANDIDATE,
        "workload": sha("workload"),
        "started_at": conditions.timestamp(NOW),
        **fields,
    }
    return RolloutRecord(number=number, **given)


def decided(number: int, decision: Decision, *, candidate: str, serving: str, **fields: Any) -> RolloutRecord:
    """Return a decided record."""
    return record(
        number,
        candidate=candidate,
        decision=decision,
        serving=serving,
        decided_at=conditions.timestamp(NOW),
        **fields,
    )
