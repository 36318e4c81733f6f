"""Whose log is asked for, and what it changes."""

from paceline.planning import kinds
from paceline.rollout.view import endings
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import history

LAST_WORDS = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
CAUSE = "(Worker pid=9) ERROR 11-30 [x.py:953] ValueError: There is no module or parameter named 'layers.0.x'"
TITLE = "EAGLE3 k=3"


def crashing() -> Cluster:
    """Return a cluster whose candidate has ended once, with words that tell nothing."""
    cluster = Cluster()
    cluster.crashing, cluster.last_words = {TITLE}, LAST_WORDS
    cluster.until(lambda: bool(asked(cluster)))
    return cluster


def asked(cluster: Cluster) -> list[str]:
    """Return the logs that are asked for."""
    return [one.url for one in cluster.room.polled(cluster.picture(), cluster.key) if one.wants == "log"]


def test_log_is_asked_for_when_the_last_words_tell_nothing() -> None:
    """Of the engine's container, of the run that ended, and a bounded part of it."""
    cluster = crashing()
    (url,) = asked(cluster)
    path, _, query = url.partition("?")
    pod = next(one["metadata"]["name"] for one in cluster.objects(kinds.POD) if one["metadata"]["name"] in path)
    assert path == f"/api/v1/namespaces/{builders.NAMESPACE}/pods/{pod}/log"
    assert query == "container=engine&previous=true&tailLines=1000&limitBytes=250000"


def test_cause_in_the_log_ends_the_rollout_at_once() -> None:
    """No second try: the head has a tensor that the engine does not know."""
    cluster = crashing()
    pods = {one["metadata"]["uid"]: f"{CAUSE}\n{LAST_WORDS}\n" for one in cluster.objects(kinds.POD)}
    cluster.logs = pods
    cluster.operate()
    last = history(cluster).stored[-1].record
    assert last.reason == "HeadLoadFailed"
    assert "HeadKeysUnknown" in last.message
    assert "'layers.0.x'" in last.message


def test_without_its_log_an_engine_gets_the_usual_tries() -> None:
    """An API server that gives no log holds nothing up."""
    cluster = crashing()
    assert history(cluster).open is not None
    cluster.settle()
    assert history(cluster).stored[-1].record.reason == "HeadLoadFailed"


def test_ends_that_tell_are_not_asked_for() -> None:
    """Nor is a good end, or a pod that never ended."""
    told = endings.Ending(reason="Error", exit_code=1, message="KeyError: 'layers.0.x'", at=builders.NOW)
    done = endings.Ending(reason="Completed", exit_code=0, message="", at=builders.NOW)
    assert endings.polls([("a", told), ("b", done), ("c", None)], namespace="n", container="engine") == []


def test_log_that_is_known_is_kept() -> None:
    """Otherwise the pass that used it would be followed by one that has forgotten it."""
    known = endings.Ending(reason="Error", exit_code=1, message=LAST_WORDS, at=builders.NOW, run="uid/t", log=CAUSE)
    (poll,) = endings.polls([("a", known)], namespace="n", container="engine")
    assert (poll.pod_uid, poll.wants) == ("uid/t", "log")
    assert "previous=false" in poll.url
