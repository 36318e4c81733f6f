"""The sample resources, as a user would write them, with this machine's sizes filled in."""

from typing import Any, Final

from demo import workload

API: Final = "paceline.dev/v1alpha1"
NAME: Final = "smollm2"
JOB: Final = "smollm2-eagle3"
TRAIN_PROMPTS: Final = "smollm2-train-prompts"
PROBE_PROMPTS: Final = "smollm2-traffic"
# Prompt and answer fit; packing more into a step would halve the number of steps a head of this size needs.
_SEQUENCE: Final = 256
_ENGINE_ARGUMENTS: Final = ("--max-model-len=1024", "--max-num-seqs=16")


def prompts(name: str, lines: list[str]) -> dict[str, Any]:
    """Return a ConfigMap of prompts."""
    data = {"prompts.jsonl": workload.json_lines(lines)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def claim(name: str, volume: str) -> dict[str, Any]:
    """Return a claim on one volume."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "10Gi"}},
            "storageClassName": "",
            "volumeName": volume,
        },
    }


def training_job(recipe: workload.Recipe, *, engine_image: str, trainer_image: str, target: str) -> dict[str, Any]:
    """Return the DraftTrainingJob."""
    return {
        "apiVersion": API,
        "kind": "DraftTrainingJob",
        "metadata": {"name": JOB},
        "spec": {
            "target": {"uri": target},
            "engine": _engine(engine_image),
            "trainer": {"image": trainer_image, "podTemplate": {"resources": {"requests": {"cpu": "100m"}}}},
            "data": {
                "prompts": {"configMap": {"name": TRAIN_PROMPTS}},
                "regeneration": {"enabled": True, "maxTokens": recipe.answer_tokens, "concurrency": 16},
                "sequenceLength": _SEQUENCE,
                "holdoutPercent": 12,
            },
            "extraction": {"concurrency": 4},
            "draft": {"vocabularySize": recipe.vocabulary_size},
            "training": {
                "epochs": recipe.epochs,
                "learningRate": "1e-3",
                "totalSequenceLength": _SEQUENCE,
                "tttSteps": 3,
            },
            "evaluation": {
                "speculativeTokens": 3,
                "minAcceptanceLength": "1.3",
                "maxPrompts": 16,
                "maxTokens": recipe.answer_tokens,
            },
            "workspace": {"claimName": "training"},
            "output": {"uri": "pvc://drafts/smollm2"},
            "activeDeadline": "4h",
        },
    }


def deployment(recipe: workload.Recipe, *, engine_image: str, target: str, tokens: int) -> dict[str, Any]:
    """Return the SpeculativeDeployment, which waits for the training job."""
    fewest, most = recipe.rounds
    return {
        "apiVersion": API,
        "kind": "SpeculativeDeployment",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 1,
            "target": {"uri": target},
            "engine": _engine(engine_image),
            "speculation": {
                "method": "EAGLE3",
                "trainingJobRef": {"name": JOB},
                "numSpeculativeTokens": tokens,
            },
            "rollout": {
                "strategy": "Surge",
                "analysis": {
                    "prompts": {"configMap": {"name": PROBE_PROMPTS}},
                    "concurrencies": list(recipe.concurrencies),
                    "maxTokens": recipe.answer_tokens,
                    "requestsPerSlot": recipe.requests_per_slot,
                    "minRounds": fewest,
                    "maxRounds": most,
                    "minGainPercent": 3,
                    "maxRegressionPercent": 3,
                    # A third engine does not fit a small machine; users pause here while a verdict is sought.
                    "measuringCopy": "Never",
                },
                "deadlines": {"scheduling": "5m", "loading": "15m", "analysis": "60m", "draining": "5s"},
            },
            "guard": {"enabled": True, "window": "1m", "minDrafts": 200},
        },
    }


def _engine(image: str) -> dict[str, Any]:
    return {
        "name": "vLLM",
        "image": image,
        "tensorParallelSize": 1,
        "args": list(_ENGINE_ARGUMENTS),
        "podTemplate": {
            "sharedMemory": "1Gi",
            "resources": {"requests": {"cpu": "100m", "memory": "4Gi"}},
            "terminationGracePeriod": "10s",
        },
    }
