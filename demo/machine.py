"""Getting this machine ready: programs, environments, a bed, images, volumes; all of it cached."""

import concurrent.futures
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bedctl import node, record, teardown, up, volumes
from demo import bedimages, manifests
from demo.cluster import Cluster
from demo.console import Console
from demo.flow import Images

REPOSITORY = Path(__file__).resolve().parent.parent
NAMESPACE = "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """What takes long to make or fetch, and lies in the cache."""

    environment: Path
    model: Path


def describe() -> str:
    """Return the machine in words: processor, cores, vector units."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "?")
    flags = set(next((line for line in lines if line.startswith("flags")), "").split())
    vector = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]
    return f"{model}, {os.cpu_count()} cores, {' '.join(vector)}, {platform.platform()}"


def prepare(console: Console) -> Materials:
    """Build and fetch what is missing: Go programs by the processor, Python packages by the network, side by side."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        programs = pool.submit(up.build)
        environment = pool.submit(_script, "venv")
        model = pool.submit(lambda: (environment.result(), _script("model"))[1])
        jobs = {"Kubernetes from Go modules": programs, "vLLM and speculators": environment, "target weights": model}
        while missing := [name for name, job in jobs.items() if not job.done()]:
            console.progress(f"building or fetching once, for all later runs: {', '.join(missing)}")
            concurrent.futures.wait([jobs[name] for name in missing], timeout=2, return_when="FIRST_COMPLETED")
        programs.result()
        return Materials(environment=Path(environment.result()), model=Path(model.result()))


def start_bed(name: str, materials: Materials) -> Cluster:
    """Bring up a fresh bed with one node, its images and its volumes, and return it."""
    teardown_bed(name)
    bed = up.up(name=name, nodes=1, mounts=())
    for archive in bedimages.build(environment=materials.environment).values():
        node.load(bed, archive)
    volumes.create(bed, "models", source=None, storage_class="")
    volumes.create(bed, "training", source=None, storage_class="")
    volumes.create(bed, "drafts", source=None, storage_class="")
    copied = bed.layout.storage / "models" / "smollm2-135m"
    subprocess.run(["cp", "-r", "--reflink=auto", str(materials.model), str(copied)], check=True)
    cluster = Cluster.connect(
        kubeconfig=bed.layout.kubeconfig, helm=str(bed.layout.programs / "helm"), namespace=NAMESPACE
    )
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        }
    )
    for claim in ("models", "training", "drafts"):
        cluster.apply(manifests.claim(claim, claim))
    return cluster


def teardown_bed(name: str) -> None:
    """Remove the bed and everything it left."""
    with record.exclusive("beds"):
        teardown.down(name)


def bed_images() -> Images:
    """Return the names under which a bed's node knows the images."""
    return Images(operator=bedimages.OPERATOR, trainer=bedimages.TRAINER, engine=bedimages.ENGINE)


def _script(verb: str) -> str:
    command = [sys.executable, str(REPOSITORY / "requirements" / "cpu_env.py"), verb]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"cpu_env.py {verb} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout.strip().splitlines()[-1]
