"""What a rollout claims in the ledger, and what of it is only asked for."""

from typing import Any

import pytest

from capacity import builders as devices
from paceline.api.measurement import CopyState, Decision, Purpose, RolloutRecord, Seating
from paceline.capacity import ledger
from paceline.planning import conditions
from paceline.rollout.documents import claims
from rollout import builders

CANDIDATE, CONTROL, STABLE = (builders.sha(one) for one in ("candidate", "control", "stable"))
TEMPLATE = {"spec": {"containers": [{"name": "engine", "resources": {"limits": {devices.GPU: "8"}}}]}}
THREE = claims.Sizes(replicas=3)


def record(**fields: Any) -> RolloutRecord:
    """Return an open rollout of a candidate beside its control and another stable."""
    whole = {"candidate": CANDIDATE, "control": CONTROL, "stable": STABLE, "seating": Seating.BESIDE, **fields}
    return RolloutRecord(
        number=2, workload=builders.sha("workload"), started_at=conditions.timestamp(builders.NOW), **whole
    )


def test_arms_beside_stable_take_one_place_each_whatever_stable_has() -> None:
    """Stable's own pods are nobody's promise: they are there."""
    assert claims.of(record(), THREE) == {CANDIDATE: 1, CONTROL: 1}
    assert claims.of(record(control=STABLE), THREE) == {CANDIDATE: 1}


def test_arms_that_take_turns_take_one_place() -> None:
    """Whose turn it is decides which revision it is claimed for."""
    taken = record(seating=Seating.SHARED, turns=[CONTROL, CANDIDATE])
    assert claims.of(taken, claims.Sizes(replicas=3, slot=CONTROL)) == {CONTROL: 1}


@pytest.mark.parametrize("purpose", [Purpose.BASELINE, Purpose.UNDO])
def test_what_comes_whole_claims_all_its_replicas(purpose: Purpose) -> None:
    """A baseline, and what a person asks back: the Service flips to nothing that is half there."""
    assert claims.of(record(purpose=purpose, control=""), THREE) == {CANDIDATE: 3}
    in_stables_place = record(purpose=purpose, control="", seating=Seating.TAKEN)
    assert claims.of(in_stables_place, THREE) == {CANDIDATE: 1}


def test_share_of_users_traffic_claims_the_replicas_that_make_it() -> None:
    """The control has gone by then."""
    assert claims.of(record(weight=50), claims.Sizes(replicas=3, share=3)) == {CANDIDATE: 3}


def test_winner_on_the_way_to_all_replicas_claims_them() -> None:
    """Nobody else is granted the nodes that it grows into."""
    assert claims.of(record(), claims.Sizes(replicas=3, full=CANDIDATE)) == {CANDIDATE: 3, CONTROL: 1}


def test_measuring_copy_is_claimed_beside_the_arms() -> None:
    """It is one more replica of stable, with a claim of its own."""
    found = claims.of(record(), claims.Sizes(replicas=3, copied=STABLE))
    assert found == {CANDIDATE: 1, CONTROL: 1, f"{STABLE}/copy": 1}


def test_decided_rollout_claims_nothing() -> None:
    """Its pods, and its Deployments, speak for themselves."""
    assert claims.of(record(decision=Decision.PROMOTED), THREE) == {}


def test_only_what_is_not_decided_yet_is_asked() -> None:
    """Arms that were granted keep their place while a copy is still asked for."""
    asking = record(measuring_copy=CopyState.ASKED)
    counts = claims.of(asking, claims.Sizes(replicas=3, copied=STABLE))
    found = claims.document(asking, counts, {CANDIDATE: TEMPLATE, CONTROL: TEMPLATE, STABLE: TEMPLATE})
    assert {name: bool(one.get("asked")) for name, one in found.items()} == {
        CANDIDATE: False,
        CONTROL: False,
        f"{STABLE}/copy": True,
    }
    assert ledger.labels(found) == {"paceline.dev/claim": "granted"}


def test_revision_that_is_not_written_yet_is_left_out() -> None:
    """Its template is not known; the pass that writes it claims it."""
    assert claims.document(record(), {CANDIDATE: 1}, {}) == {}
