"""What an engine's last words show. The files are ends of real logs, as a kubelet keeps them; lines are reports."""

from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from paceline.engines import failures, faults
from paceline.engines.faults import Nature

RECORDED = Path(__file__).parent / "failures"
EXPECTED = {
    "argument": "ArgumentRefused",
    "architecture": "ArchitectureUnsupported",
    "context": "ContextTooLong",
    "folder": "SourceNotFound",
    "mtp": "MtpUnsupported",
    "package": "PackageMissing",
    "vocabulary": "VocabularyMismatch",
}

PERMANENT, MEMORY, TRANSIENT = Nature.PERMANENT, Nature.MEMORY, Nature.TRANSIENT
REPORTS = [
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has", "GpuOutOfMemory", MEMORY),
    (
        "ValueError: Free memory on device (5.2/79.1 GiB) on startup is less than desired GPU memory utilization (0.9",
        "GpuOutOfMemory",
        MEMORY,
    ),
    ("ValueError: No available memory for the cache blocks. Try increasing `gpu_me", "NoRoomForKvCache", MEMORY),
    (  # production-stack#276
        "Error while creating shared memory segment /dev/shm/nccl-YxNHXL (size 9637888)",
        "SharedMemoryTooSmall",
        PERMANENT,
    ),
    ("Bus error (core dumped)", "SharedMemoryTooSmall", PERMANENT),
    ("ValueError: layer 78 weights missing", "LayerWeightsMissing", PERMANENT),  # vllm#35548
    ("KeyError: 'layers.0.mlp.down_proj.weight'", "HeadKeysUnknown", PERMANENT),  # vllm#25883
    ("KeyError: 'embed_tokens.weight'", "HeadKeysUnknown", PERMANENT),  # vllm#18906
    ("AttributeError: 'ParallelLMHead' object has no attribute 'weight'", "HeadQuantisationUnsupported", PERMANENT),
    (  # speculators#705
        "RuntimeError: The expanded size of the tensor (6) must match the existing size (5) at non-singleton dim",
        "AuxiliaryLayersMismatch",
        PERMANENT,
    ),
    (  # vllm#2652
        "ValueError: Total number of attention heads (52) must be divisible by tensor parallel size (8).",
        "TensorParallelImpossible",
        PERMANENT,
    ),
    (  # vllm#10483
        "ValueError: speculative_draft_tensor_parallel_size=4 cannot be other value than 1 or target model",
        "DraftTensorParallelImpossible",
        PERMANENT,
    ),
    (  # vllm#31254
        "ValueError: Eagle3 is only supported for ['llama', 'qwen', 'minicpm', 'gpt_oss'] models. Got kimi_k2",
        "ArchitectureUnsupported",
        PERMANENT,
    ),
    (
        "NotImplementedError: Speculative decoding with draft model is not supported yet.",
        "MethodUnsupported",
        PERMANENT,
    ),
    ("ValueError: Unknown speculative decoding method: mlp_speculator", "MethodUnsupported", PERMANENT),
    (
        "RuntimeError: expected mat1 and mat2 to have the same dtype, but got: BFloat16 != Half",
        "DtypeMismatch",
        PERMANENT,
    ),
    ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", "HubRefused", PERMANENT),
    ("requests.exceptions.HTTPError: 404 Client Error: Not Found for url", "SourceNotFound", PERMANENT),
    (
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        "WeightsDamaged",
        PERMANENT,
    ),
    ("PermissionError: [Errno 13] Permission denied: '/.config'", "PermissionDenied", PERMANENT),  # llm-d#1430
    ("KeyError: 'getpwuid(): uid not found: 1000680000'", "PermissionDenied", PERMANENT),
    ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356", "CollectiveFailed", TRANSIENT),
    ("OSError: [Errno 98] Address already in use", "PortInUse", TRANSIENT),
    ("OSError: We couldn't connect to 'https://huggingface.co' to load this file", "SourceUnreachable", TRANSIENT),
    ("RuntimeError: CUDA error: device-side assert triggered", "GpuFault", TRANSIENT),
]


def read(message: str, *, reason: str = "Error", exit_code: int = 1) -> faults.Fault | None:
    """Return what a container's end shows."""
    return failures.of_exit(reason=reason, exit_code=exit_code, message=message)


