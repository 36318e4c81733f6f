"""Which nodes take a pod: the scheduler's own rules for selectors, taints and node affinity."""

import pytest

from capacity import builders
from paceline.capacity import placement, reading

TAINTED = {"taints": [{"key": "gpu", "value": "h200", "effect": "NoSchedule"}], "labels": {"pool": "a", "rank": "7"}}


def admits(template: dict, **node: object) -> bool:
    """Whether the node takes the pod."""
    found = reading.node(builders.node("gpu-1", **node))
    assert found is not None
    return placement.admits(found, template)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (None, False),
        ({"key": "gpu", "value": "h200"}, True),
        ({"key": "gpu", "value": "h100"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_taint_needs_a_toleration_that_matches(*, toleration: dict | None, expected: bool) -> None:
    """Key, value and effect, with Exists for any value and no key for any taint."""
    template = {"tolerations": [toleration]} if toleration else {}
    assert admits(template, **TAINTED) is expected


def test_selector_has_to_match_every_label() -> None:
    """A label that is missing or other keeps the pod away."""
    assert admits({"nodeSelector": {"pool": "a"}}, labels={"pool": "a", "more": "x"})
    assert not admits({"nodeSelector": {"pool": "a", "zone": "1"}}, labels={"pool": "a"})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "pool", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "pool", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["1"]}, True),
        ({"key": "pool", "operator": "Exists"}, True),
        ({"key": "pool", "operator": "DoesNotExist"}, False),
        ({"key": "rank", "operator": "Gt", "values": ["6"]}, True),
        ({"key": "rank", "operator": "Lt", "values": ["6"]}, False),
        ({"key": "pool", "operator": "Gt", "values": ["1"]}, False),
    ],
)
def test_required_affinity_is_read_by_operator(*, expression: dict, expected: bool) -> None:
    """All expressions of one term have to hold."""
    assert admits(affinity([{"matchExpressions": [expression]}]), labels={"pool": "a", "rank": "7"}) is expected


def test_one_term_is_enough_and_an_empty_one_never() -> None:
    """Terms are alternatives; the node's name is a field."""
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}
    nowhere = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    assert admits(affinity([nowhere, by_name]))
    assert not admits(affinity([{}, nowhere]))


def affinity(terms: list[dict]) -> dict:
    """Return required node affinity."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def test_pinned_template_admits_its_nodes_only_and_keeps_what_it_asked_for() -> None:
    """Each of several terms is narrowed, since one of them is enough."""
    nodes = [
        reading.node(builders.node(name, labels={"gpu": gpu})) for name, gpu in (("a", "x"), ("b", "x"), ("c", "y"))
    ]
    terms = [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": [one]}]} for one in ("x", "z")]
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}

    def admitting(template: dict[str, object]) -> list[str]:
        return [node.name for node in nodes if node and placement.admits(node, template)]

    assert admitting({"affinity": wanted}) == ["a", "b"]
    assert admitting(placement.pinned({"affinity": wanted}, ["b", "c"])) == ["b"]
    assert admitting(placement.pinned({}, ["c"])) == ["c"]
