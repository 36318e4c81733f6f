"""A SpeculativeDeployment of stand-ins on a bed's node: its images, a target's files, and the resource itself."""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import harness
from api import builders
from bedctl import images as bed_images
from bedctl import node, record, volumes
from paceline.planning import kinds
from paceline.planning.kinds import Kind
from stages import builders as checkpoints
from standin import images

CLAIM = Kind(api_version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims")
PROMPTS = "\n".join(json.dumps({"prompt": f"question {number}"}) for number in range(16))


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What the stand-ins do, by what they draft; see ``standin/program/server.py``."""

    speeds: Mapping[str, float] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def env(self) -> list[dict[str, str]]:
        """The pods' environment."""
        named = {"STANDIN_SPEEDS": json.dumps(dict(self.speeds)), "STANDIN_FAULTS": json.dumps(dict(self.faults))}
        return [{"name": name, "value": value} for name, value in (named | dict(self.more)).items()]


def load_images(bed: str) -> None:
    """Let a bed's nodes have the engine's image, and that of probe and inspection pods."""
    for image in (images.engine(), images.stages()):
        node.load(record.load(bed), bed_images.build(image))


@contextlib.asynccontextmanager
async def target(api: harness.Api, namespace: str, *, bed: str, folder: Path) -> AsyncIterator[None]:
    """Put a tiny target onto a volume, and bind a claim of the namespace to it."""
    checkpoints.write_target(folder / "models" / "target")
    volumes.create(record.load(bed), namespace, source=folder / "models", storage_class="")
    claim = {
        "accessModes": ["ReadWriteMany"], "volumeName": namespace, "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    named = {"apiVersion": "v1", "metadata": {"name": "models", "namespace": namespace}}
    await api.create(CLAIM, {**named, "kind": "PersistentVolumeClaim", "spec": claim})
    prompts = {"name": "prompts", "namespace": namespace}
    await api.create(
        kinds.CONFIG_MAP,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": prompts, "data": {"prompts.jsonl": PROMPTS}},
    )
    yield


def resource(namespace: str, behaviour: Behaviour, **changes: Any) -> dict[str, Any]:
    """Return a resource of two replicas without speculation; ``changes`` replace whole fields of its spec."""
    manifest = builders.deployment()
    manifest["metadata"] = {"name": "standin", "namespace": namespace}
    engine = {
        "image": images.ENGINE,
        "podTemplate": {
            "imagePullPolicy": "Never",
            "env": behaviour.env,
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
            "terminationGracePeriod": "20s",
        },
    }
    analysis = {
        "prompts": {"configMap": {"name": "prompts", "key": "prompts.jsonl"}},
        "concurrencies": [1], "maxTokens": 32, "requestsPerSlot": 6,
    }  # fmt: skip
    manifest["spec"] = {
        "target": {"uri": "pvc://models/target"},
        "engine": engine,
        "proberImage": images.STAGES,
        "replicas": 2,
        "speculation": {"method": "None"},
        "rollout": {"strategy": "Surge", "analysis": analysis, "deadlines": {"draining": "5s"}},
        "guard": {"enabled": False},
        **changes,
    }
    return manifest


def ngram(tokens: int) -> dict[str, Any]:
    """Return a speculation that needs no head."""
    return {"method": "Ngram", "numSpeculativeTokens": tokens}
