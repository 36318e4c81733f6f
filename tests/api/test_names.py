"""Names of children: legal, distinct, and the same tomorrow."""

import re

from hypothesis import given
from hypothesis import strategies as st

from paceline.api import names

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
OWNERS = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True)


@given(OWNERS, st.sampled_from(["server", "extract", "rollout"]), st.text(max_size=80))
def test_child_name_is_a_dns_label_that_ends_in_its_hash(owner: str, part: str, token: str) -> None:
    """Pods, Services and labels all take it."""
    name = names.child(owner, part, token)
    assert len(name) <= names.MAX_LABEL
    assert DNS_LABEL.fullmatch(name)
    assert re.search(rf"-{part}-[0-9a-f]{{8}}$", name)


def test_owners_that_share_a_long_beginning_have_distinct_children() -> None:
    """The hash is over the whole name, not over what is left of it."""
    owner = "k" * 100
    assert names.child(owner + "a", "server", "t") != names.child(owner + "b", "server", "t")


def test_child_names_never_change_between_versions() -> None:
    """A new operator that names its children otherwise would make every one of them again."""
    assert names.child("kimi", "server", "sha256:" + "0" * 64) == "kimi-server-7a578b9e"


@given(OWNERS)
def test_front_service_has_a_legal_name(owner: str) -> None:
    """Users call it, so it is the owner's own name wherever that can be one."""
    name = names.front(owner)
    assert DNS_LABEL.fullmatch(name)
    assert len(name) <= names.MAX_LABEL
    if DNS_LABEL.fullmatch(owner) and len(owner) <= names.MAX_LABEL:
        assert name == owner


@given(OWNERS)
def test_label_value_is_legal_and_short_names_are_kept(owner: str) -> None:
    """Names may have 253 characters, label values 63."""
    value = names.label_value(owner)
    assert re.fullmatch(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", value)
    assert len(value) <= names.MAX_LABEL
    assert value == owner or len(owner) > names.MAX_LABEL


def test_digest_ignores_the_order_of_keys() -> None:
    """The API server returns keys in its own order."""
    assert names.digest({"a": 1, "b": "ü"}) == names.digest({"b": "ü", "a": 1})
    assert names.digest({"a": 1}) != names.digest({"a": "1"})


def test_short_form_of_a_digest_is_its_beginning() -> None:
    """People compare it with what a tool shows."""
    assert names.short("sha256:0123456789abcdef") == "01234567"
