"""What users' own traffic shows of stable: acceptance by band of concurrency, prompt lengths, and engines that stall.

Counters of every pod are differenced between neighbouring scrapes, and each span belongs to the measured concurrency
that is nearest to the requests in flight at its ends. A scrape that cannot be read, a counter that is missing or began
anew, drops its span: what is not known is neither good nor bad.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paceline.api import base, names
from paceline.api.measurement import Measurement, RolloutRecord
from paceline.engines import metrics
from paceline.judge import guard as judge
from paceline.planning import conditions
from paceline.rollout.view import observe

# A window is taken as covered when readable spans make up this share of it.
_COVERED: Final = 0.5
# Reading a scrape takes milliseconds, and a window of five minutes has twenty a pod: these many are enough.
_MOST_SCRAPES: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Users' traffic near one measured concurrency."""

    concurrency: int
    live: judge.Live


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """One window over all of stable's pods."""

    live: judge.Live
    """Whatever the concurrency."""
    bands: tuple[Band, ...]
    """By concurrency, those with drafts."""
    nearest: int
    """The measured concurrency that is nearest to the mean."""
    prompt_tokens: float | None
    """Mean length of a prompt; None where the engine does not count requests or tokens."""
    dead_drafts: int
    """Drafts since the last accepted token, if no pod has had one lately; else 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """What one pod counted between two scrapes."""

    seconds: float
    running: float
    drafts: int
    accepted_tokens: int
    prompt_tokens: int | None
    requests: int | None


def read(seen: observe.Observed, promotion: RolloutRecord, now: float) -> Traffic | None:
    """Return what users' requests showed in the window; None when nothing can be said."""
    needed_s = _COVERED * _window(seen)
    pods = [list(_spans(readings)) for readings in _windows(seen, now)]
    spans = [span for own in pods if sum(one.seconds for one in own) >= needed_s for span in own]
    stable = seen.revisions.get(seen.history.stable)
    if stable is None or not sum(span.drafts for span in spans):
        return None
    most = stable.inputs.num_speculative_tokens
    bands: dict[int, list[_Span]] = {}
    for span in spans:
        band = _nearest(promotion, span.running)
        if band is not None and span.drafts:
            bands.setdefault(band, []).append(span)
    seconds = sum(span.seconds for span in spans)
    nearest = _nearest(promotion, sum(span.running * span.seconds for span in spans) / seconds)
    return Traffic(
        live=_live(spans, most),
        bands=tuple(Band(concurrency=band, live=_live(own, most)) for band, own in sorted(bands.items())),
        nearest=nearest or 0,
        prompt_tokens=_prompt_tokens(spans),
        dead_drafts=_dead_drafts(pods),
    )


def probe_prompt_tokens(measurements: Sequence[Measurement], arm: str) -> float | None:
    """Return the mean length of the prompts that an arm was measured on; None where the engine told none."""
    told = [one for one in measurements if one.arm == names.short(arm) and one.prompt_tokens and one.requests]
    requests = sum(one.requests for one in told)
    return sum(one.prompt_tokens or 0 for one in told) / requests if requests else None


def stalled(seen: observe.Observed, now: float) -> str:
    """Return what shows that stable answers its health path and generates nothing; empty while that is not known.

    Every pod with requests in flight all through the window has to stand still, prompts and answers: a long prompt is
    counted when it has been read.
    """
    needed_s = _COVERED * _window(seen)
    busy = [readings for readings in _windows(seen, now) if _is_busy(readings)]
    if not busy or not all(_stands_still(readings, needed_s) for readings in busy):
        return ""
    return f"its pods hold requests and have generated no token for {needed_s:.0f} seconds"


def _window(seen: observe.Observed) -> float:
    return base.parse_duration(seen.owner.spec.guard.window).total_seconds()


def _windows(seen: observe.Observed, now: float) -> Iterator[list[tuple[float, metrics.Reading]]]:
    """Yield the readable scrapes of the window by pod, since the last decision: before it the probe was counted."""
    last = seen.history.last
    decided_at = conditions.parse_timestamp(last.decided_at) if last and last.decided_at else 0.0
    since = max(now - _window(seen), decided_at)
    for scrapes in seen.scrapes.values():
        inside = [(at, text) for at, text in scrapes if at >= since]
        step = max(1, -(-len(inside) // (_MOST_SCRAPES - 1)))
        chosen = [*inside[::step], *(inside[-1:] if (len(inside) - 1) % step else [])]
        read_ = [(at, metrics.read(text)) for at, text in chosen]
        yield [(at, one) for at, one in read_ if isinstance(one, metrics.Reading)]


def _spans(readings: Sequence[tuple[float, metrics.Reading]]) -> Iterator[_Span]:
    for (before, first), (after, last) in itertools.pairwise(readings):
        drafts = _difference(first.drafts, last.drafts)
        accepted = _difference(first.accepted_tokens, last.accepted_tokens)
        if drafts is None or accepted is None or after <= before:
            continue
        running = [one for one in (first.requests_running, last.requests_running) if one is not None]
        yield _Span(
            seconds=after - before,
            running=sum(running) / len(running) if running else 1.0,
            drafts=drafts,
            accepted_tokens=accepted,
            prompt_tokens=_difference(first.prompt_tokens, last.prompt_tokens),
            requests=_difference(first.requests_finished, last.requests_finished),
        )


def _difference(first: int | None, last: int | None) -> int | None:
    """Return what a counter counted; None when it is missing or began anew."""
    if first is None or last is None or last < first:
        return None
    return last - first


def _live(spans: Sequence[_Span], most: int) -> judge.Live:
    drafts = sum(span.drafts for span in spans)
    accepted = sum(span.accepted_tokens for span in spans)
    return judge.Live(acceptance_length=1.0 + accepted / drafts, drafts=drafts, speculative_tokens=most)


def _nearest(promotion: RolloutRecord, running: float) -> int | None:
    return judge.nearest_concurrency(promotion.measurements, arm=names.short(promotion.candidate), concurrency=running)


def _dead_drafts(pods: Sequence[Sequence[_Span]]) -> int:
    dead = [
        sum(span.drafts for span in itertools.takewhile(lambda one: not one.accepted_tokens, reversed(own)))
        for own in pods
        if any(span.drafts for span in own)
    ]
    return sum(dead) if all(dead) else 0


def _prompt_tokens(spans: Sequence[_Span]) -> float | None:
    known = [span for span in spans if span.prompt_tokens is not None and span.requests is not None]
    requests = sum(span.requests or 0 for span in known)
    return sum(span.prompt_tokens or 0 for span in known) / requests if requests else None


def _is_busy(readings: Sequence[tuple[float, metrics.Reading]]) -> bool:
    return bool(readings) and all(one.requests_running for _, one in readings)


def _stands_still(readings: Sequence[tuple[float, metrics.Reading]], needed_s: float) -> bool:
    (began, first), (ended, last) = readings[0], readings[-1]
    counted = (first.generation_tokens, first.prompt_tokens)
    return (
        ended - began >= needed_s
        and None not in counted
        and counted == (last.generation_tokens, last.prompt_tokens)
        and first.process_start_s == last.process_start_s
    )
