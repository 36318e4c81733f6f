"""What a JSON merge patch makes of a document."""

import copy
from collections.abc import Mapping
from typing import Any


def merged(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``old`` after a JSON merge patch (RFC 7396); neither is changed, nor shared with what is returned."""
    made = {name: copy.deepcopy(one) for name, one in old.items() if name not in patch}
    for name, value in patch.items():
        if isinstance(value, Mapping):
            before = old.get(name)
            made[name] = merged(before if isinstance(before, Mapping) else {}, value)
        elif value is not None:
            made[name] = copy.deepcopy(value)
    return made
