"""Names and labels of what the operator makes.

A name is ``<cr>-<part>-<hash8>``: at most 63 characters, hashed over our own input, so that two owners whose names
share their first 50 characters still get distinct children. A part says what an object is (``server``, ``probe``,
``extract``); it never says which role it plays in a canary, since promotion must rename nothing.
"""

import hashlib
import json
import re
from typing import Any, Final

MAX_LABEL: Final = 63
FIELD_MANAGER: Final = "paceline"

LABEL_DEPLOYMENT: Final = "paceline.dev/deployment"
LABEL_TRAINING_JOB: Final = "paceline.dev/training-job"
LABEL_PART: Final = "paceline.dev/part"
LABEL_REVISION: Final = "paceline.dev/revision"
LABEL_STAGE: Final = "paceline.dev/stage"
# On the record of an open rollout: its annotation tells which pods it was promised devices for, or asks them for.
LABEL_CLAIM: Final = "paceline.dev/claim"
ANNOTATION_CLAIM: Final = "paceline.dev/claimed-pods"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_INSTANCE: Final = "app.kubernetes.io/instance"

# Verbs: each value names the revision (its short hash) it is meant for, so that a re-applied manifest never acts on
# the next candidate. Handled ones are recorded in the rollout's evidence.
ANNOTATION_PROMOTE: Final = "paceline.dev/promote"
ANNOTATION_ABORT: Final = "paceline.dev/abort"
ANNOTATION_RETRY: Final = "paceline.dev/retry"
ANNOTATION_UNDO: Final = "paceline.dev/undo"
ANNOTATION_PAUSE: Final = "paceline.dev/pause"
# On a child: the digest of the input it was rendered from, by which a settled world is recognised without a diff.
ANNOTATION_INPUT: Final = "paceline.dev/input-digest"


def canonical(document: Any) -> bytes:
    """Return one byte string for one JSON document, whatever the order of its keys."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(document: Any) -> str:
    """Return ``sha256:<hex>`` of a JSON document."""
    return "sha256:" + hashlib.sha256(canonical(document)).hexdigest()


def short(digest_or_text: str) -> str:
    """Return the eight characters that stand for a digest in names and labels."""
    if digest_or_text.startswith("sha256:"):
        return digest_or_text[7:15]
    return hashlib.sha256(digest_or_text.encode()).hexdigest()[:8]


def child(owner: str, part: str, token: str) -> str:
    """Return the name of a child of ``owner``: ``<owner>-<part>-<hash8>``.

    Args:
        owner: name of the owning resource, up to 253 characters, dots allowed.
        part: what the child is, such as ``server``.
        token: what tells this child from its siblings; a digest, or any text of ours.
    """
    tail = f"-{part}-{short(digest({'owner': owner, 'token': token}))}"
    return _label_head(owner)[: MAX_LABEL - len(tail)].rstrip("-") + tail


def front(owner: str) -> str:
    """Return the name of the Service that users call: the owner's own name wherever that can be one."""
    head = _label_head(owner)
    if head == owner and len(owner) <= MAX_LABEL:
        return owner
    return child(owner, "front", owner)


def label_value(name: str) -> str:
    """Return ``name`` as a label value: itself up to 63 characters, else shortened and made distinct by a hash."""
    if len(name) <= MAX_LABEL:
        return name
    return name[: MAX_LABEL - 9].rstrip("-.") + "-" + short(name)


def _label_head(name: str) -> str:
    """Return ``name`` with what a DNS label may not hold replaced; it starts with a letter, as a Service must."""
    head = re.sub(r"[^a-z0-9-]", "-", name.lower()).strip("-")
    return head if head[:1].isalpha() else f"p-{head}"
