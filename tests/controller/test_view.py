"""One picture of the cluster: every question has one answer for as long as a pass lasts."""

from controller import builders
from paceline.api import names
from paceline.controller import view
from paceline.planning import kinds


def test_question_is_asked_once_a_picture():
    """What a reconcile has found out is there for whoever asks for polls after it; the next picture looks anew."""
    asked = []

    def find():
        asked.append(1)
        return len(asked)

    known = builders.World().cache
    first, second = _picture(known), _picture(known)
    assert (first.once("who", find), first.once("who", find), second.once("who", find)) == (1, 1, 2)


def test_marked_objects_stay_as_they_were_when_the_picture_was_asked():
    """Also when a watch tells more in the middle of a pass."""
    known, seen = builders.World().cache, []
    picture = _picture(known)
    for version in ("1", "2"):
        known.put(kinds.CONFIG_MAP, _record(version))
        seen.append(picture.marked(kinds.CONFIG_MAP, names.LABEL_CLAIM, _version))
    seen.append(_picture(known).marked(kinds.CONFIG_MAP, names.LABEL_CLAIM, _version))
    assert seen == [("1",), ("1",), ("2",)]


def _picture(known):
    return view.CacheView(known=known, heard=None)


def _version(manifest):
    return manifest["metadata"]["resourceVersion"]


def _record(version):
    record = builders.config_map(version=version)
    record["metadata"]["labels"][names.LABEL_CLAIM] = "granted"
    return record
