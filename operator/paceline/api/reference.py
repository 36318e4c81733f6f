"""Writes docs/api.md, the resources field by field: ``python -m paceline.api.reference [--check]``.

It says what the generated definitions say, so that a person reads the same text as ``kubectl explain`` prints.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from paceline.api import base, crd

DEFAULT_FILE: Final = Path("docs/api.md")
_HEADER: Final = """\
<!-- Generated from operator/paceline/api by `make crds`: change the models there, not this file. -->

# The resources

`{api_version}`. Both kinds are namespaced and have a status subresource. A field without a default and not marked
*optional* is required. Rules are enforced by the API server, with the messages given here.
"""


def render() -> str:
    """Return the whole page."""
    parts = [_HEADER.format(api_version=base.API_VERSION)]
    for resource in crd.RESOURCES:
        schema = crd.definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        parts.append(f"\n## {resource.kind} (`{resource.short_name}`)\n\n{schema.get('description', '')}\n")
        for half in ("spec", "status"):
            parts.append(f"\n### {resource.kind}.{half}\n\n| field | type | what it says |\n|---|---|---|\n")
            parts += [f"{row}\n" for row in _rows(schema["properties"][half], "")]
        rules = list(_rules(schema, ""))
        if rules:
            parts.append("\n### Rules\n\n")
            parts += [f"- `{path or 'the object'}`: {message}\n" for path, message in rules]
    return "".join(parts)


def _rows(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield a table row for every field below ``schema``, parents before children."""
    required = set(schema.get("required", ()))
    for name, child in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield f"| `{path}` | {_type(child)} | {_meaning(child, needed=name in required)} |"
        inner = child["items"] if isinstance(child.get("items"), dict) else child
        yield from _rows(inner, f"{path}[]." if inner is not child else f"{path}.")


def _type(schema: Mapping[str, Any]) -> str:
    """Return a type in a few words."""
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    return str(schema["type"])


def _meaning(schema: Mapping[str, Any], *, needed: bool) -> str:
    """Return description, default and bounds as one table cell."""
    said = [schema["description"].replace("\n\n", " ").replace("|", "\\|")] if "description" in schema else []
    default = schema.get("default")
    if default is not None and not isinstance(default, dict):
        said.append(f"Default `{json.dumps(default).strip(chr(34))}`.")
    elif not needed:
        said.append("*Optional.*")
    if "minimum" in schema and "maximum" in schema:
        said.append(f"{schema['minimum']} to {schema['maximum']}.")
    elif "minimum" in schema:
        said.append(f"At least {schema['minimum']}.")
    return " ".join(said)


def _rules(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, message) of every CEL rule."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, rule["message"]
    for name, child in schema.get("properties", {}).items():
        yield from _rules(child, f"{path}.{name}".lstrip("."))
    if isinstance(schema.get("items"), dict):
        yield from _rules(schema["items"], f"{path}[]")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or compare; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m paceline.api.reference", description="Generate docs/api.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is stale")
    parser.add_argument("--output", type=Path, default=DEFAULT_FILE, help="the page")
    options = parser.parse_args(arguments)
    text = render()
    if not options.check:
        options.output.write_text(text, encoding="utf-8")
        return 0
    if options.output.is_file() and options.output.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{options.output} is not what operator/paceline/api says; run `make crds` and commit it\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
