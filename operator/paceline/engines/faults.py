"""The table of ways in which an engine's container fails: what shows it, whether another try may help, what to change.

A row is a line that an engine prints late, since little more than the end of its log is seen. Rows whose cause is the
GPU's memory are looked for first; of the others the lowest line of the log counts, and the first row that knows it.

Sources: vLLM's own messages, recorded from 0.32 in ``tests/engines/failures``; the public reports named beside rows.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Nature(StrEnum):
    """Whether another try may help."""

    PERMANENT = "Permanent"
    MEMORY = "Memory"  # the GPU's: only while no other pod gives it back
    TRANSIENT = "Transient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way to fail."""

    name: str
    """CamelCase, for people and tests."""
    nature: Nature
    remedy: str
    """What to change, as a sentence."""
    said: str = ""
    """The telling part of the log, one line; empty when Kubernetes told it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a line of a log shows."""

    name: str
    nature: Nature
    pattern: str
    remedy: str


_HEAD: Final = "Use a head that was trained for this target, or name another one in speculation"
ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="GpuOutOfMemory",
        nature=Nature.MEMORY,
        pattern=r"(CUDA|HIP) out of memory|OutOfMemoryError|CUDA error: out of memory"
        r"|Free memory on device .{0,80}is less than desired GPU memory utilization",
        remedy="Lower --gpu-memory-utilization or --max-num-seqs in engine.args, or raise engine.tensorParallelSize",
    ),
    Row(
        name="NoRoomForKvCache",
        nature=Nature.MEMORY,
        pattern=r"No available memory for the cache blocks|KV cache is needed, which is larger than",
        remedy="Lower --max-model-len, raise --gpu-memory-utilization in engine.args, or use more GPUs a replica",
    ),
    Row(  # production-stack#276, nccl#525
        name="SharedMemoryTooSmall",
        nature=Nature.PERMANENT,
        pattern=r"creating shared memory segment|/dev/shm.{0,200}No space left|No space left.{0,200}/dev/shm"
        r"|[Bb]us error|unable to allocate shared memory",
        remedy="Raise engine.podTemplate.sharedMemory (16Gi or more at TP=8) and the memory limit that counts it; if a "
        "server that has run for long says so, delete its pod: a restart in place keeps what has leaked into /dev/shm",
    ),
    # -- the draft and the target
    Row(
        name="VocabularyMismatch",
        nature=Nature.PERMANENT,
        pattern=r"should have the same vocabulary size|vocab(ulary)?[_ ]size.{0,80}(mismatch|does not match|differ)",
        remedy=_HEAD,
    ),
    Row(  # speculators#705, vllm#46788
        name="AuxiliaryLayersMismatch",
        nature=Nature.PERMANENT,
        pattern=r"The expanded size of the tensor \(\d+\) must match the existing size \(\d+\)"
        r"|aux(iliary)?[_ ]hidden[_ ]states?.{0,80}(mismatch|expected|count)",
        remedy="Correct the auxiliary layers in the head's config.json: ids lie in 0 to the target's layers - 1, as "
        "many as the head was trained with",
    ),
    Row(  # vllm#35548
        name="LayerWeightsMissing",
        nature=Nature.PERMANENT,
        pattern=r"layer \d+ weights missing|does not contain MTP weights|MTP.{0,60}weights.{0,20}(missing|not found)",
        remedy="The checkpoint announces multi-token prediction and lacks its weights: set another speculation.method, "
        "or use a checkpoint that kept them",
    ),
    Row(
        name="MtpUnsupported",
        nature=Nature.PERMANENT,
        pattern=r"Unsupported speculative method: .mtp|has no (attribute )?.num_nextn_predict_layers",
        remedy="The target has no multi-token prediction that this engine knows: set another speculation.method",
    ),
    Row(  # vllm#25883
        name="HeadKeysUnknown",
        nature=Nature.PERMANENT,
        pattern=r"KeyError: .?(model\.)?(layers\.|midlayer|embed_tokens|lm_head|fc[.']|d2t|t2d|norm|blocks\.|heads\.)"
        r"|There is no module or parameter named",
        remedy="The weights have names that this engine version does not read: convert the head for it, or change "
        "engine.image",
    ),
    Row(  # ROCm/vllm#1226
        name="HeadQuantisationUnsupported",
        nature=Nature.PERMANENT,
        pattern=r"AttributeError: .{0,120}has no attribute .weight(_packed|_scale)?\b",
        remedy="The head cannot share a quantised target's layers in this engine version: change engine.image, or use "
        "an unquantised head or target",
    ),
    Row(
        name="ShapeMismatch",
        nature=Nature.PERMANENT,
        pattern=r"size mismatch for|Attempted to load weight .{0,80}into parameter|param_data\.shape == loaded_weight"
        r"|exceeds dimension size|shapes? .{0,60}(cannot be multiplied|is invalid)|loaded_weight\.shape"
        r"|must match the size of tensor",
        remedy=_HEAD,
    ),
    Row(  # vllm#24505
        name="DtypeMismatch",
        nature=Nature.PERMANENT,
        pattern=r"expected .{0,40}to have the same dtype|dtype mismatch|must have the same dtype",
        remedy="Give head and target one dtype: drop --kv-cache-dtype from engine.args, or change engine.image",
    ),
    # -- what the engine does not have
    Row(  # vllm#31254
        name="ArchitectureUnsupported",
        nature=Nature.PERMANENT,
        pattern=r"Model architectures? .{0,120}not supported|does not recognize this architecture"
        r"|has no vLLM implementation|Eagle3 is only supported for|does not support EAGLE-?3"
        r"|does not implement .{0,20}SupportsEagle",
        remedy="Use an engine.image whose version supports this model with this speculation.method",
    ),
    Row(
        name="MethodUnsupported",
        nature=Nature.PERMANENT,
        pattern=r"Unsupported speculative method|Unknown speculative decoding method"
        r"|Speculative decoding with draft model is not supported"
        r"|speculative[_-]config.{0,200}(Input should be|unexpected|Unexpected keyword)",
        remedy="Choose another speculation.method, or an engine.image that has it",
    ),
    Row(
        name="PackageMissing",
        nature=Nature.PERMANENT,
        pattern=r"Arctic Inference is required|ModuleNotFoundError: |ImportError: .{0,200}(install|cannot import)",
        remedy="Use an engine.image that holds the package, or another speculation.method",
    ),
    # -- arguments
    Row(  # vllm#2652
        name="TensorParallelImpossible",
        nature=Nature.PERMANENT,
        pattern=r"must be divisible by tensor parallel size|is not divisible by .{0,40}tensor",
        remedy="Set engine.tensorParallelSize to a divisor of the model's attention heads",
    ),
    Row(  # vllm#10483
        name="DraftTensorParallelImpossible",
        nature=Nature.PERMANENT,
        pattern=r"draft_tensor_parallel_size=\d+ cannot be",
        remedy="Set speculation.draftTensorParallelSize to 1 or engine.tensorParallelSize",
    ),
    Row(
        name="SpeculativeTokensImpossible",
        nature=Nature.PERMANENT,
        pattern=r"num_speculative_tokens.{0,40}must be divisible by|num_speculative_tokens must be",
        remedy="Set speculation.numSpeculativeTokens to a number that the draft allows",
    ),
    Row(
        name="ContextTooLong",
        nature=Nature.PERMANENT,
        pattern=r"max_model_len .{0,40}is greater than the derived",
        remedy="Lower --max-model-len in engine.args to what the model's configuration allows",
    ),
    Row(
        name="RemoteCodeNeeded",
        nature=Nature.PERMANENT,
        pattern=r"trust_remote_code=True|requires you to execute the (configuration|modeling) file",
        remedy="Read the repository's code, then set target.trustRemoteCode with a pinned target.revision",
    ),
    Row(
        name="ArgumentRefused",
        nature=Nature.PERMANENT,
        pattern=r"unrecognized arguments:|error: argument -|invalid choice: |expected one argument"
        r"|\d+ validation errors? for \w+",
        remedy="Correct engine.args for this engine version",
    ),
    # -- files and hubs
    Row(
        name="HubRefused",
        nature=Nature.PERMANENT,
        pattern=r"GatedRepoError|40[13] Client Error|Invalid (user token|credentials)"
        r"|Access to model .{0,120}restricted",
        remedy="Accept the repository's terms and give a token by engine.podTemplate.env (HF_TOKEN from a Secret)",
    ),
    Row(
        name="SourceNotFound",
        nature=Nature.PERMANENT,
        pattern=r"RepositoryNotFoundError|RevisionNotFoundError|EntryNotFoundError|404 Client Error"
        r"|is not a valid model identifier|Repo id must be|HFValidationError"
        r"|(FileNotFoundError|No such file or directory).{0,40}/mnt/",
        remedy="Correct the uri and revision of target or draft",
    ),
    Row(
        name="WeightsMissing",
        nature=Nature.PERMANENT,
        pattern=r"Cannot find any model weights|weights were not initialized from checkpoint|no \*?\.?safetensors",
        remedy="Copy the whole checkpoint, all *.safetensors files with it, to where the uri points",
    ),
    Row(
        name="WeightsDamaged",
        nature=Nature.PERMANENT,
        pattern=r"SafetensorError|MetadataIncompleteBuffer|InvalidHeader|HeaderTooLarge",
        remedy="A weight file is cut off: copy the checkpoint again",
    ),
    Row(  # llm-d#1430
        name="PermissionDenied",
        nature=Nature.PERMANENT,
        pattern=r"PermissionError|\[Errno 13\]|Permission denied|getpwuid\(\)",
        remedy="Set engine.podTemplate.runAsUser to a user that may read the volume, or make its files readable",
    ),
    # -- the machine
    Row(
        name="DriverUnfit",
        nature=Nature.PERMANENT,
        pattern=r"no kernel image is available|driver version is insufficient|Found no NVIDIA driver"
        r"|No CUDA GPUs are available|libcuda\.so|Failed to infer device type|exec format error"
        r"|[Ii]llegal instruction",
        remedy="Ask for GPUs in engine.podTemplate.resources.limits and use an engine.image built for the node's "
        "driver and processor",
    ),
    Row(
        name="GpuFault",
        nature=Nature.TRANSIENT,
        pattern=r"CUDA error: (an illegal|device-side assert|unspecified launch|misaligned|uncorrectable)|Xid",
        remedy="Look for Xid lines in the node's kernel log; where they come back, cordon the node",
    ),
    Row(
        name="CollectiveFailed",
        nature=Nature.TRANSIENT,
        pattern=r"NCCL error|nccl(UnhandledCuda|System|Remote|Internal)Error|DistBackendError"
        r"|ProcessGroupNCCL.{0,80}(Watchdog|timeout)",
        remedy="Set NCCL_DEBUG=INFO in engine.podTemplate.env to see the cause",
    ),
    Row(
        name="PortInUse",
        nature=Nature.TRANSIENT,
        pattern=r"Address already in use|EADDRINUSE|\[Errno 98\]",
        remedy="Remove what else listens in this pod from engine.args",
    ),
    Row(
        name="DiskFull",
        nature=Nature.TRANSIENT,
        pattern=r"No space left on device|Disk quota exceeded",
        remedy="Free the node's disk, or ask for ephemeral-storage in engine.podTemplate.resources",
    ),
    Row(
        name="SourceUnreachable",
        nature=Nature.TRANSIENT,
        pattern=r"LocalEntryNotFoundError|couldn't connect to|Connection (refused|reset|aborted)|ConnectionError"
        r"|ReadTimeout|ConnectTimeout|name resolution|Max retries exceeded|5\d\d Server Error|429 Client Error",
        remedy="Make the hub reachable from this namespace, or put target and draft on a volume (pvc://)",
    ),
)