@pytest.mark.parametrize(("line", "name", "nature"), REPORTS, ids=[row[0][:60] for row in REPORTS])
def test_reported_line_is_known(line: str, name: str, nature: Nature) -> None:
    """Each has a name, whether another try helps, and what to change."""
    found = read(f"INFO loading\n{line}\nRuntimeError: Engine core initialization failed. See root cause above.\n")
    assert found is not None
    assert (found.name, found.nature) == (name, nature)
    assert found.said == line[-300:]
    assert found.remedy


@pytest.mark.parametrize(("file", "name"), EXPECTED.items())
def test_end_of_a_real_log_is_known(file: str, name: str) -> None:
    """vLLM 0.32 was started wrongly in each of these ways; the last 2048 bytes of what it printed tell why."""
    found = read((RECORDED / f"{file}.txt").read_text())
    assert found is not None
    assert (found.name, found.nature) == (name, Nature.PERMANENT)


def test_every_recorded_end_is_expected() -> None:
    """A file that no test reads is a wish."""
    assert {file.stem for file in RECORDED.glob("*.txt")} == set(EXPECTED)


def test_cause_above_the_last_words_is_found_in_the_log() -> None:
    """A head with a tensor that the engine does not know: 120 lines above the end, which only tells that one failed."""
    log = (RECORDED / "engine-process.log").read_text()
    assert read(log[-2048:]) is None
    found = failures.of_log(log)
    assert found is not None
    assert found.name == "HeadKeysUnknown"
    assert "There is no module or parameter named 'layers.0.self_attn.nope_proj'" in found.said


@pytest.mark.parametrize(("line", "name", "nature"), REPORTS, ids=[row[0][:60] for row in REPORTS])
def test_reported_line_is_known_in_a_workers_log(line: str, name: str, nature: Nature) -> None:
    """Workers put a prefix before every line, and progress around it speaks of connections and caches."""
    found = failures.of_log(
        f"(Worker pid=7) INFO 11-30 [x.py:1] Permission denied for the cache, using another\n"
        f"(Worker pid=7) ERROR 11-30 [multiproc_executor.py:953] {line}\n"
        "(APIServer pid=1) INFO 11-30 [x.py:1] Connection refused, waiting\n"
        "RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert found is not None
    assert (found.name, found.nature) == (name, nature)


def test_lack_of_memory_explains_what_follows_it() -> None:
    """The other ranks' collectives fail below the line that matters."""
    found = read("torch.OutOfMemoryError: CUDA out of memory.\nRuntimeError: NCCL error: unhandled cuda error\n")
    assert found is not None
    assert found.nature is Nature.MEMORY


def test_last_line_counts_among_several() -> None:
    """An early warning about a cache folder is not why an engine ends."""
    found = read("WARNING: Permission denied: /.triton\nValueError: layer 78 weights missing\n")
    assert found is not None
    assert found.name == "LayerWeightsMissing"


def test_unknown_words_and_good_ends_are_no_fault() -> None:
    """What the table does not know stays open."""
    assert read("RuntimeError: Engine core initialization failed. See root cause above.") is None
    assert read("KeyError: 'layers.0'", exit_code=0, reason="Completed") is None


def test_killed_for_memory_names_the_limit() -> None:
    """The container's own limit, in which /dev/shm counts, whatever its log said."""
    found = read("ValueError: layer 78 weights missing", reason="OOMKilled", exit_code=137)
    assert found is not None
    assert "limits.memory" in found.remedy


@pytest.mark.parametrize("reason", faults.WAITING)
def test_refused_container_is_told_with_a_remedy(reason: str) -> None:
    """Kubernetes' own words go along, on one line."""
    found = failures.of_waiting(reason=reason, message="container has runAsNonRoot\n and image will run as root")
    assert found is not None
    assert found.said == "container has runAsNonRoot and image will run as root"


@pytest.mark.parametrize("reason", ["", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"])
def test_container_on_its_way_has_no_fault(reason: str) -> None:
    """These are waits; a crash loop is told by how it ended."""
    assert failures.of_waiting(reason=reason, message="") is None


@hypothesis.given(message=st.text(max_size=3000), code=st.integers(0, 255))
def test_any_words_are_read(message: str, code: int) -> None:
    """A log is a tenant's text: it may be anything."""
    found = read(message, exit_code=code)
    assert found is None or len(found.said) <= 300
