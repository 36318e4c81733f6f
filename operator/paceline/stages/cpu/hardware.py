"""What this pod's processor can do, and how much of it the pod may use."""

import math
import os
from pathlib import Path
from typing import Final

# Instructions on bfloat16; without them it is emulated, at less than half the speed of float32.
_BFLOAT16_FLAGS: Final = frozenset({"avx512_bf16", "amx_bf16"})
_CGROUP_V2: Final = Path("/sys/fs/cgroup/cpu.max")
_CGROUP_V1_QUOTA: Final = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
_CGROUP_V1_PERIOD: Final = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def read_cpuinfo() -> str:
    """Return /proc/cpuinfo, or nothing where there is none."""
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def flags(cpuinfo: str) -> frozenset[str]:
    """Return the flags of the first processor in the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return frozenset(value.split())
    return frozenset()


def dtype(processor_flags: frozenset[str]) -> str:
    """Return the type to compute in, by the name that vLLM and torch share."""
    return "bfloat16" if processor_flags & _BFLOAT16_FLAGS else "float32"


def cores() -> int:
    """Return whole cores this pod may use."""
    return quota_cores() or len(os.sched_getaffinity(0))


def quota_cores() -> int | None:
    """Return the pod's CPU limit in whole cores, or None when it may use all it sees."""
    quota = _quota()
    available = len(os.sched_getaffinity(0))
    return None if quota is None or quota >= available else max(1, math.floor(quota))


def has_accelerator() -> bool:
    """Whether torch sees a GPU or the like."""
    return accelerator_count() > 0


def accelerator_count() -> int:
    """Return how many accelerators torch sees; none where torch is not installed."""
    try:
        import torch  # noqa: PLC0415 - only the trainer image has it
    except ImportError:
        return 0
    return int(torch.accelerator.device_count()) if torch.accelerator.is_available() else 0


def _quota() -> float | None:
    """Return the control group's CPU limit in cores, or None without one."""
    try:
        if _CGROUP_V2.exists():
            quota, period = _CGROUP_V2.read_text().split()
        else:
            quota, period = _CGROUP_V1_QUOTA.read_text().strip(), _CGROUP_V1_PERIOD.read_text().strip()
    except (OSError, ValueError):
        return None
    return int(quota) / int(period) if quota.isdigit() and int(period) else None
