"""The command line: ``python3 -m bedctl up|down|status|...``; answers go to stdout, talk to stderr."""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bedctl import gpus, images, node, provider, record, status, teardown, up, volumes
from bedctl.errors import BedError
from bedctl.record import Bed


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a failure that the last line of stderr explains, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = options.command
    try:
        command(options)
    except BedError as error:
        sys.stderr.write(f"bedctl: {error}\n")
        return 1
    return 0


def _up(options: argparse.Namespace) -> None:
    cluster = provider.selected(options.bed).up(nodes=options.nodes, mounts=tuple(options.mount))
    if options.nodes and cluster.no_node_because is not None:
        sys.stderr.write(f"The control plane runs alone. {cluster.no_node_because}\n")
    _answer(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
    if cluster.programs is not None:
        _answer(f"export PATH={shlex.quote(str(cluster.programs))}:$PATH")


def _down(options: argparse.Namespace) -> None:
    if options.all:
        for name in record.names():
            teardown.down(name)
    else:
        provider.selected(options.bed).down()


def _build(_: argparse.Namespace) -> None:
    up.build()


def _status(options: argparse.Namespace) -> None:
    names = record.names() if options.all else [options.bed]
    _answer(json.dumps([status.describe(name) for name in names], indent=2))


def _image(options: argparse.Namespace) -> None:
    image = images.Image(
        name=options.name,
        env=dict(_pair(word, "=", "--env") for word in options.env),
        entrypoint=shlex.split(options.entrypoint),
        command=shlex.split(options.cmd),
        user=options.user,
        workdir=options.workdir,
        layers={target: Path(source) for source, target in (_pair(word, ":", "--layer") for word in options.layer)},
    )
    _answer(str(images.build(image)))


def _load(options: argparse.Namespace) -> None:
    for archive in options.archive:
        node.load(_existing(options.bed), archive)


def _gpus(options: argparse.Namespace) -> None:
    gpus.advertise(_existing(options.bed), options.node, options.count)


def _volume(options: argparse.Namespace) -> None:
    folder = volumes.create(
        _existing(options.bed), options.name, source=options.source, storage_class=options.storage_class
    )
    _answer(str(folder))


def _enter(options: argparse.Namespace) -> None:
    bed = _existing(options.bed)
    done = subprocess.run([*node.enter(bed, options.number), *options.words], check=False)
    raise SystemExit(done.returncode)


def _existing(name: str) -> Bed:
    bed = record.load(name)
    if bed is None:
        raise BedError(f"There is no bed {name}; start it with `bedctl up --bed {name}`.")
    return bed


def _pair(word: str, separator: str, option: str) -> tuple[str, str]:
    left, found, right = word.partition(separator)
    if not found:
        raise BedError(f"{option} {word!r} has no {separator!r}; write it as LEFT{separator}RIGHT.")
    return left, right


def _answer(text: str) -> None:
    sys.stdout.write(text + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bedctl", description="A real Kubernetes on one machine, without Docker.")
    parser.set_defaults(bed=os.environ.get("BED") or "default")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_up(commands)
    verb = _verb(commands, "down", _down, "remove a bed and everything that it left on the machine")
    verb.add_argument("--all", action="store_true", help="every bed that is recorded")
    _verb(commands, "build", _build, "build the programs into the cache, and start nothing")
    verb = _verb(commands, "status", _status, "print as JSON what runs")
    verb.add_argument("--all", action="store_true", help="every bed that is recorded")
    _add_image(commands)
    verb = _verb(commands, "load", _load, "give images to every node")
    verb.add_argument("archive", nargs="+", type=Path)
    verb = _verb(commands, "gpus", _gpus, "let a node advertise nvidia.com/gpu")
    verb.add_argument("node", help="e.g. node-1")
    verb.add_argument("count", type=int)
    _add_volume(commands)
    verb = _verb(commands, "enter", _enter, "run a command inside a node")
    verb.add_argument("--number", type=int, default=1, help="which node (1)")
    verb.add_argument("words", nargs="+", metavar="WORD")
    return parser


def _add_up(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    verb = _verb(commands, "up", _up, "start a bed, or do nothing if it runs; prints what to export")
    verb.add_argument("--nodes", type=int, default=int(os.environ.get("NODES") or "1"), help="0: none ($NODES, or 1)")
    verb.add_argument("--mount", action="append", default=[], help="a further folder for every container, read-only")


def _add_image(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    verb = _verb(commands, "image", _image, "make an OCI archive over the machine's own programs; prints its path")
    verb.add_argument("--name", required=True, help="e.g. localhost/paceline/operator:dev")
    verb.add_argument("--env", action="append", default=[], help="NAME=VALUE")
    verb.add_argument("--entrypoint", default="", help="as a shell would split it")
    verb.add_argument("--cmd", default="", help="as a shell would split it")
    verb.add_argument("--user", default="", help="a number; 65532 has a home")
    verb.add_argument("--workdir", default="/")
    verb.add_argument("--layer", action="append", default=[], help="SOURCE:TARGET, a folder or a file to copy in")


def _add_volume(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    verb = _verb(commands, "volume", _volume, "make a PersistentVolume of a new folder; prints the folder")
    verb.add_argument("name")
    verb.add_argument("--from", dest="source", type=Path, help="a folder to copy into it")
    verb.add_argument("--class", dest="storage_class", default="", help="storageClassName (none)")


def _verb(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    command: Callable[[argparse.Namespace], None],
    help_text: str,
) -> argparse.ArgumentParser:
    verb = commands.add_parser(name, help=help_text)
    verb.set_defaults(command=command)
    verb.add_argument("--bed", default=argparse.SUPPRESS, help="the bed's name ($BED, or default)")
    return verb


if __name__ == "__main__":
    sys.exit(main())
