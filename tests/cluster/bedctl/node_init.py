"""The first process of a node's pid namespace: its mounts, its programs, and burying the dead.

It runs as a file of its own (``python3 -I node_init.py PLAN``), so that a node depends on no search path. When it is
killed the kernel ends everything else in the node and takes the mounts away with it.
"""

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# The kubelet writes these for the whole machine. It gets a file of ours in their place: the machine keeps its own
# values, and nothing needs to be put back after a bed, however it ended.
SHIELDED = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)

START_TIMEOUT_S = 120.0
POLL_S = 0.05
RESTART_DELAY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start, as the orchestrator wrote it."""

    folder: Path
    path: str
    containerd: list[str]
    socket: str
    images: list[str]
    server: str
    kubelet: list[str]
    proxy: list[str]


def main(plan_file: str) -> None:
    """Build the node, then watch over it for ever."""
    document = json.loads(Path(plan_file).read_text())
    document["proxy"] = document.pop("kube-proxy")
    plan = Plan(**{**document, "folder": Path(document["folder"])})
    os.environ["PATH"] = f"{plan.path}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"
    separate_mounts()
    running = {start(plan, "containerd", plan.containerd): ("containerd", plan.containerd)}
    wait_until(lambda: containerd_answers(plan), what="containerd")
    for image in plan.images:
        subprocess.run([*ctr(plan), "images", "import", image], check=True, stdout=subprocess.DEVNULL)
    wait_until(lambda: server_is_ready(plan.server), what="the API server")
    for name, command in (("kubelet", plan.kubelet), ("kube-proxy", plan.proxy)):
        running[start(plan, name, command)] = (name, command)
    watch(plan, running)


def separate_mounts() -> None:
    """Give the node its own /proc, /run and a copy of /var that it can write to."""
    mount("--make-rprivate", "/")
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")
    for folder in ("netns", "containerd", "var/upper", "var/work", "sysctl"):
        Path("/run", folder).mkdir(parents=True)
    # kubelet and CNI insist on some folders below /var/lib and /var/log.
    mount("-t", "overlay", "-o", "lowerdir=/var,upperdir=/run/var/upper,workdir=/run/var/work", "overlay", "/var")
    for name in SHIELDED:
        setting = Path("/proc/sys", name)
        if setting.exists():
            shield = Path("/run/sysctl", name.replace("/", "."))
            shield.write_text(setting.read_text())
            mount("--bind", str(shield), str(setting))
    # Mounts of volumes must reach the containers that share them.
    mount("--make-rshared", "/")


def watch(plan: Plan, running: dict[int, tuple[str, list[str]]]) -> None:
    """Reap whatever ends in this namespace, and start the node's own programs again when they do."""
    while True:
        pid, status = os.wait()
        if pid not in running:
            continue
        name, command = running.pop(pid)
        print(f"{name} ended with {os.waitstatus_to_exitcode(status)}; starting it again", flush=True)
        time.sleep(RESTART_DELAY_S)
        running[start(plan, name, command)] = (name, command)


def start(plan: Plan, name: str, command: list[str]) -> int:
    """Start one of the node's programs with its own log and return its process number.

    Not by ``subprocess``: its book-keeping waits for children behind our back, and ``watch`` would miss their end.
    """
    with (plan.folder / f"{name}.log").open("ab") as log, Path(os.devnull).open() as nothing:
        sources = ((nothing, 0), (log, 1), (log, 2))
        actions = [(os.POSIX_SPAWN_DUP2, file.fileno(), target) for file, target in sources]
        return os.posix_spawnp(command[0], command, os.environ, file_actions=actions)


def ctr(plan: Plan) -> list[str]:
    """Return the beginning of a command to the kubelet's containers."""
    return ["ctr", "--address", plan.socket, "--namespace", "k8s.io"]


def containerd_answers(plan: Plan) -> bool:
    """Say whether containerd takes calls: its socket is there before it does."""
    if not Path(plan.socket).exists():
        return False
    return subprocess.run([*ctr(plan), "version"], check=False, capture_output=True).returncode == 0


def server_is_ready(server: str) -> bool:
    """Ask /readyz, which is open to everyone; who answers is checked by the kubelet's own certificates."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"{server}/readyz", timeout=2, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_until(claim: Callable[[], bool], *, what: str) -> None:
    """Ask until the claim is true; a node that cannot start ends, and the orchestrator shows this log."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not claim():
        if time.monotonic() > deadline:
            sys.exit(f"{what} did not answer within {START_TIMEOUT_S:.0f} s; its log is beside this one")
        time.sleep(POLL_S)


def mount(*words: str) -> None:
    """Mount, or end the node."""
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
