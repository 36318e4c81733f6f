"""The bed itself: what runs on it, and that nothing of it stays."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import beds
from bedctl import cgroups, host, layout, network, node_init, processes, record

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NAME = beds.own("bedtest")
NOBODY = 65534
_TEXT: dict[str, Any] = {"capture_output": True, "text": True}

WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web-0, labels: {app: web}}
spec:
  securityContext: {runAsUser: 65532, runAsNonRoot: true}
  terminationGracePeriodSeconds: 0
  containers:
    - name: web
      image: localhost/bed/base:1
      imagePullPolicy: Never
      command: [python3, -m, http.server, "8080", --directory, /home/nonroot]
      readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
"""

ASK = textwrap.dedent(
    """
    import os, sys, urllib.request
    for host in sys.argv[1:]:
        print(os.getuid(), urllib.request.urlopen(f"http://{host}", timeout=5).status)
    """
)


def bedctl(*words: str, name: str = NAME) -> str:
    """Run the command line as a user does, and return what it answers."""
    done = subprocess.run(
        [sys.executable, "-m", "bedctl", words[0], "--bed", name, *words[1:]],
        check=False,
        capture_output=True,
        text=True,
        cwd=layout.source_root(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kubectl(*words: str, stdin: str | None = None) -> str:
    """Run kubectl as the bed's administrator, and return its output."""
    place = layout.Layout(name=NAME)
    command = [str(place.programs / "kubectl"), f"--kubeconfig={place.kubeconfig}", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def until(claim: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
    """Ask until the claim is true; the test fails when it is not in time."""
    deadline = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < deadline, f"{claim} was not true within {timeout_s} s"
        time.sleep(0.05)


def traces(bed: record.Bed | None = None) -> dict[str, object]:
    """Return everything on the machine that a bed touches; its link and routes are those of ``bed``."""
    place = layout.Layout(name=NAME)
    link = "" if bed is None else bed.network.host_link
    return {
        "namespaces": network.namespaces_of(NAME),
        "links": [line for line in _lines("ip", "-o", "link") if link and f" {link}@" in line],
        "routes": [line for line in _lines("ip", "route") if link and f"dev {link} " in line],
        "cgroups": [number for number in range(1, 10) if cgroups.exists(place.node_cgroup(number))],
        "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(place.root) in line],
        "processes": processes.marked(place),
        "folder": place.root.exists(),
        "sysctls": [Path("/proc/sys", name).read_text() for name in node_init.SHIELDED],
        "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "filter": _lines("nft", "list", "tables"),
    }


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture
def clean() -> Iterator[dict[str, object]]:
    """The machine without a bed of this name; skipped where it cannot host a node."""
    reason = host.why_no_node()
    if reason is not None:
        pytest.skip(reason)
    bedctl("down")
    yield traces()
    bedctl("down")


def ask_from_pod(*hosts: str) -> list[str]:
    """Call hosts by HTTP from the pod `web`; until they answer, since endpoints and names arrive a moment later."""
    answers: list[str] = []

    def answered() -> bool:
        place = layout.Layout(name=NAME)
        command = [str(place.programs / "kubectl"), f"--kubeconfig={place.kubeconfig}"]
        command += ["exec", "web-0", "--", "python3", "-c", ASK, *hosts]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        answers[:] = done.stdout.splitlines()
        return done.returncode == 0

    until(answered)
    return answers


def test_a_pod_runs_the_machines_python_as_nobody_and_is_reached_by_name(clean: dict[str, object]) -> None:
    """Image, mounts, network, Services and names work together, and a second `up` changes nothing."""
    del clean
    bedctl("up", "--nodes", "1")
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("wait", "--for=condition=Ready", "pod/web-0", "--timeout=60s")
    address = kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")

    answers = ask_from_pod("web", "web.default.svc.cluster.local", address)

    assert answers == ["65532 200"] * 3
    before = processes.marked(layout.Layout(name=NAME))
    bedctl("up", "--nodes", "1")
    assert set(before) <= set(processes.marked(layout.Layout(name=NAME)))


def test_volumes_gpus_and_images_reach_the_node(clean: dict[str, object], tmp_path: Path) -> None:
    """A pod of an own image as an ordinary user finds its code, writes to a volume, and GPUs are counted."""
    del clean
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "hello.py").write_text("import pathlib; pathlib.Path('/data/said').write_text('hello')\n")
    bedctl("up", "--nodes", "1")
    layer = f"{tmp_path / 'code'}:/opt/code"
    archive = bedctl("image", "--name", "localhost/test/hello:1", "--user", "65532", "--layer", layer).strip()
    bedctl("load", archive)
    folder = Path(bedctl("volume", "data").strip())
    bedctl("gpus", "node-1", "8")

    kubectl("apply", "-f", "-", stdin=_writer())
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/writer", "--timeout=60s")

    assert (folder / "said").read_text() == "hello"
    assert (folder / "said").stat().st_uid == 65532
    assert json.loads(kubectl("get", "node", "node-1", "-o", "json"))["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def _writer() -> str:
    return """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteMany], volumeName: data, storageClassName: "", resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  restartPolicy: Never
  containers:
    - name: writer
      image: localhost/test/hello:1
      command: [python3, /opt/code/hello.py]
      resources: {limits: {nvidia.com/gpu: "1"}}
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


def test_pods_of_two_nodes_reach_each_other(clean: dict[str, object]) -> None:
    """A second node joins a running bed, and a Service reaches a pod on the other node."""
    del clean
    bedctl("up", "--nodes", "1")
    bedctl("up", "--nodes", "2")
    kubectl("apply", "-f", "-", stdin=_pinned(WEB, "node-1"))
    kubectl("apply", "-f", "-", stdin=_pinned(WEB, "node-2").replace("web", "far"))
    kubectl("wait", "--for=condition=Ready", "pod/web-0", "pod/far-0", "--timeout=60s")

    assert ask_from_pod("web", "far") == ["65532 200"] * 2


def _pinned(manifest: str, node: str) -> str:
    return manifest.replace("spec:\n  securityContext", f"spec:\n  nodeName: {node}\n  securityContext", 1)


def test_down_leaves_nothing_behind(clean: dict[str, object]) -> None:
    """After a bed with a running pod the machine is as before, its system settings never changed meanwhile."""
    bedctl("up", "--nodes", "1")
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("wait", "--for=condition=Ready", "pod/web-0", "--timeout=60s")
    bed = record.load(NAME)
    during = traces(bed)
    assert all(during[kind] for kind in ("namespaces", "links", "routes", "cgroups", "processes", "folder"))
    assert during["sysctls"] == clean["sysctls"]

    bedctl("down")

    assert traces(bed) == clean


def test_up_starts_over_the_remains_of_a_killed_bed(clean: dict[str, object]) -> None:
    """Everything of a bed is killed and its record torn; `up` gives a new one, and `down` still cleans all."""
    place = layout.Layout(name=NAME)
    bedctl("up", "--nodes", "1")
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("wait", "--for=condition=Ready", "pod/web-0", "--timeout=60s")
    bed = record.load(NAME)
    for process in processes.marked(place):
        process.kill(signal.SIGKILL)
    place.record.write_text('{"name": "bedte')

    bedctl("up", "--nodes", "1")

    kubectl("wait", "--for=condition=Ready", "node/node-1", "--timeout=5s")
    assert "web" not in kubectl("get", "pods", "-o", "name")
    bedctl("down")
    assert traces(bed) == clean


def test_two_beds_live_side_by_side(clean: dict[str, object]) -> None:
    """Beds of different names share nothing: taking one down leaves the other serving."""
    del clean
    bedctl("up", "--nodes", "0")
    bedctl("up", "--nodes", "0", name=f"{NAME}2")

    bedctl("down", name=f"{NAME}2")

    assert kubectl("get", "--raw", "/readyz") == "ok"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root can")
def test_an_ordinary_user_gets_a_control_plane(tmp_path: Path) -> None:
    """Without root the API server serves on loopback, and a node is refused with the reason."""
    cache = tmp_path / "paceline"
    cache.mkdir()
    (cache / "programs").symlink_to(layout.cache_root() / "programs")
    for path in (tmp_path, cache):
        os.chown(path, NOBODY, NOBODY)

    try:
        exports = _as_nobody(tmp_path, "up", "--nodes", "0")
        refused = _as_nobody(tmp_path, "up", "--nodes", "1")
        status = json.loads(_as_nobody(tmp_path, "status").stdout)
        kubeconfig = f"--kubeconfig={status[0]['kubeconfig']}"
        answer = subprocess.run(
            [f"{status[0]['programs']}/kubectl", kubeconfig, "get", "--raw", "/readyz"], check=False, **_TEXT
        )
    finally:
        down = _as_nobody(tmp_path, "down")

    assert "export KUBECONFIG=" in exports.stdout, exports.stderr
    assert "A node needs root" in refused.stderr
    assert status[0]["server"].startswith("https://127.0.0.1:")
    assert answer.stdout == "ok", answer.stderr
    assert down.returncode == 0, down.stderr
    assert not (cache / "run" / NAME).exists()


def _as_nobody(cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user who may read what root may, since the cache and Python can be root's own."""
    capability = "+dac_read_search"
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    drop += [f"--inh-caps={capability}", f"--ambient-caps={capability}"]
    command = [*drop, sys.executable, "-B", "-m", "bedctl", words[0], "--bed", NAME, *words[1:]]
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "HOME": str(cache)}
    return subprocess.run(command, cwd=layout.source_root(), env=env, check=False, **_TEXT)
