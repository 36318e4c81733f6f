"""What follows from the records: stable, refused, handled, and what may be forgotten."""

import pytest

from paceline.api.measurement import Decision, Measurement, Purpose, RolloutRecord
from paceline.planning import plan
from paceline.rollout import analysis
from paceline.rollout.documents import records
from rollout import builders
from rollout.builders import decided, record, sha

BASE, HEAD, OTHER = sha("base"), sha("head"), sha("other")
BASELINE = decided(1, Decision.PROMOTED, candidate=BASE, serving=BASE, purpose=Purpose.BASELINE)


def history(*made: RolloutRecord) -> records.History:
    """Return a history of these records."""
    stored = tuple(records.Stored(record=one, name=f"r{one.number}", uid=f"u{one.number}") for one in made)
    return records.History(owner="smol", owner_uid="uid", stored=stored)


def rejected(number: int, candidate: str, serving: str, **fields: object) -> RolloutRecord:
    """Return a rejection."""
    return decided(number, Decision.REJECTED, candidate=candidate, serving=serving, stable=serving, **fields)


@pytest.mark.parametrize(
    ("made", "stable"),
    [
        pytest.param([], "", id="nothing was decided"),
        pytest.param([BASELINE], BASE, id="the baseline"),
        pytest.param([BASELINE, record(2, candidate=HEAD, stable=BASE)], BASE, id="an open rollout serves nobody"),
        pytest.param([BASELINE, rejected(2, HEAD, BASE)], BASE, id="a rejection leaves stable"),
        pytest.param(
            [BASELINE, decided(2, Decision.PROMOTED, candidate=HEAD, serving=HEAD, stable=BASE)], HEAD, id="a promotion"
        ),
        pytest.param(
            [BASELINE, decided(2, Decision.PROMOTED, candidate=HEAD, serving=HEAD), rejected(3, HEAD, BASE)],
            BASE,
            id="the guard took it back",
        ),
        pytest.param([decided(1, Decision.ABORTED, candidate=BASE, serving="")], "", id="the first was called off"),
    ],
)
def test_stable_is_what_the_newest_decision_serves(made: list[RolloutRecord], stable: str) -> None:
    """Stable is computed, never stored."""
    assert history(*made).stable == stable


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        pytest.param([BASELINE], False, id="never tried"),
        pytest.param([BASELINE, rejected(2, HEAD, BASE)], True, id="rejected"),
        pytest.param([BASELINE, rejected(2, HEAD, BASE), rejected(3, OTHER, BASE)], True, id="rejected before another"),
        pytest.param(
            [BASELINE, decided(2, Decision.ABORTED, candidate=HEAD, serving=BASE)], False, id="an edit came between"
        ),
        pytest.param(
            [BASELINE, decided(2, Decision.ABORTED, candidate=HEAD, serving=BASE, handled=["abort=12345678"])],
            True,
            id="a person called it off",
        ),
        pytest.param(
            [BASELINE, rejected(2, HEAD, BASE), decided(3, Decision.ABORTED, candidate=HEAD, serving=BASE)],
            True,
            id="an aborted retry clears nothing",
        ),
        pytest.param(
            [BASELINE, rejected(2, HEAD, BASE), decided(3, Decision.PROMOTED, candidate=HEAD, serving=HEAD)],
            False,
            id="promoted on a second try",
        ),
        pytest.param(
            [BASELINE, rejected(2, HEAD, BASE), rejected(3, OTHER, HEAD)],
            False,
            id="a later decision made it serve, as the guard does with a control",
        ),
    ],
)
def test_rejected_revision_is_refused(made: list[RolloutRecord], refused: bool) -> None:  # noqa: FBT001 - a table's column
    """The newest word on a digest counts."""
    assert (history(*made).refused(HEAD) is not None) is refused


def test_record_is_written_with_the_version_it_was_read_at() -> None:
    """Two passes that append to one record cannot lose each other's blocks."""
    stored = records.Stored(record=record(), name="r1", uid="u1", resource_version="42")
    written = records.write(stored, owner=builders.deployment(), labels={})
    assert isinstance(written, plan.Apply)
    assert (written.uid, written.resource_version) == ("u1", "42")


