"""The good end: a head is published."""

from paceline.api.conditions import TrainingReason
from paceline.planning import conditions
from paceline.training import observe, places, results, wording


def judge(seen: observe.Observed, record: results.Record, now: float) -> results.Record:
    """Return the record, with the outcome Published once the head lies in its place."""
    published, measured = record.publication, record.evaluation
    if record.outcome is not None or published is None or measured is None:
        return record
    uri = places.locate(seen.spec, seen.uid).published_uri(published.path)
    outcome = results.Outcome(
        reason=TrainingReason.PUBLISHED,
        message=wording.clip(
            f"The head is published at {uri}; its acceptance length on {measured.prompts} held-out prompts is "
            f"{measured.acceptance_length:.3f} at {measured.speculative_tokens} speculative tokens."
        ),
        at=conditions.timestamp(now),
    )
    return record.model_copy(update={"outcome": outcome})
