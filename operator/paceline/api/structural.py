"""Turns a pydantic model into the structural OpenAPI v3 schema that a CustomResourceDefinition needs.

The API server refuses references, unions and titles, and cannot bound the cost of a CEL rule over unbounded fields. So
references are inlined, optional fields lose their null, and what has no bound is refused here, where the message can
name the field, instead of at installation.
"""

import inspect
from collections.abc import Mapping
from typing import Any, Final

import pydantic

Schema = dict[str, Any]
"""A JSON schema, or one node of it."""

# What a structural schema may hold besides the x-kubernetes-* extensions, in the order in which it is written.
_ORDER: Final = (
    "description", "type", "format", "enum", "default", "anyOf", "minimum", "maximum", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "minProperties", "maxProperties", "required", "properties", "items",
    "additionalProperties",
)  # fmt: skip
# Said by JSON schema for readers and generators of code; no meaning to the API server.
_DROPPED: Final = frozenset({"title", "$defs", "discriminator"})


class UnstructuralError(ValueError):
    """A model holds what the API does not allow; the message names the field and what to change."""

    def __init__(self, path: str, problem: str) -> None:
        """Say ``problem`` of the field at ``path``."""
        super().__init__(f"{path}: {problem}")


def structural(model: type[pydantic.BaseModel]) -> Schema:
    """Return the structural schema of ``model``.

    Raises:
        UnstructuralError: when a field is a float or a union, or a string, list or map has no bound.
    """
    document = model.model_json_schema(by_alias=True, mode="validation")
    definitions = document.get("$defs", {})
    schema = _convert(document, definitions, model.__name__)
    _refuse_unbounded(schema, model.__name__)
    return schema


def without_defaults(schema: Schema) -> Schema:
    """Return ``schema`` with no defaults in it: in a status, which is written whole, they would claim things."""
    stripped = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in stripped:
        stripped["properties"] = {name: without_defaults(child) for name, child in stripped["properties"].items()}
    if isinstance(stripped.get("items"), dict):
        stripped["items"] = without_defaults(stripped["items"])
    return stripped


def _convert(source: Mapping[str, Any], definitions: Mapping[str, Schema], path: str) -> Schema:
    """Return one node, everything below it included."""
    node = _optional(_resolve(source, definitions), definitions, path)
    schema = {key: value for key, value in node.items() if key not in _DROPPED}
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    _refuse_foreign_keywords(schema, path)
    if "description" in schema:
        schema["description"] = _plain(schema["description"])
    if "properties" in schema:
        schema["properties"] = {
            name: _convert(child, definitions, f"{path}.{name}") for name, child in schema["properties"].items()
        }
    if "items" in schema:
        schema["items"] = _convert(schema["items"], definitions, f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        schema["additionalProperties"] = _convert(schema["additionalProperties"], definitions, f"{path}{{}}")
    _settle_default(schema, path)
    return {key: schema[key] for key in sorted(schema, key=_position) if not _says_nothing(key, schema[key])}


def _position(key: str) -> int:
    """Return where a keyword stands in its node: what a reader looks for first comes first."""
    return _ORDER.index(key) if key in _ORDER else len(_ORDER)


def _says_nothing(key: str, value: Any) -> bool:
    """Whether a lower bound is none: zero characters or items."""
    return key in {"minLength", "minItems", "minProperties"} and value == 0


def _resolve(source: Mapping[str, Any], definitions: Mapping[str, Schema]) -> Schema:
    """Return ``source`` with its reference replaced by what it stands for; what is said at the use wins."""
    node = dict(source)
    while "$ref" in node:
        name = node.pop("$ref").removeprefix("#/$defs/")
        node = {**definitions[name], **node}
    return node


def _optional(node: Schema, definitions: Mapping[str, Schema], path: str) -> Schema:
    """Return ``node`` without its null: the API server prunes nulls, so that absent and null are the same."""
    if "anyOf" not in node or node.get("x-kubernetes-int-or-string"):
        return node
    rest = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
    if len(rest) != 1:
        raise UnstructuralError(path, "is a union; give each form a field of its own and a CEL rule over them")
    outer = {key: value for key, value in node.items() if key != "anyOf"}
    return _optional({**_resolve(rest[0], definitions), **outer}, definitions, path)


def _settle_default(schema: Schema, path: str) -> None:
    """Keep a default that says something; an object's own is what its fields' defaults make of an empty one.

    It is spelled out, since the API server tries the rules on a default before it fills the fields below. Empty lists
    and maps are left out: they mean the same as absent, and would be written into every stored object.
    """
    said = _without_empty(schema.pop("default", None))
    if said in (None, [], {}):
        return
    if "properties" in schema:
        filled = {name: child["default"] for name, child in schema["properties"].items() if "default" in child}
        if said != filled:
            raise UnstructuralError(
                path, f"has the default {said}, and its fields' own make {filled}; say it in one place"
            )
    schema["default"] = said


def _without_empty(value: Any) -> Any:
    """Return a default without what means absent: nulls, and empty lists and maps in it."""
    if not isinstance(value, dict):
        return value
    kept = {key: _without_empty(child) for key, child in value.items()}
    return {key: child for key, child in kept.items() if child not in (None, [], {})}


def _plain(docstring: str) -> str:
    """Return a docstring as ``kubectl explain`` shows it: paragraphs on one line each, no markup."""
    paragraphs = inspect.cleandoc(docstring).replace("``", "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _refuse_foreign_keywords(schema: Schema, path: str) -> None:
    """Raise for what a structural schema may not hold."""
    for key in schema:
        if key not in _ORDER and not key.startswith("x-kubernetes-"):
            raise UnstructuralError(path, f"{key} has no place in a structural schema; say it as a CEL rule")


def _refuse_unbounded(schema: Schema, path: str) -> None:
    """Raise for the first float, and the first string, list or map without a bound."""
    problem = _unbounded(schema)
    if problem:
        raise UnstructuralError(path, problem)
    for name, child in schema.get("properties", {}).items():
        _refuse_unbounded(child, f"{path}.{name}")
    if "items" in schema:
        _refuse_unbounded(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        _refuse_unbounded(schema["additionalProperties"], f"{path}{{}}")


def _unbounded(schema: Schema) -> str | None:
    """Return what is wrong with this node alone."""
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string"):
        return None
    problem = None
    match schema.get("type"):
        case "number":
            problem = "is a float; use an integer percent, or Decimal"
        case "string" if "enum" not in schema and "maxLength" not in schema:
            problem = "is a string without maxLength; use one of the bounded types of paceline.api.base"
        case "array" if "maxItems" not in schema or "x-kubernetes-list-type" not in schema:
            problem = "is a list without a bound or a list type; use list_field(max_items=...)"
        case "object" if "properties" not in schema and "maxProperties" not in schema:
            problem = "is a map without maxProperties; use Field(max_length=...)"
        case None:
            problem = "has no type; the API server accepts typed fields only"
    return problem
