"""Writes the CustomResourceDefinitions: ``python -m paceline.api.crd [--check]``.

The pydantic models are the one source. What they say is written to ``crds/``, for ``kubectl apply -f``, and to the
chart's ``crds/``, for Helm. CI runs ``--check``, so that neither can be edited by hand or go stale.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from paceline.api import base, drafttrainingjob, speculativedeployment, structural

CATEGORY: Final = "paceline"
DEFAULT_FOLDERS: Final = (Path("crds"), Path("charts/paceline/crds"))
_HEADER: Final = "# Generated from operator/paceline/api by `make crds`: change the models there, not this file.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of ``kubectl get``."""

    name: str
    path: str
    type: str = "string"
    description: str
    priority: int = 0
    """0 for the usual table, 1 for ``-o wide`` only."""

    def wire(self) -> dict[str, Any]:
        """Return the column as the definition spells it."""
        column = {"name": self.name, "type": self.type, "jsonPath": self.path, "description": self.description}
        return {**column, "priority": self.priority} if self.priority else column


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResource:
    """One of our kinds, as the API server is told of it."""

    model: type[base.ApiModel]
    plural: str
    short_name: str
    columns: tuple[Column, ...]
    scale: bool = False
    """Whether ``kubectl scale`` and autoscalers may set spec.replicas."""

    @property
    def kind(self) -> str:
        """The kind's name: its model's."""
        return self.model.__name__

    @property
    def file_name(self) -> str:
        """Name of the generated file."""
        return f"{base.GROUP}_{self.plural}.yaml"


_AGE: Final = Column(name="Age", path=".metadata.creationTimestamp", type="date", description="Time since creation.")

RESOURCES: Final = (
    CustomResource(
        model=speculativedeployment.SpeculativeDeployment,
        plural="speculativedeployments",
        short_name="sdep",
        scale=True,
        columns=(
            Column(name="Speculation", path=".status.speculation", description="What drafts for users now."),
            Column(name="Ready", path=".status.readyReplicas", type="integer", description="Ready serving pods."),
            Column(name="Phase", path=".status.rollout.phase", description="Where the latest candidate stands."),
            Column(
                name="Ratio",
                path='.status.rollout.comparisons[?(@.against=="Control")].ratio',
                description="Throughput of the latest candidate over the control without speculation.",
            ),
            Column(
                name="Endpoint", path=".status.endpoint", priority=1, description="Where users call the served model."
            ),
            _AGE,
        ),
    ),
    CustomResource(
        model=drafttrainingjob.DraftTrainingJob,
        plural="drafttrainingjobs",
        short_name="dtj",
        columns=(
            Column(name="Phase", path=".status.phase", description="Where the run stands."),
            Column(name="Stage", path=".status.progress.stage", description="The stage that runs now."),
            Column(
                name="Percent", path=".status.progress.percent", type="integer", description="How much of it is done."
            ),
            Column(name="ETA", path=".status.progress.eta", priority=1, description="Time left in the stage."),
            Column(
                name="Acceptance",
                path=".status.output.acceptanceLength",
                description="Tokens a step on held-out prompts, of the published head.",
            ),
            _AGE,
        ),
    ),
)


def definition(resource: CustomResource) -> dict[str, Any]:
    """Return the CustomResourceDefinition of ``resource``.

    Raises:
        UnstructuralError: when its model holds what the API does not allow.
    """
    singular = resource.kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{base.GROUP}"},
        "spec": {
            "group": base.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": singular,
                "shortNames": [resource.short_name],
                "categories": [CATEGORY],
            },
            "versions": [_version(resource)],
        },
    }


def render(resource: CustomResource) -> str:
    """Return the generated file's text."""
    return _HEADER + yaml.dump(definition(resource), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def _version(resource: CustomResource) -> dict[str, Any]:
    """Return the entry of our one version."""
    subresources: dict[str, Any] = {"status": {}}
    if resource.scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "name": base.VERSION,
        "served": True,
        "storage": True,
        "subresources": subresources,
        "additionalPrinterColumns": [column.wire() for column in resource.columns],
        "schema": {"openAPIV3Schema": _root_schema(resource)},
    }


def _root_schema(resource: CustomResource) -> dict[str, Any]:
    """Return the schema of the whole object: type information and metadata are the API server's own."""
    schema = structural.structural(resource.model)
    properties = schema["properties"]
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": properties["spec"],
        "status": structural.without_defaults(properties["status"]),
    }
    return schema


class _Dumper(yaml.SafeDumper):
    """Writes what every YAML reader reads alike: no anchors, and quotes around text that begins like a number.

    PyYAML takes ``1e-4`` for text and leaves it bare; kubectl and Helm read a number there.
    """

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class's signature
        """Never use an anchor."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - as above
        """Indent the items of a list below its key."""
        super().increase_indent(flow, indentless=False)


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "'" if re.match(r"[-+]?\.?[0-9]", text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def stale(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that differ from what the models say, or that no model stands behind."""
    wanted = {resource.file_name: render(resource) for resource in RESOURCES}
    for folder in folders:
        for name, text in wanted.items():
            path = folder / name
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                yield path
        yield from sorted(path for path in folder.glob("*.yaml") if path.name not in wanted)


def write(folders: Sequence[Path]) -> None:
    """Write every definition into every folder, and remove what no model stands behind."""
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        for resource in RESOURCES:
            (folder / resource.file_name).write_text(render(resource), encoding="utf-8")
    for path in stale(folders):
        path.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the definitions, or compare; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m paceline.api.crd", description="Generate the CRDs from the models."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is stale")
    parser.add_argument("--output", type=Path, nargs="+", default=list(DEFAULT_FOLDERS), help="folders to write to")
    options = parser.parse_args(arguments)
    if not options.check:
        write(options.output)
        return 0
    outdated = list(stale(options.output))
    for path in outdated:
        print(f"{path} is not what operator/paceline/api says; run `make crds` and commit it", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    raise SystemExit(main())
