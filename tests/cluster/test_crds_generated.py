"""Objects that nobody thought of: the models and a real API server must think the same of them.

They are generated from the definitions themselves. What the rules of CEL refuse is not a disagreement, since pydantic
does not know them; each refusal must then be one of our own messages.
"""

import functools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import crdrows
import ourkinds
from api import builders
from bedctl import provider
from paceline.api import crd

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

RESOURCES = {resource.kind: resource for resource in crd.RESOURCES}
BUILDERS = {"SpeculativeDeployment": builders.deployment, "DraftTrainingJob": builders.training_job}
RULE_MESSAGES = tuple({row.message for row in crdrows.RULES})
# What rules of CEL narrow further, as a user would write it, so that many objects are accepted.
LIKELY = {
    "uri": st.sampled_from(["pvc://models/a", "pvc://models/b/c.jsonl"]),
    "image": st.sampled_from([builders.IMAGE, f"registry.example:5000/vllm:v0.33.0@{builders.DIGEST}"]),
    "prompts": st.sampled_from([{"configMap": {"name": "prompts"}}, {"uri": "pvc://data/p.jsonl", "maxSamples": 9}]),
    "sequenceLength": st.integers(64, 4096),
    "method": st.sampled_from(["None", "Ngram"]),
}
ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
OPAQUE = st.dictionaries(ANYTHING.filter(bool), ANYTHING | st.integers(0, 9) | st.booleans(), max_size=3)
# The API server is asked over HTTP, and a slow machine is no failure of the property.
SLOW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.fixture(scope="module")
def kinds(control_plane: provider.Cluster) -> Iterator[ourkinds.Kinds]:
    """Our kinds, installed, in a namespace of this module's own."""
    with ourkinds.installed(control_plane.kubeconfig) as found:
        yield found


def values(schema: dict[str, Any], name: str = "", *, whole: bool = False) -> st.SearchStrategy[Any]:
    """Return what obeys one node of a schema; ``whole`` sets every optional field."""
    if name in LIKELY:
        return LIKELY[name]
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, 2**40) | st.from_regex(schema["pattern"].removesuffix("$") + r"\Z", fullmatch=True)
    kinds_of_value = {
        "string": lambda: _strings(schema),
        "integer": lambda: st.integers(schema.get("minimum", -(2**31)), schema.get("maximum", 2**31)),
        "boolean": st.booleans,
        "array": lambda: _lists(schema, whole=whole),
        "object": lambda: _objects(schema, whole=whole),
    }
    return kinds_of_value[schema["type"]]()


def _strings(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return st.datetimes().map(lambda moment: moment.isoformat() + "Z")
    least, most = schema.get("minLength", 0), schema["maxLength"]
    if "pattern" in schema:
        # "fullmatch" of Python's re; "\\Z" since "$" would also match before a line break at the end.
        found = st.from_regex(schema["pattern"].removesuffix("$") + r"\Z", fullmatch=True)
        return found.filter(lambda text: least <= len(text) <= most)
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=least, max_size=min(most, 60))


def _lists(schema: dict[str, Any], *, whole: bool) -> st.SearchStrategy[list[Any]]:
    bounds = {"min_size": schema.get("minItems", 0), "max_size": min(schema["maxItems"], 3)}
    items = values(schema["items"], whole=whole)
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys:
        return st.lists(items, unique_by=lambda item: tuple(item[key] for key in keys), **bounds)
    if schema["x-kubernetes-list-type"] == "set":
        return st.lists(items, unique=True, **bounds)
    return st.lists(items, **bounds)


def _objects(schema: dict[str, Any], *, whole: bool) -> st.SearchStrategy[dict[str, Any]]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return OPAQUE
    if "properties" not in schema:
        return st.dictionaries(ANYTHING.filter(bool), values(schema["additionalProperties"]), max_size=3)
    fields = {name: values(child, name, whole=whole) for name, child in schema["properties"].items()}
    if whole:
        return st.fixed_dictionaries(fields)
    required = {name: fields.pop(name) for name in schema.get("required", [])}
    return st.fixed_dictionaries(required, optional=fields)


@functools.cache
def _part(kind: str, part: str) -> dict[str, Any]:
    """Return the schema of ``spec`` or ``status``."""
    version = crd.definition(RESOURCES[kind])["spec"]["versions"][0]
    return version["schema"]["openAPIV3Schema"]["properties"][part]


@functools.cache
def _values(kind: str, part: str, *, whole: bool) -> st.SearchStrategy[Any]:
    """Return what obeys the schema of ``spec`` or ``status``; built once, since that takes longer than a draw."""
    return values(_part(kind, part), whole=whole)


@pytest.mark.parametrize("kind", RESOURCES)
@SLOW
@given(data=st.data())
def test_spec_that_the_models_accept_is_refused_by_rules_alone(
    kinds: ourkinds.Kinds, kind: str, data: st.DataObject
) -> None:
    """What the operator can read, a user can write, and the other way round."""
    document = {**builders.deployment(), "kind": kind, "spec": data.draw(_values(kind, "spec", whole=False))}
    resource = RESOURCES[kind].model.model_validate(document)
    refusal = kinds.refusal(document)
    event("refused by a rule" if refusal else "accepted")
    if refusal:
        assert any(message in refusal for message in RULE_MESSAGES), refusal
    else:
        stored = kinds.create(document, dry_run="All")
        assert RESOURCES[kind].model.model_validate(stored) == resource


@pytest.mark.parametrize("kind", RESOURCES)
@SLOW
@given(data=st.data())
def test_full_status_survives_the_schema_unpruned(kinds: ourkinds.Kinds, kind: str, data: st.DataObject) -> None:
    """A field that the schema lacks would vanish in silence, and be written again in every pass."""
    document = kinds.create(BUILDERS[kind](f"status-{uuid.uuid4().hex[:8]}"))
    status = data.draw(_values(kind, "status", whole=True))
    written = RESOURCES[kind].model.model_validate({**document, "status": status}).wire()["status"]
    assert kinds.write_status({**document, "status": written})["status"] == written


@pytest.mark.parametrize("kind", RESOURCES)
def test_value_beyond_any_bound_is_refused_by_both(kinds: ourkinds.Kinds, kind: str) -> None:
    """A bound that only one of the two knew would let an object in that stops its reader for ever."""
    tried = 0
    for path, wrong in _beyond(_part(kind, "spec")):
        document = BUILDERS[kind](**_nested(path, wrong))
        with pytest.raises(ValueError, match=path[-1]):
            RESOURCES[kind].model.model_validate(document)
        assert f"spec.{'.'.join(path)}" in kinds.refusal(document)
        tried += 1
    assert tried > 50  # the walk finds the bounds


def _beyond(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a path to each bounded field that lies below objects alone, with a value just beyond one bound."""
    for name, child in schema.get("properties", {}).items():
        here = (*path, name)
        if "minimum" in child and child.get("type") == "integer":
            yield here, child["minimum"] - 1
        if "maximum" in child and child.get("type") == "integer":
            yield here, child["maximum"] + 1
        if "maxLength" in child and child.get("type") == "string":
            yield here, "a" * (child["maxLength"] + 1)
        if "enum" in child:
            yield here, "Unheard"
        yield from _beyond(child, here)


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return a document with ``value`` at ``path``."""
    for step in reversed(path):
        value = {step: value}
    return value
