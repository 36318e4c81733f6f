"""Makes whole resources, valid and as small as they can be; a test says only what it is about."""

import copy
from collections.abc import Mapping
from typing import Any

from paceline.api import base

Document = dict[str, Any]

IMAGE = "vllm/vllm-openai:v0.33.0"
DIGEST = "sha256:" + "a" * 64
COMMIT = "0123456789abcdef0123456789abcdef01234567"
NOW = "2026-01-02T03:04:05Z"


def deployment(name: str = "kimi", **spec: Any) -> Document:
    """Return a SpeculativeDeployment without speculation; ``spec`` is merged into its own."""
    minimal: Document = {
        "target": {"uri": "pvc://models/kimi-k2.5"},
        "engine": {"image": IMAGE},
        "rollout": {"analysis": {"prompts": {"configMap": {"name": "prompts"}}}},
    }
    return _resource("SpeculativeDeployment", name, merged(minimal, spec))


def training_job(name: str = "kimi-head", **spec: Any) -> Document:
    """Return a DraftTrainingJob; ``spec`` is merged into its own."""
    minimal: Document = {
        "target": {"uri": "pvc://models/kimi-k2.5"},
        "engine": {"image": IMAGE},
        "trainer": {"image": "paceline/trainer:0.1.0"},
        "data": {"prompts": {"configMap": {"name": "prompts"}}},
        "workspace": {"claimName": "scratch"},
        "output": {"uri": "pvc://models/heads/kimi"},
    }
    return _resource("DraftTrainingJob", name, merged(minimal, spec))


def condition(kind: str = "Accepted") -> Document:
    """Return one condition, every field set."""
    return {
        "type": kind,
        "status": "True",
        "reason": "TargetRead",
        "message": "Read.",
        "lastTransitionTime": NOW,
        "observedGeneration": 1,
    }


def merged(document: Mapping[str, Any], changes: Mapping[str, Any]) -> Document:
    """Return ``document`` with ``changes`` laid over it, as a JSON merge patch would: None removes a field."""
    result = copy.deepcopy(dict(document))
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _resource(kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": base.API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
