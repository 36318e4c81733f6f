"""``vllm serve`` on a CPU: the same command line as on a GPU, with what a CPU needs added where nobody said otherwise.

    python -m paceline.stages.cpu.engine serve MODEL ...

Image of a CPU engine puts this under the name ``vllm``. The process is replaced, so signals reach vLLM itself.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from paceline.stages.cpu import hardware

_CONNECTORS: Final = {
    # Its worker side copies through CUDA streams, which a CPU build of torch does not have.
    "ExampleHiddenStatesConnector": ("CpuHiddenStatesConnector", "paceline.stages.cpu.connector"),
}
_KV_TRANSFER: Final = "--kv-transfer-config"


def arguments(given: Sequence[str], *, dtype: str) -> list[str]:
    """Return ``vllm``'s arguments: those given, with CPU defaults for options that were not."""
    args = _swap_connector(list(given))
    if args[:1] != ["serve"]:
        return args
    if not _has(args, "--dtype"):
        args.append(f"--dtype={dtype}")
    # Compiling takes minutes on few cores and wins little there.
    if not _has(args, "--enforce-eager") and not _has(args, "--no-enforce-eager"):
        args.append("--enforce-eager")
    return args


def environment(given: Mapping[str, str], *, quota_cores: int | None) -> dict[str, str]:
    """Return the environment: that given, with CPU defaults for variables that are not set.

    Without a CPU limit vLLM's own binding stays: it leaves a core to its other processes, which poll, and two threads
    that wait for each other beside them were measured at a third of one thread's speed.
    """
    defaults = {
        # vLLM otherwise takes a share of the node's memory, whatever the pod's limit.
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if quota_cores is not None:
        # It sees the node's cores, not the limit: more threads than the limit allows are stopped in mid-step.
        defaults |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(quota_cores)}
    # The engine's workers are new interpreters that import our connector by name.
    root = str(Path(__file__).resolve().parents[3])
    search = [root, *filter(None, given.get("PYTHONPATH", "").split(os.pathsep))]
    return {**defaults, **given, "PYTHONPATH": os.pathsep.join(dict.fromkeys(search))}


def main() -> None:
    """Become vLLM."""
    args = arguments(sys.argv[1:], dtype=hardware.dtype(hardware.flags(hardware.read_cpuinfo())))
    env = environment(os.environ, quota_cores=hardware.quota_cores())
    os.execve(  # noqa: S606 - replaces this process, no shell
        sys.executable, [sys.executable, "-m", "vllm.entrypoints.cli.main", *args], env
    )


def _has(args: Sequence[str], option: str) -> bool:
    return any(arg == option or arg.startswith(f"{option}=") for arg in args)


def _swap_connector(args: list[str]) -> list[str]:
    """Return arguments in which the KV transfer names our connector wherever it named one that needs CUDA."""
    for index, arg in enumerate(args):
        if arg == _KV_TRANSFER and index + 1 < len(args):
            args[index + 1] = _swapped(args[index + 1])
        elif arg.startswith(f"{_KV_TRANSFER}="):
            args[index] = f"{_KV_TRANSFER}={_swapped(arg.partition('=')[2])}"
    return args


def _swapped(text: str) -> str:
    """Return the JSON with the connector swapped; what is not our business is left for vLLM to judge."""
    try:
        document: Any = json.loads(text)
    except ValueError:
        return text
    if not isinstance(document, dict) or document.get("kv_connector") not in _CONNECTORS:
        return text
    name, module = _CONNECTORS[document["kv_connector"]]
    return json.dumps({**document, "kv_connector": name, "kv_connector_module_path": module})


if __name__ == "__main__":
    main()
