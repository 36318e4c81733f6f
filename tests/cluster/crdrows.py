"""The table of what the API server accepts and refuses: one row a rule, with a good object beside the bad one.

Rows of RULES are the CEL rules, one at least for each: their messages are ours. Rows of SCHEMA are bounds, enums, list
types and patterns, whose messages are the API server's.
"""

from dataclasses import dataclass, field
from typing import Any

from api import builders

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rule: what keeps it and what breaks it, each laid over the smallest valid object as a merge patch."""

    id: str
    kind: str = "SpeculativeDeployment"
    good: Document = field(default_factory=dict)
    bad: Document
    message: str

    def object(self, changes: Document) -> Document:
        """Return the smallest valid object with ``changes``."""
        build = builders.deployment if self.kind == "SpeculativeDeployment" else builders.training_job
        return build(**changes)


def _prompts(**source: Any) -> Document:
    return {"rollout": {"analysis": {"prompts": {"configMap": None, **source}}}}


def _speculation(**spec: Any) -> Document:
    return {"speculation": spec}


def _analysis(**spec: Any) -> Document:
    return {"rollout": {"analysis": spec}}


def _weights(*bands: tuple[int, int]) -> list[Document]:
    return [{"concurrency": concurrency, "weight": weight} for concurrency, weight in bands]


def _training(**spec: Any) -> Document:
    return {"kind": "DraftTrainingJob", **spec}


_ONE_SOURCE_MESSAGE = "set exactly one of configMap, uri and bundled"
_EAGLE3_MESSAGE = "method EAGLE3 needs exactly one of draft and trainingJobRef"
_FOREIGN_JOB_MESSAGE = (
    "trainingJobRef belongs to method EAGLE3, for which a DraftTrainingJob trains; remove it or set method: EAGLE3"
)
_FOREIGN_DRAFT_MESSAGE = (
    "methods None, Ngram, NgramGPU and Suffix read no draft; remove draft, or set the method that the draft was "
    "trained for"
)
_DRAFT_MESSAGE = (
    "methods EAGLE, Medusa, MLPSpeculator, DraftModel and DFlash need draft; set draft.uri to the draft's checkpoint"
)
_DRAFT_TP_MESSAGE = (
    "speculation.draftTensorParallelSize must be 1 or engine.tensorParallelSize; the engine splits a draft model no "
    "other way"
)
_SCHEDULE_METHOD_MESSAGE = "methods None, NgramGPU, Suffix, Medusa and MLPSpeculator have one length; remove schedule"
_ARGS_MESSAGE = (
    "args must not set the model, its revision or code, speculation, KV transfer, parallelism, host or port; "
    "use the fields of the spec"
)
_VERSION_MESSAGE = 'version is missing and the image\'s tag does not tell it; set version, e.g. "0.33.0"'
_WEIGHTS_MESSAGE = "analysis.weights must name every entry of analysis.concurrencies once, and nothing else"
_HEAD = {"uri": "pvc://models/heads/kimi"}
_CLAIM_MESSAGE = "a pvc:// uri is pvc://CLAIM/PATH, with CLAIM a PersistentVolumeClaim in this namespace"
_PROMPTS_MESSAGE = "uri of prompts must be pvc://CLAIM/FILE.jsonl, with CLAIM a PersistentVolumeClaim here"
_OUTPUT_MESSAGE = "output.uri must be pvc://CLAIM/FOLDER, with CLAIM a PersistentVolumeClaim in this namespace"
_PIN_MESSAGE = "trustRemoteCode runs the repository's code: pin revision to a full commit of 40 hex digits"

SOURCE_RULES = (
    Row(
        id="a uri does not climb out of its volume",
        good={"target": {"uri": "pvc://models/a.b/c"}},
        bad={"target": {"uri": "pvc://models/../etc"}},
        message="uri must not contain '..'; name the folder inside the volume or repository itself",
    ),
    Row(
        id="a pvc uri names a claim",
        good={"target": {"uri": "pvc://models"}},
        bad={"target": {"uri": "pvc://Models/kimi"}},
        message=_CLAIM_MESSAGE,
    ),
    Row(
        id="an hf uri is organisation and name",
        good={"target": {"uri": "hf://moonshotai/Kimi-K2.5"}},
        bad={"target": {"uri": "hf://moonshotai/Kimi-K2.5/tree/main"}},
        message="an hf:// uri is hf://ORGANISATION/NAME; put the commit into revision",
    ),
    Row(
        id="remote code needs a pinned commit",
        good={"target": {"uri": "hf://a/b", "trustRemoteCode": True, "revision": builders.COMMIT}},
        bad={"target": {"uri": "hf://a/b", "trustRemoteCode": True, "revision": "main"}},
        message=_PIN_MESSAGE,
    ),
    Row(
        id="remote code without any revision",
        good={"target": {"uri": "pvc://models/b", "trustRemoteCode": True}},
        bad={"target": {"uri": "hf://a/b", "trustRemoteCode": True}},
        message=_PIN_MESSAGE,
    ),
    Row(
        id="a draft is a source like any other",
        good=_speculation(method="EAGLE3", draft=_HEAD),
        bad=_speculation(method="EAGLE3", draft={"uri": "pvc://_/x"}),
        message="spec.speculation.draft",
    ),
    Row(
        id="prompts come from one place",
        good=_prompts(uri="pvc://data/prompts.jsonl"),
        bad=_prompts(),
        message=_ONE_SOURCE_MESSAGE,
    ),
    Row(
        id="prompts do not come from two places",
        bad=_prompts(configMap={"name": "prompts"}, uri="pvc://data/prompts.jsonl"),
        message=_ONE_SOURCE_MESSAGE,
    ),
    Row(
        id="bundled prompts stand alone",
        good=_prompts(bundled="Mix"),
        bad=_prompts(configMap={"name": "prompts"}, bundled="Mix"),
        message=_ONE_SOURCE_MESSAGE,
    ),
    Row(
        id="prompts to train on come from one place",
        kind="DraftTrainingJob",
        bad={"data": {"prompts": {"configMap": {"name": "prompts"}, "uri": "pvc://data/prompts.jsonl"}}},
        message="set exactly one of configMap and uri",
    ),
    Row(
        id="prompts by uri lie on a claim",
        good=_prompts(uri="pvc://data/a/b.jsonl"),
        bad=_prompts(uri="hf://org/data"),
        message=_PROMPTS_MESSAGE,
    ),
    Row(
        id="prompts are a file and no whole claim",
        bad=_prompts(uri="pvc://data/"),
        message=_PROMPTS_MESSAGE,
    ),
    Row(
        id="prompts stay inside their volume",
        bad=_prompts(uri="pvc://data/../prompts.jsonl"),
        message="uri must not contain '..'; name the file inside the volume itself",
    ),
)

ENGINE_RULES = (
    Row(
        id="a tag that tells no version needs one",
        good={"engine": {"image": "vllm/vllm-openai:nightly", "version": "0.33.0"}},
        bad={"engine": {"image": "vllm/vllm-openai:nightly"}},
        message=_VERSION_MESSAGE,
    ),
    Row(
        id="a digest alone tells no version",
        good={"engine": {"image": f"registry.example:5000/vllm:v0.33.0-cu130@{builders.DIGEST}"}},
        bad={"engine": {"image": f"registry.example:5000/vllm@{builders.DIGEST}"}},
        message=_VERSION_MESSAGE,
    ),
    *(
        Row(
            id=f"arguments do not say {argument}",
            good={"engine": {"args": ["--max-model-len=32768", "--enable-prefix-caching", "--portable"]}},
            bad={"engine": {"args": ["--max-model-len=32768", argument]}},
            message=_ARGS_MESSAGE,
        )
        for argument in (
            '--speculative-config={"method":"ngram"}',
            "--speculative_config.method=ngram",
            "--kv-transfer-config",
            "--tensor-parallel-size",
            "--tensor_parallel_size=8",
            "-tp=8",
            "--model=other/model",
            "--revision=main",
            "--trust-remote-code",
            "--host=127.0.0.1",
            "--port",
        )
    ),
    Row(
        id="a training job's engine is guarded too",
        **_training(bad={"engine": {"args": ["--port=1"]}}),
        message=_ARGS_MESSAGE,
    ),
)

POD_RULES = tuple(
    Row(
        id=f"{owner} pods keep the operator's label {key}",
        kind=kind,
        good={owner: {"podTemplate": {"labels": {"team": "a", "example.com/paceline.dev": "b"}}}},
        bad={owner: {"podTemplate": {"labels": {key: "x"}}}},
        message="labels must not set paceline.dev/ keys or app.kubernetes.io/managed-by; they are the operator's own",
    )
    for kind, owner, key in (
        ("SpeculativeDeployment", "engine", "paceline.dev/revision"),
        ("SpeculativeDeployment", "engine", "app.kubernetes.io/managed-by"),
        ("DraftTrainingJob", "trainer", "paceline.dev/stage"),
    )
)

SHARED_MEMORY_RULES = tuple(
    Row(
        id=f"{owner}'s shared memory leaves room under the limit of {large}",
        kind=kind,
        good={owner: {"podTemplate": {"sharedMemory": "16Gi", "resources": {"limits": {"memory": large}}}}},
        bad={owner: {"podTemplate": {"sharedMemory": "16Gi", "resources": {"limits": {"memory": small}}}}},
        message="sharedMemory counts in limits.memory and must be smaller; raise the limit by it",
    )
    for kind, owner, large, small in (
        ("SpeculativeDeployment", "engine", "400Gi", "16Gi"),
        ("SpeculativeDeployment", "engine", 17179869185, 17179869184),
        ("DraftTrainingJob", "trainer", "0.5Ti", "16384Mi"),
    )
)

SPECULATION_RULES = (
    Row(
        id="EAGLE3 takes a draft",
        good=_speculation(method="EAGLE3", draft=_HEAD),
        bad=_speculation(method="EAGLE3"),
        message=_EAGLE3_MESSAGE,
    ),
    Row(
        id="EAGLE3 takes a draft or a job, not both",
        good=_speculation(method="EAGLE3", trainingJobRef={"name": "kimi-head"}),
        bad=_speculation(method="EAGLE3", draft=_HEAD, trainingJobRef={"name": "kimi-head"}),
        message=_EAGLE3_MESSAGE,
    ),
    Row(
        id="no speculation takes no draft",
        good=_speculation(method="None"),
        bad=_speculation(method="None", draft=_HEAD),
        message=_FOREIGN_DRAFT_MESSAGE,
    ),
    Row(
        id="n-grams take no training job",
        good=_speculation(method="Ngram"),
        bad=_speculation(method="Ngram", trainingJobRef={"name": "kimi-head"}),
        message=_FOREIGN_JOB_MESSAGE,
    ),
    *(
        Row(
            id=f"{method} takes no draft",
            good=_speculation(method=method),
            bad=_speculation(method=method, draft=_HEAD),
            message=_FOREIGN_DRAFT_MESSAGE,
        )
        for method in ("Ngram", "NgramGPU", "Suffix")
    ),
    *(
        Row(
            id=f"{method} takes a draft",
            good=_speculation(method=method, draft=_HEAD),
            bad=_speculation(method=method),
            message=_DRAFT_MESSAGE,
        )
        for method in ("EAGLE", "Medusa", "MLPSpeculator", "DraftModel", "DFlash")
    ),
    *(
        Row(
            id=f"{method} is found in the target, or named apart, but never trained here",
            good=_speculation(method=method, **({"draft": _HEAD} if apart else {})),
            bad=_speculation(method=method, trainingJobRef={"name": "kimi-head"}),
            message=_FOREIGN_JOB_MESSAGE,
        )
        for method in ("MTP", "DSpark")
        for apart in (False, True)
    ),
    Row(
        id="auto takes one head",
        good=_speculation(method="Auto", trainingJobRef={"name": "kimi-head"}),
        bad=_speculation(method="Auto", draft=_HEAD, trainingJobRef={"name": "kimi-head"}),
        message="method Auto takes one of draft and trainingJobRef, or none; remove one",
    ),
    Row(
        id="auto has no schedule",
        good=_speculation(method="Auto", draft=_HEAD),
        bad=_speculation(method="Auto", schedule=[{"upToConcurrency": 8, "tokens": 3}]),
        message="schedule belongs to a method that is named, since not all have one; remove it, or set the method "
        "that status.speculation shows",
    ),
    Row(
        id="suffix belongs to suffix decoding",
        good=_speculation(method="Suffix", suffix={"maxTreeDepth": 32}),
        bad=_speculation(method="Ngram", suffix={"maxTreeDepth": 32}),
        message="suffix belongs to method Suffix; remove it or set method: Suffix",
    ),
    Row(
        id="a head has no tensor parallelism of its own",
        good=_speculation(method="DraftModel", draft=_HEAD, draftTensorParallelSize=1),
        bad=_speculation(method="EAGLE3", draft=_HEAD, draftTensorParallelSize=1),
        message="draftTensorParallelSize belongs to method DraftModel: a head is always split as the target is; "
        "remove it",
    ),
    Row(
        id="a draft model is split as the target or not at all",
        good={
            "engine": {"tensorParallelSize": 8},
            **_speculation(method="DraftModel", draft=_HEAD, draftTensorParallelSize=8),
        },
        bad={
            "engine": {"tensorParallelSize": 8},
            **_speculation(method="DraftModel", draft=_HEAD, draftTensorParallelSize=4),
        },
        message=_DRAFT_TP_MESSAGE,
    ),
    Row(
        id="suffix decoding has no schedule",
        good=_speculation(method="Ngram", schedule=[{"upToConcurrency": 8, "tokens": 3}]),
        bad=_speculation(method="Suffix", schedule=[{"upToConcurrency": 8, "tokens": 3}]),
        message=_SCHEDULE_METHOD_MESSAGE,
    ),
    Row(
        id="a schedule stays within what the engine made room for",
        good=_speculation(method="Ngram", numSpeculativeTokens=5, schedule=[{"upToConcurrency": 8, "tokens": 5}]),
        bad=_speculation(method="Ngram", schedule=[{"upToConcurrency": 8, "tokens": 5}]),
        message="no step of schedule may draft more than numSpeculativeTokens, for which the engine makes room; "
        "raise it",
    ),
    Row(
        id="a schedule drafts somewhere",
        good=_speculation(
            method="Ngram", schedule=[{"upToConcurrency": 8, "tokens": 3}, {"upToConcurrency": 64, "tokens": 0}]
        ),
        bad=_speculation(method="Ngram", schedule=[{"upToConcurrency": 64, "tokens": 0}]),
        message="a schedule that never drafts still costs; set method: None instead",
    ),
    Row(
        id="ngram belongs to n-grams",
        good=_speculation(method="Ngram", ngram={"minTokens": 3}),
        bad=_speculation(method="None", ngram={"minTokens": 3}),
        message="ngram belongs to methods Ngram and NgramGPU; remove it or set method: Ngram",
    ),
    Row(
        id="the shortest n-gram is no longer than the longest",
        good=_speculation(method="Ngram", ngram={"minTokens": 5, "maxTokens": 5}),
        bad=_speculation(method="Ngram", ngram={"minTokens": 6, "maxTokens": 5}),
        message="ngram.minTokens must not exceed ngram.maxTokens",
    ),
    Row(
        id="what Replace may cost belongs to strategies that replace",
        good={"rollout": {"strategy": "Replace", "replace": {"allowDowntime": True}}},
        bad={"rollout": {"strategy": "Surge", "replace": {"allowDowntime": True}}},
        message="rollout.replace belongs to strategies Auto and Replace; remove it or change rollout.strategy",
    ),
    Row(
        id="the fewest rounds are no more than the most",
        good={"rollout": {"analysis": {"minRounds": 4, "maxRounds": 4}}},
        bad={"rollout": {"analysis": {"minRounds": 7, "maxRounds": 6}}},
        message="rollout.analysis.minRounds must not exceed maxRounds",
    ),
    Row(
        id="weights name every concurrency",
        good=_analysis(concurrencies=[1, 8], weights=_weights((1, 3), (8, 1))),
        bad=_analysis(concurrencies=[1, 8], weights=_weights((1, 3))),
        message=_WEIGHTS_MESSAGE,
    ),
    Row(
        id="weights name nothing that is not measured",
        good=_analysis(concurrencies=[1, 8], weights=_weights((1, 0), (8, 1))),
        bad=_analysis(concurrencies=[1, 8], weights=_weights((1, 3), (16, 1))),
        message=_WEIGHTS_MESSAGE,
    ),
    Row(
        id="some concurrency has a weight",
        good=_analysis(concurrencies=[1, 8], weights=_weights((1, 0), (8, 1))),
        bad=_analysis(concurrencies=[1, 8], weights=_weights((1, 0), (8, 0))),
        message="analysis.weights leaves nothing to judge; give at least one concurrency a weight above 0",
    ),
    Row(
        id="bands of concurrency and length fit a report",
        good=_analysis(concurrencies=[1, 8], promptBounds=[2000, 8000, 32000]),
        bad=_analysis(concurrencies=[1, 8, 32], promptBounds=[2000, 8000]),
        message="analysis.promptBounds makes more than 8 bands of concurrency and length; name fewer bounds or fewer "
        "concurrencies",
    ),
    Row(
        id="limits ask for something",
        good=_analysis(limits={"maxTTFTMilliseconds": 500, "maxITLIncreasePercent": 10}),
        bad=_analysis(limits={}),
        message="limits says nothing; set at least one of its fields or remove it",
    ),
)

TRAINING_RULES = (
    Row(
        id="the head is published on a claim",
        **_training(good={"output": {"uri": "pvc://models"}}, bad={"output": {"uri": "s3://bucket/heads"}}),
        message=_OUTPUT_MESSAGE,
    ),
    Row(
        id="the claim of the output has a legal name",
        **_training(bad={"output": {"uri": "pvc://Models/heads"}}),
        message=_OUTPUT_MESSAGE,
    ),
    Row(
        id="the head stays inside its volume",
        **_training(bad={"output": {"uri": "pvc://models/../heads"}}),
        message="output.uri must not contain '..'",
    ),
    Row(
        id="a sample fits one step",
        **_training(
            good={"data": {"sequenceLength": 8192}},
            bad={"data": {"sequenceLength": 8193}},
        ),
        message="data.sequenceLength must not exceed training.totalSequenceLength, the tokens packed into one step",
    ),
    Row(
        id="the workspace stays inside its volume",
        **_training(
            good={"workspace": {"subPath": "runs/a.b"}},
            bad={"workspace": {"subPath": "runs/../../other"}},
        ),
        message="workspace.subPath must not contain '..'",
    ),
    Row(
        id="training starts from a head that the trainer can read",
        **_training(
            good={"draft": {"startFrom": {"uri": "hf://organisation/head", "credentialsSecret": "hub"}}},
            bad={"draft": {"startFrom": {"uri": "s3://bucket/head"}}},
        ),
        message="startFrom cannot be read from a bucket by the trainer; copy the head to a volume and use "
        "pvc://CLAIM/PATH",
    ),
)

TRAFFIC_RULES = (
    Row(
        id="steps rise",
        good={"rollout": {"steps": [{"weight": 10}, {"weight": 50, "pause": "1m"}]}},
        bad={"rollout": {"steps": [{"weight": 50}, {"weight": 10}]}},
        message="rollout.steps must rise: order them by weight",
    ),
    Row(
        id="a route is only weighted in steps",
        good={"traffic": {"httpRoute": {"name": "llm"}}, "rollout": {"steps": [{"weight": 10}]}},
        bad={"traffic": {"httpRoute": {"name": "llm"}}},
        message="traffic.httpRoute is only weighted in rollout.steps; add steps, or remove traffic.httpRoute",
    ),
)

SPAN_RULES = (
    *(
        Row(
            id=f"a rollout waits for {wait} at all",
            good={"rollout": {"deadlines": {wait: "1s", "held": "0s", "capacity": "0s", "draining": "0s"}}},
            bad={"rollout": {"deadlines": {wait: "0h0m0s"}}},
            message="scheduling, starting, loading, warmUp and analysis of rollout.deadlines must be longer than 0s; "
            "leave one out for its default",
        )
        for wait in ("scheduling", "starting", "loading", "warmUp", "analysis")
    ),
    Row(
        id="a guard's window has a length",
        good={"guard": {"window": "1s"}},
        bad={"guard": {"window": "0s"}},
        message="guard.window must be longer than 0s; set guard.enabled: false to watch nothing",
    ),
    Row(
        id="a run has time to live",
        **_training(good={"activeDeadline": "1s"}, bad={"activeDeadline": "0m"}),
        message="activeDeadline must be longer than 0s; set suspend: true to keep a run from starting",
    ),
)

RULES = (
    *SPAN_RULES,
    *TRAFFIC_RULES,
    *SOURCE_RULES,
    *ENGINE_RULES,
    *POD_RULES,
    *SHARED_MEMORY_RULES,
    *SPECULATION_RULES,
    *TRAINING_RULES,
)


def _bound(path: str, good: Any, bad: Any, message: str, kind: str = "SpeculativeDeployment") -> Row:
    """Return a row about one field, given by its dotted path."""
    return Row(id=f"{path} is bounded: {message}", kind=kind, good=_at(path, good), bad=_at(path, bad), message=message)


def _at(path: str, value: Any) -> Document:
    for step in reversed(path.split(".")):
        value = {step: value}
    return value


_DTJ = "DraftTrainingJob"
_LIMITS = "engine.podTemplate.resources.limits"

SCHEMA = (
    Row(
        id="only the accepted schemes",
        good={"target": {"uri": "s3://bucket/kimi"}},
        bad={"target": {"uri": "http://169.254.169.254/latest"}},
        message="spec.target.uri in body should match",
    ),
    Row(id="the target is required", bad={"target": None}, message="spec.target: Required value"),
    Row(id="unknown fields are named", bad={"replica": 2}, message='unknown field "spec.replica"'),
    Row(
        id="methods are listed",
        bad=_speculation(method="custom_class"),
        message='Unsupported value: "custom_class": supported values: "None", "Auto", "EAGLE3", "Ngram"',
    ),
    Row(
        id="a schedule has one step for a concurrency",
        bad=_speculation(method="Ngram", schedule=[{"upToConcurrency": 8, "tokens": 3}] * 2),
        message="Duplicate value",
    ),
    Row(
        id="what happens without free GPUs is one of three",
        good={"rollout": {"onInsufficientGPU": "Hold"}},
        bad={"rollout": {"onInsufficientGPU": "Ignore"}},
        message="onInsufficientGPU",
    ),
    Row(
        id="strategies are listed",
        good={"rollout": {"strategy": "Replace"}},
        bad={"rollout": {"strategy": "Rolling"}},
        message='supported values: "Auto", "Surge", "Replace"',
    ),
    Row(
        id="bands are distinct",
        good={"rollout": {"analysis": {"concurrencies": [1, 2, 4, 8, 16, 32]}}},
        bad={"rollout": {"analysis": {"concurrencies": [8, 8]}}},
        message="Duplicate value: 8",
    ),
    Row(
        id="bands fit a termination message",
        bad={"rollout": {"analysis": {"concurrencies": [1, 2, 3, 4, 5, 6, 7]}}},
        message="must have at most 6 items",
    ),
    Row(
        id="there is at least one band",
        bad={"rollout": {"analysis": {"concurrencies": []}}},
        message="should have at least 1 items",
    ),
    Row(
        id="an environment variable is set once",
        good={"engine": {"podTemplate": {"env": [{"name": "A", "value": ""}, {"name": "B", "value": "1"}]}}},
        bad={"engine": {"podTemplate": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}}},
        message="Duplicate value",
    ),
    Row(
        id="no floats",
        bad={"rollout": {"analysis": {"minGainPercent": 1.5}}},
        message='must be of type integer: "number"',
    ),
    _bound("replicas", 0, -1, "should be greater than or equal to 0"),
    _bound("replicas", 1000, 1001, "should be less than or equal to 1000"),
    _bound("speculation.numSpeculativeTokens", 32, 33, "should be less than or equal to 32"),
    _bound("rollout.deadlines.loading", "1h30m", "90", "should match"),
    _bound("guard.window", "30s", "1d", "should match"),
    _bound("rollout.steps", [{"weight": 99}], [{"weight": 100}], "should be less than or equal to 99"),
    _bound("rollout.steps", [], [{"weight": 5}, {"weight": 5}], "Duplicate value"),
    _bound("disruptionBudget.maxUnavailable", 1, 0, "should be greater than or equal to 1"),
    _bound("rollout.analysis.maxProbeConcurrency", 1, 0, "should be greater than or equal to 1"),
    _bound("rollout.analysis.usersTtftLimitMs", 1, 0, "should be greater than or equal to 1"),
    _bound("traffic.port", 65535, 65536, "should be less than or equal to 65535"),
    Row(
        id="a route has a legal name",
        good={"traffic": {"httpRoute": {"name": "llm.public"}}, "rollout": {"steps": [{"weight": 10}]}},
        bad={"traffic": {"httpRoute": {"name": "LLM"}}, "rollout": {"steps": [{"weight": 10}]}},
        message="should match",
    ),
    _bound("engine.tensorParallelSize", 64, 0, "should be greater than or equal to 1"),
    _bound("engine.version", "0.33.0rc1", "latest", "should match"),
    _bound("engine.args", ["--x"] * 64, ["--x"] * 65, "must have at most 64 items"),
    _bound("engine.podTemplate.sharedMemory", "16Gi", "16GB", "should match"),
    _bound("engine.podTemplate.imagePullPolicy", "Never", "Sometimes", "should match"),
    _bound("engine.podTemplate.runAsUser", 1000, 0, "should be greater than or equal to 1"),
    _bound("engine.podTemplate.nodeSelector", {"a": ""}, {"a": "b" * 64}, "may not be more than 63 bytes"),
    _bound(_LIMITS, {"nvidia.com/gpu": 8, "memory": "1.5Ti"}, {"nvidia.com/gpu": "eight"}, "should match"),
    _bound(_LIMITS, {"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": -8}, "should be greater than or equal to 0"),
    _bound("training.learningRate", "3e-5", "0,1", "should match", kind=_DTJ),
    _bound("training.epochs", 1, 0, "should be greater than or equal to 1", kind=_DTJ),
    _bound("data.holdoutPercent", 50, 51, "should be less than or equal to 50", kind=_DTJ),
    _bound("evaluation.minAcceptanceLength", "1.85", "-1", "should match", kind=_DTJ),
    _bound("queue.localQueue", "team-a", "Team A", "should match", kind=_DTJ),
    _bound("ttlAfterFinished", "168h", "7d", "should match", kind=_DTJ),
    _bound("workspace.claimName", "scratch", "Scratch", "should match", kind=_DTJ),
)
