"""Whether a pod may run on a node, by selector, taints and required node affinity.

Affinity to other pods and spreading are left out: they speak of pods that a forecast does not see, and a forecast that
says yes too often is corrected by the scheduler, while one that says no too often would keep a candidate waiting.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from paceline.planning import fleet


def admits(node: fleet.Node, template: Mapping[str, Any]) -> bool:
    """Whether ``node`` takes a pod placed by ``template`` (nodeSelector, tolerations, affinity), room aside."""
    return node.usable and _selected(node, template) and _tolerated(node, template) and _attracted(node, template)


def pinned(template: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """Return ``template`` for a pod that may run on these nodes only, beside all that it asks for itself."""
    affinity = template.get("affinity") or {}
    own = affinity.get("nodeAffinity") or {}
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    here = {"key": "metadata.name", "operator": "In", "values": list(nodes)}
    terms: Sequence[Mapping[str, Any]] = (own.get(field) or {}).get("nodeSelectorTerms") or ({},)
    required = {"nodeSelectorTerms": [{**one, "matchFields": [*(one.get("matchFields") or ()), here]} for one in terms]}
    return {**template, "affinity": {**affinity, "nodeAffinity": {**own, field: required}}}


def _selected(node: fleet.Node, template: Mapping[str, Any]) -> bool:
    return all(node.labels.get(key) == value for key, value in (template.get("nodeSelector") or {}).items())


def _tolerated(node: fleet.Node, template: Mapping[str, Any]) -> bool:
    tolerations = template.get("tolerations") or ()
    return all(any(_tolerates(one, taint) for one in tolerations) for taint in node.taints)


def _tolerates(toleration: Mapping[str, Any], taint: fleet.Taint) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    key = toleration.get("key") or ""
    if key and key != taint.key:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == taint.value


def _attracted(node: fleet.Node, template: Mapping[str, Any]) -> bool:
    """Whether one of the required terms holds; an empty term holds nowhere, as the scheduler has it."""
    affinity = (template.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term_holds(node, term) for term in required.get("nodeSelectorTerms") or ())


def _term_holds(node: fleet.Node, term: Mapping[str, Any]) -> bool:
    labels, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not labels and not fields:
        return False
    name = {"metadata.name": node.name}
    return all(_holds(node.labels, one) for one in labels) and all(_holds(name, one) for one in fields)


def _holds(labels: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    test = _OPERATORS.get(expression["operator"])
    # An operator of a later Kubernetes: the scheduler knows.
    return test is None or test(labels.get(expression["key"]), expression.get("values") or ())


def _compares(value: str | None, wanted: Sequence[str], *, sign: int) -> bool:
    """Whether ``value`` is a number above (sign 1) or below (sign -1) the wanted one."""
    if value is None or not value.lstrip("-").isdigit():
        return False
    return sign * (int(value) - int(wanted[0])) > 0


_OPERATORS: Final[Mapping[str, Callable[[str | None, Sequence[str]], bool]]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, wanted: _compares(value, wanted, sign=1),
    "Lt": lambda value, wanted: _compares(value, wanted, sign=-1),
}