def test_new_record_is_named_by_its_number() -> None:
    """Two passes that open the same number collide on the name."""
    one = history(BASELINE).with_(record(2, candidate=HEAD)).stored[-1]
    other = history(BASELINE).with_(record(2, candidate=OTHER)).stored[-1]
    assert one.uid is None
    assert one.name == other.name


def test_record_survives_the_cluster() -> None:
    """What is read is what was written."""
    made = record(measurements=[builders.block(HEAD, drafts=10, accepted=5)], rounds=1, handled=["retry=12345678"])
    written = records.write(records.Stored(record=made, name="r1"), owner=builders.deployment(), labels={})
    manifest = {**written.manifest, "metadata": {**written.manifest["metadata"], "uid": "u", "resourceVersion": "1"}}
    assert records.read(manifest).record == made


def test_damaged_record_says_what_to_do() -> None:
    """A ConfigMap that somebody emptied is an error, not an empty history."""
    manifest = {"metadata": {"name": "smol-rollout-1", "uid": "u"}, "data": {"record.json": "{}"}}
    with pytest.raises(records.DamagedRecordError, match=r"smol-rollout-1 .* delete it"):
        records.read(manifest)


def test_next_number_is_above_a_deleted_decision() -> None:
    """The Service remembers the number of the decision it follows."""
    assert records.History(owner="smol", owner_uid="uid", floor=7).next_number == 8


def test_basis_of_stable_and_of_rejections_is_kept() -> None:
    """Old records go, but not those that stable, its break-even and refused digests rest on."""
    measured = [builders.block(HEAD)]
    made = [
        BASELINE,
        rejected(2, OTHER, BASE),
        decided(3, Decision.PROMOTED, candidate=HEAD, serving=HEAD, stable=BASE, measurements=measured),
        *(decided(number, Decision.ABORTED, candidate=sha("x"), serving=HEAD, stable=HEAD) for number in range(4, 9)),
    ]
    spare = records.superfluous(history(*made), limit=2)
    assert [one.record.number for one in spare] == [1, 4, 5, 6]


def test_last_confirmation_of_what_serves_is_kept() -> None:
    """The pause before the guard's next try rests on it; one of an earlier stable goes."""
    guards = [
        decided(number, Decision.ABORTED, candidate=HEAD, serving=HEAD, stable=HEAD).model_copy(
            update={"purpose": Purpose.GUARD}
        )
        for number in (2, 4, 5)
    ]
    promoted = decided(3, Decision.PROMOTED, candidate=HEAD, serving=HEAD, stable=BASE)
    made = [BASELINE, guards[0], promoted, *guards[1:], rejected(6, OTHER, HEAD), rejected(7, OTHER, HEAD)]
    assert [one.record.number for one in records.superfluous(history(*made), limit=1)] == [1, 2, 4, 6]


def test_fullest_record_fits_a_config_map() -> None:
    """Blocks are refused before the API server would refuse the record."""
    block = Measurement(
        arm="7f3a91c2",
        node="a-node-of-some-cloud-with-a-long-name.eu-central-1.compute.internal",
        pod_uid="6f1c0a91-8f2e-4b61-9a57-0d3f5a9b7c21",
        load=1,
        round=42,
        position=5,
        concurrency=256,
        started_at="2026-01-01T00:00:00Z",
        window_ms=123_456,
        requests=1536,
        output_tokens=1_234_567,
        ttft_ms=12345.67,
        itl_ms=1234.56,
        ttft_p99_ms=12345.67,
        itl_p99_ms=12345.67,
        prompt_tokens=1_234_567,
        cached_tokens=1_234_567,
        compared=1536,
        agreed=1234,
        drafts=1_234_567,
        draft_tokens=1_234_567,
        accepted_tokens=1_234_567,
    )
    full = record(2, candidate=HEAD, stable=BASE, measurements=[block] * analysis.MAX_MEASUREMENTS)
    written = records.write(records.Stored(record=full, name="r2"), owner=builders.deployment(), labels={})
    assert len(written.manifest["data"][records.KEY]) < 1_048_576 - 4096
