"""The dtype follows the processor's flags."""

import pytest

from paceline.stages.cpu import hardware

CPUINFO = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2 {extra}\n\nprocessor\t: 1\nflags\t\t: other\n"


@pytest.mark.parametrize(
    ("extra", "dtype"), [("", "float32"), ("avx512f", "float32"), ("avx512_bf16", "bfloat16"), ("amx_bf16", "bfloat16")]
)
def test_bfloat16_needs_its_instructions(extra, dtype):
    """Without them it is emulated and slower than float32."""
    assert hardware.dtype(hardware.flags(CPUINFO.format(extra=extra))) == dtype


def test_no_cpuinfo_is_the_safe_choice():
    """A machine that tells nothing gets what runs everywhere."""
    assert hardware.dtype(hardware.flags("")) == "float32"


def test_limit_of_the_pod_bounds_the_threads(monkeypatch):
    """A pod may see 64 cores and be allowed one and a half."""
    monkeypatch.setattr(hardware.os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(hardware, "_quota", lambda: 1.5)
    assert hardware.cores() == 1
    monkeypatch.setattr(hardware, "_quota", lambda: None)
    assert hardware.quota_cores() is None
    assert hardware.cores() == 64


@pytest.mark.parametrize(("text", "cores"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("broken", None)])
def test_control_group_limit_is_read(monkeypatch, tmp_path, text, cores):
    """Version 2 of control groups says quota and period in one file."""
    path = tmp_path / "cpu.max"
    path.write_text(text)
    monkeypatch.setattr(hardware, "_CGROUP_V2", path)
    assert hardware._quota() == cores
