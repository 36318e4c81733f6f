"""What users' own requests show of a candidate that has a share of them: errors, waits, dead heads, and no more.

Throughput under live load measures the load as much as the server, so it convicts nobody here. Nothing is concluded
from few requests, and nothing at all from metrics that cannot be read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from paceline.api.conditions import RolloutReason
from paceline.engines import answers, metrics
from paceline.rollout.view import observe

MIN_REQUESTS: Final = 20
"""Fewer say nothing: one cold start among five requests is a fifth of them."""
MAX_ERROR_PERCENT: Final = 1
_MIN_ERRORS: Final = 3
_MIN_DRAFTS: Final = 200
# Two scrapes make a difference.
_A_DIFFERENCE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why the candidate may not keep its share."""

    reason: RolloutReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Counts of the candidate's pods since its share was in place; None where they do not tell."""

    requests: int | None
    """First tokens that were given."""
    ttft_ms: float | None
    answered: int
    errors: int
    drafts: int
    accepted_tokens: int


def look(scrapes: Iterable[Sequence[tuple[float, str]]], *, since: float) -> Seen:
    """Return what pods counted from ``since`` on, all together.

    Args:
        scrapes: of each pod, (wall-clock seconds, text), oldest first.
        since: wall clock; scrapes before it are not looked at.
    """
    spans = [inside for one in scrapes if len(inside := [text for at, text in one if at >= since]) >= _A_DIFFERENCE]
    pairs = [(metrics.read(texts[0]), metrics.read(texts[-1])) for texts in spans]
    known = [pair for pair in pairs if all(isinstance(one, metrics.Reading) for one in pair)]
    waits = [
        (last.ttft.seconds - first.ttft.seconds, last.ttft.count - first.ttft.count)
        for first, last in known
        if isinstance(first, metrics.Reading)
        and isinstance(last, metrics.Reading)
        and first.ttft
        and last.ttft
        # A counter that fell began anew with its process.
        and last.ttft.count >= first.ttft.count
    ]
    requests = sum(count for _, count in waits)
    told = [(answers.read(texts[0]) or answers.Answers(total=0, errors=0), answers.read(texts[-1])) for texts in spans]
    return Seen(
        requests=requests if waits else None,
        ttft_ms=sum(seconds for seconds, _ in waits) * 1000.0 / requests if requests else None,
        answered=sum(max(0, last.total - first.total) for first, last in told if last),
        errors=sum(max(0, last.errors - first.errors) for first, last in told if last),
        drafts=_grown(known, "drafts"),
        accepted_tokens=_grown(known, "accepted_tokens"),
    )


def fault(seen: Seen, *, ttft_limit_ms: int | None) -> Fault | None:
    """Return why the candidate may not keep its share; None while nothing speaks against it."""
    if seen.answered >= MIN_REQUESTS and seen.errors >= _MIN_ERRORS:
        percent = 100 * seen.errors / seen.answered
        if percent > MAX_ERROR_PERCENT:
            message = f"it answered {seen.errors} of {seen.answered} of users' requests with an error of its own."
            return Fault(reason=RolloutReason.REQUEST_ERRORS, message=message)
    if seen.drafts >= _MIN_DRAFTS and not seen.accepted_tokens:
        message = f"it drafted {seen.drafts} times for users and not one token was accepted. Train the head again."
        return Fault(reason=RolloutReason.DEAD_DRAFT, message=message)
    enough = seen.requests is not None and seen.requests >= MIN_REQUESTS
    if ttft_limit_ms is not None and enough and seen.ttft_ms is not None and seen.ttft_ms > ttft_limit_ms:
        message = f"users waited {seen.ttft_ms:.0f} ms for their first tokens; usersTtftLimitMs is {ttft_limit_ms}."
        return Fault(reason=RolloutReason.LATENCY_ABOVE_LIMIT, message=message)
    return None


def of_candidate(seen: observe.Observed, *, since: float) -> Seen:
    """Return what the open rollout's candidate was seen to do."""
    return look(seen.candidate_scrapes.values(), since=since)


def _grown(pairs: Iterable[tuple[metrics.Outcome, metrics.Outcome]], name: str) -> int:
    """Return the growth of a counter over all pods that have it."""
    grown = 0
    for first, last in pairs:
        before, after = getattr(first, name), getattr(last, name)
        if before is not None and after is not None and after >= before:
            grown += after - before
    return grown
