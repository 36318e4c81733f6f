"""The cache: what is kept, indexed and told."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controller import builders
from paceline.api import names as labels
from paceline.controller import cache
from paceline.planning import kinds


def stored(*manifests):
    """Return a store that holds ``manifests``."""
    store = cache.Store()
    for manifest in manifests:
        store.put(manifest)
    return store


def names(manifests):
    """Return their names."""
    return [manifest["metadata"]["name"] for manifest in manifests]


def test_owned_returns_children_sorted_by_name():
    """Rooms see one order, whatever the watch's."""
    store = stored(builders.config_map("b", version="1"), builders.config_map("a", version="2"))
    assert names(store.owned(builders.OWNER_UID)) == ["a", "b"]


def test_object_that_changes_owner_leaves_the_old_index():
    """An index entry never outlives what it was made of."""
    store = stored(builders.config_map(version="1"))
    orphan = builders.config_map(version="2")
    orphan["metadata"]["ownerReferences"] = []
    store.put(orphan)
    assert store.owned(builders.OWNER_UID) == ()


def test_labelled_finds_indexed_and_other_labels():
    """A label outside the index costs a scan and gives the same answer."""
    pod = builders.config_map(version="1")
    pod["metadata"]["labels"]["app"] = "x"
    store = stored(pod)
    assert names(store.labelled(builders.NAMESPACE, "paceline.dev/training-job", "run")) == ["child"]
    assert names(store.labelled(builders.NAMESPACE, "app", "x")) == ["child"]
    assert store.labelled("elsewhere", "app", "x") == ()


def test_removed_object_is_in_no_index():
    """What is gone is gone everywhere."""
    store = stored(builders.config_map(version="1"))
    store.remove(builders.config_map(version="1"))
    assert store.owned(builders.OWNER_UID) == ()
    assert store.labelled(builders.NAMESPACE, "paceline.dev/training-job", "run") == ()
    assert len(store) == 0


def claiming(name, version, *, claims=True):
    """Return a record that carries a label which is asked for across namespaces, or has lost it."""
    manifest = builders.config_map(name, version=version)
    manifest["metadata"]["labels"] |= {labels.LABEL_CLAIM: "granted"} if claims else {}
    return manifest


CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "unmark", "remove", "list", "ask"]), st.sampled_from(["a", "b", "c"])),
    max_size=30,
)


@given(changes=CHANGES)
def test_marked_reads_each_version_of_what_stands_once(changes):
    """Whatever came and went between two questions."""
    reads, store, expected = Counter(), cache.Store(), {}

    def read(manifest):
        meta = manifest["metadata"]
        reads[meta["name"], meta["resourceVersion"]] += 1
        return meta["name"], meta["resourceVersion"]

    for at, (change, name) in enumerate([*changes, ("ask", "a")], start=1):
        one = claiming(name, str(at), claims=change != "unmark")
        if change == "remove":
            store.remove(one)
        elif change == "list":
            store.replace(None, [one])
        elif change != "ask":
            store.put(one)
        if change in {"remove", "unmark"}:
            expected.pop(name, None)
        elif change != "ask":
            expected = ({} if change == "list" else expected) | {name: str(at)}
        if change == "ask":
            assert sorted(store.marked(labels.LABEL_CLAIM, read)) == sorted(expected.items())
    assert set(reads.values()) <= {1}


def test_listed_finds_a_namespace_and_no_other():
    """Also after an object of the namespace has gone."""
    elsewhere = builders.config_map("a", version="3")
    elsewhere["metadata"]["namespace"] = "elsewhere"
    store = stored(builders.config_map("b", version="1"), builders.config_map("a", version="2"), elsewhere)
    assert names(store.listed(builders.NAMESPACE)) == ["a", "b"]
    store.remove(elsewhere)
    assert store.listed("elsewhere") == ()
    assert names(store.listed(builders.NAMESPACE)) == ["a", "b"]


def test_list_tells_what_vanished_and_what_changed():
    """Owners of objects deleted while no watch was open must hear of it."""
    world = builders.World()
    world.cache.put(kinds.CONFIG_MAP, builders.config_map("gone", version="1"))
    world.cache.put(kinds.CONFIG_MAP, builders.config_map("same", version="2"))
    world.changes.clear()
    fresh = [builders.config_map("same", version="2"), builders.config_map("new", version="4")]
    world.cache.replace(kinds.CONFIG_MAP, None, fresh, mark=world.fresh.list_begins())
    assert sorted(world.changes) == [("ConfigMap/gone", "1", None), ("ConfigMap/new", None, "4")]


def test_list_of_one_namespace_keeps_the_others():
    """A confined operator lists each namespace by itself."""
    world = builders.World()
    other = builders.config_map(version="1")
    other["metadata"]["namespace"] = "elsewhere"
    world.cache.put(kinds.CONFIG_MAP, other)
    world.cache.replace(kinds.CONFIG_MAP, builders.NAMESPACE, [], mark=world.fresh.list_begins())
    assert len(world.cache.store(kinds.CONFIG_MAP)) == 1


def test_namesake_with_another_uid_is_a_change():
    """Deleted and made again between two lists."""
    world = builders.World()
    world.cache.put(kinds.CONFIG_MAP, builders.config_map(version="1", uid="old"))
    world.changes.clear()
    fresh = [builders.config_map(version="1", uid="new")]
    world.cache.replace(kinds.CONFIG_MAP, None, fresh, mark=world.fresh.list_begins())
    assert len(world.changes) == 1