_REFUSED: Final = "See the pod's events and correct engine.image or engine.podTemplate"
WAITING: Final[dict[str, Fault]] = {
    "ErrImagePull": Fault(
        name="ImagePullFailed",
        nature=Nature.TRANSIENT,
        remedy="Check engine.image, its registry and engine.podTemplate.imagePullSecrets",
    ),
    "ImagePullBackOff": Fault(
        name="ImagePullFailed",
        nature=Nature.TRANSIENT,
        remedy="Check engine.image, its registry and engine.podTemplate.imagePullSecrets",
    ),
    "InvalidImageName": Fault(name="ImageInvalid", nature=Nature.PERMANENT, remedy="Correct engine.image"),
    "ErrImageNeverPull": Fault(
        name="ImageAbsent",
        nature=Nature.PERMANENT,
        remedy="Load engine.image on the nodes, or change engine.podTemplate.imagePullPolicy",
    ),
    # llm-d-benchmark#37: runAsNonRoot and an image that runs as root; a Secret or key that env names and is not there.
    # The latter may still be created, so that its deadline ends the wait.
    "CreateContainerConfigError": Fault(name="ContainerConfigInvalid", nature=Nature.TRANSIENT, remedy=_REFUSED),
    "CreateContainerError": Fault(name="ContainerRefused", nature=Nature.TRANSIENT, remedy=_REFUSED),
    "RunContainerError": Fault(name="ContainerRefused", nature=Nature.TRANSIENT, remedy=_REFUSED),
}

