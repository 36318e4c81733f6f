"""Acceptance from the engine's counters: the difference of two scrapes, and nothing where there is nothing to see."""

from dataclasses import dataclass

from paceline.engines import counters, metrics
from paceline.stages.failures import PermanentError, TransientError


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What a head's drafts were worth between two scrapes."""

    drafts: int
    accepted: int
    by_position: tuple[float, ...]
    """Share of drafts whose token at this position was accepted."""

    @property
    def length(self) -> float:
        """Mean tokens a step: the target's own one and the accepted ones."""
        return 1.0 + self.accepted / self.drafts


def read(text: str, model: str) -> metrics.Reading:
    """Return a speculating server's reading.

    Raises:
        TransientError: when the text is no whole metrics text.
        PermanentError: when the server does not speculate.
    """
    reading = metrics.read(text, model)
    if isinstance(reading, metrics.Unreadable):
        raise TransientError(f"/metrics of the engine cannot be used ({reading.reason}): {reading.message}")
    if reading.speculation is None:
        raise PermanentError(
            "the engine serves without speculation although it was given a head; "
            "leave --speculative-config out of spec.engine.args and use an engine version that drafts with EAGLE-3"
        )
    return reading


def between(before: metrics.Reading, after: metrics.Reading) -> Acceptance:
    """Return what happened between two readings of one server.

    Raises:
        TransientError: when the server restarted in between: what it counted is lost.
        PermanentError: when nothing was drafted although requests were served.
    """
    if counters.was_reset(before, after):
        raise TransientError("the engine restarted during the evaluation and its counts are lost; it is run again")
    drafts, accepted = _growth(before.drafts, after.drafts), _growth(before.accepted_tokens, after.accepted_tokens)
    if drafts == 0:
        raise PermanentError(
            "the engine drafted nothing on the held-out prompts: it loaded the head and does not use it; "
            "compare spec.engine.version with the manifest's tools"
        )
    earlier, later = _by_position(before), _by_position(after)
    earlier += (0,) * (len(later) - len(earlier))
    shares = tuple((new - old) / drafts for old, new in zip(earlier, later, strict=True))
    return Acceptance(drafts=drafts, accepted=accepted, by_position=shares)


def _growth(before: int | None, after: int | None) -> int:
    """Return a counter's growth; one that is not there yet has counted nothing."""
    return (after or 0) - (before or 0)


def _by_position(reading: metrics.Reading) -> tuple[int, ...]:
    return reading.speculation.accepted_per_position if reading.speculation else ()
