"""What it costs to stop the only replica for a candidate: the minutes without service, stated before they begin.

Without service from the moment stable is released until the candidate is promoted; or, if it loses, until stable is
loaded again. What loading takes is read off stable's own pod, what measuring takes off stable's own turn: its probes
start, warm up and report as the candidate's will. A pod that goes keeps its GPUs for as long as its ending takes.
"""

from dataclasses import dataclass
from typing import Final

from paceline.api import base, names
from paceline.api.measurement import Purpose, Seating
from paceline.api.speculativedeployment import DeadlineSpec
from paceline.rollout.documents import records
from paceline.rollout.steps import Case
from paceline.rollout.view import observe
from paceline.workloads import endings, pods

# A round's share of its deadline that is expected before any was measured.
_UNSEEN_SHARE: Final = 0.25
# A candidate that loses takes longer over the same requests than the arm that was measured before it.
_SLOWER: Final = 1.5
_MINUTE: Final = 60
_HOUR: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds without service if the candidate loses."""

    expected_s: int
    longest_s: int
    """If every step takes as long as its deadline allows."""


def estimate(case: Case) -> Cost:
    """Return what stopping stable for this rollout costs."""
    record, deadlines = case.record, case.deadlines
    arms = {one for one in (record.candidate, record.control) if one and one != record.stable}
    turns = max(1, len(arms))
    loading, scheduling, analysis = (
        base.parse_duration(span).total_seconds()
        for span in (deadlines.loading, deadlines.scheduling, deadlines.analysis)
    )
    seen_load = load_time_s(case.seen, record.stable)
    load = loading / 2 if seen_load is None else seen_load
    measuring = _SLOWER * record.turn_took_s or analysis * _UNSEEN_SHARE
    return Cost(
        expected_s=round(turns * (load + measuring) + load + _ending_s(case, turns=turns)),
        longest_s=round(turns * (scheduling + loading + analysis) + reload_s(deadlines)),
    )


def _ending_s(case: Case, *, turns: int) -> float:
    """Return how long places stay taken by pods that go: stable's while its users stream, others' without any."""
    template = case.seen.owner.spec.engine.pod_template
    return pods.grace_s(template) + turns * endings.of(template).lead_s


def reload_s(deadlines: DeadlineSpec) -> float:
    """Return what of the longest time without service is kept for loading stable again."""
    spans = (deadlines.scheduling, deadlines.loading)
    return sum(base.parse_duration(span).total_seconds() for span in spans)


def load_time_s(seen: observe.Observed, digest: str) -> float | None:
    """Return how long a revision's pod took from its node to its first ready moment; None when no pod shows it."""
    server = seen.server(digest)
    for pod in server.ready if server else ():
        if pod.scheduled_at is not None and pod.ready_at is not None and not pod.restarts:
            return max(0.0, pod.ready_at - pod.scheduled_at)
    return None


def why_stopped(history: records.History) -> str:
    """Return why stable does not serve, where a rollout has stopped it; empty where none has."""
    newest = history.stored[-1].record if history.stored else None
    if newest is None or newest.released_at is None:
        return ""
    stops, is_open = newest.seating is Seating.STOPPED, newest.decision is None
    short = names.short(newest.stable)
    if stops and is_open:
        return (
            f"Revision {short} is stopped for candidate {names.short(newest.candidate)}, since {newest.released_at}:"
            f" about {in_words(newest.expected_downtime_s)} without service, at most"
            f" {in_words(newest.longest_downtime_s)}, as was consented to by rollout.replace.allowDowntime."
        )
    if (stops and newest.serving == newest.stable) or (newest.purpose is Purpose.RECOVERY and is_open):
        return f"Revision {short} was stopped for a candidate that lost, and is loaded again."
    return ""


def in_words(seconds: int) -> str:
    """Return a span as people say it, in whole minutes rounded up, which is also the API's form of a duration."""
    minutes = -(-seconds // _MINUTE)
    hours, rest = divmod(minutes, _HOUR // _MINUTE)
    return f"{hours}h{rest}m" if hours else f"{rest}m"