_CLAIM: Final = "See the events of the pod and of its claims"
EVENTS: Final[tuple[tuple[str, str, Fault], ...]] = (
    # vllm-project/production-stack#107
    (
        "FailedAttachVolume",
        "Multi-Attach",
        Fault(
            name="VolumeAttachedElsewhere",
            nature=Nature.TRANSIENT,
            remedy="A ReadWriteOnce claim serves one node at a time: keep models on a ReadOnlyMany or ReadWriteMany "
            "claim, keep all servers on one node by engine.podTemplate.nodeSelector, or set rollout.strategy: Replace",
        ),
    ),
    ("FailedAttachVolume", "", Fault(name="VolumeNotAttached", nature=Nature.TRANSIENT, remedy=_CLAIM)),
    ("FailedMount", "", Fault(name="VolumeNotMounted", nature=Nature.TRANSIENT, remedy=_CLAIM)),
    ("FailedMapVolume", "", Fault(name="VolumeNotMounted", nature=Nature.TRANSIENT, remedy=_CLAIM)),
)
"""Warnings about a pod whose volumes do not come: reason, a part of the message, and what it shows; the first counts.
Transient all, since a volume comes free when the pod that holds it goes: deadlines.starting ends the wait."""

OUT_OF_MEMORY: Final = Fault(
    name="OutOfMemory",
    nature=Nature.TRANSIENT,
    remedy="Raise engine.podTemplate.resources.limits.memory, in which /dev/shm (sharedMemory) counts",
)
