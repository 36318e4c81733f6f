"""What the probe measures, and what a rollout keeps of it: everything the judge says is computed from these.

These are durable: evidence objects of old rollouts must stay readable, so fields are added, never changed.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

import pydantic

from paceline.api.base import ApiModel, Message, ShortText

BUNDLED_PROMPTS: Final = "bundled:mix"
"""In place of a path: the prompts that the probe brings along."""


class Mode(StrEnum):
    """How the arms of a comparison lived."""

    SIDE_BY_SIDE = "SideBySide"  # both loaded, driven in alternation
    ALTERNATING = "Alternating"  # one after the other on the same node: weaker evidence


class BlockOutcome(StrEnum):
    """Whether a block may be used; no data is an answer of its own."""

    OK = "Ok"
    TOO_FEW = "TooFew"  # the concurrency was never at its target for long enough
    REQUEST_ERRORS = "RequestErrors"
    STALLED = "Stalled"  # a stream went silent without an end
    NO_TOKENS = "NoTokens"  # 200, and nothing generated
    SCRAPE_ERROR = "ScrapeError"
    CONTAMINATED = "Contaminated"  # others used the server meanwhile
    ARM_CHANGED = "ArmChanged"  # the pod was replaced or restarted in mid-block
    YIELDED = "Yielded"  # users waited too long for their first tokens, so the probe made way


class CopyState(StrEnum):
    """What became of the measuring copy of stable that a rollout asked for."""

    ASKED = "Asked"  # for its devices: none is made yet
    WANTED = "Wanted"
    REFUSED = "Refused"  # there is no room for it, or it does not start


# What an untrusted report may say without making arithmetic overflow: no server ever counts so far.
MOST = 2**53
Count = Annotated[int, pydantic.Field(ge=0, le=MOST)]
Milliseconds = Annotated[float, pydantic.Field(ge=0, le=MOST, allow_inf_nan=False)]


class Measurement(ApiModel):
    """One block: one arm driven at one concurrency for one window.

    Throughput is ``output_tokens / window_ms * 1000`` tokens a second, counted only while ``concurrency`` requests were
    in flight: warm-up, ramp and tail are dropped.
    """

    arm: ShortText
    """Short hash of the revision."""
    node: ShortText = ""
    pod_uid: ShortText = ""
    load: Count = 0
    """Which start of this arm's engine it was; blocks of one load share its luck."""
    round: Count = 0
    position: Count = 0
    """Place of the block in its round: 0 to 3 in A B B A."""
    concurrency: Annotated[int, pydantic.Field(ge=1, le=MOST)]
    prompt_band: ShortText = "all"
    mode: Mode = Mode.SIDE_BY_SIDE
    started_at: ShortText
    window_ms: Count = 0
    requests: Count = 0
    """Requests finished in the block, ramp and tail included."""
    errors: Count = 0
    """Requests that did not end with an answer, stalls among them."""
    stalls: Count = 0
    """Of the errors, those whose stream went silent: the server is alive and does not go on."""
    output_tokens: Count = 0
    """Generated inside the window."""
    ttft_ms: Milliseconds | None = None
    """Median time to first token."""
    itl_ms: Milliseconds | None = None
    """Mean inter-token latency over the window."""
    ttft_p99_ms: Milliseconds | None = None
    """99th percentile of the times to first token, nearest rank: of less than a hundred requests it is the longest."""
    itl_p99_ms: Milliseconds | None = None
    """99th percentile of the silences between two chunks of a stream. A speculating server sends several tokens in one,
    so this is what a reader feels, and not a multiple of ``itl_ms``."""
    prompt_tokens: Count | None = None
    """Tokens of all prompts that were answered in the block, by the server's own usage; None where it told none."""
    cached_tokens: Count | None = None
    """Of those, what the server found in its prefix cache, by its own counters; None where it has no such counters."""
    compared: Count = 0
    """Answers of this block that were held against the control's to the same prompt at the same concurrency. In a block
    of the control itself: against its own second answer, which is the yardstick, since numerics differ by batch."""
    agreed: Count = 0
    """Of those, the ones that began alike: with the same 64 characters."""
    rate_per_minute: Count = 0
    """Open loop: requests started a minute, whatever became of earlier ones. 0 is the closed loop, and only that one
    measures throughput, since an open loop's is the rate that was offered."""
    drafts: Count = 0
    draft_tokens: Count = 0
    accepted_tokens: Count = 0
    outcome: BlockOutcome = BlockOutcome.OK

    @property
    def tokens_per_second(self) -> float | None:
        """Throughput of the window; None when it may not be used."""
        if self.outcome is not BlockOutcome.OK or not self.window_ms:
            return None
        return self.output_tokens * 1000.0 / self.window_ms

    @property
    def acceptance_length(self) -> float | None:
        """1 + accepted / drafts; None without drafts."""
        return 1.0 + self.accepted_tokens / self.drafts if self.drafts else None

    @property
    def cache_hit_rate(self) -> float | None:
        """Share of prompt tokens that came from the prefix cache; None where it is not known."""
        if not self.prompt_tokens or self.cached_tokens is None:
            return None
        return self.cached_tokens / self.prompt_tokens

    @property
    def prompt_tokens_a_request(self) -> float | None:
        """Mean length of the prompts, in tokens; None where it is not known."""
        return self.prompt_tokens / self.requests if self.prompt_tokens and self.requests else None


class ProbeArm(ApiModel):
    """One server the probe drives."""

    arm: ShortText
    url: ShortText
    """``http://POD_IP:PORT``: a pod, not a Service, since a measurement names the pod it saw."""
    pod_uid: ShortText
    node: ShortText
    load: int = 0
    serves_users: bool = False
    """Whether users reach this pod: it is then left alone while they wait too long."""


class ProbeConfig(ApiModel):
    """What the probe's pod is told: one round over all arms and bands."""

    stage: Literal["Probe"] = "Probe"
    arms: Annotated[list[ProbeArm], pydantic.Field(min_length=1, max_length=3)]
    """Candidate first. Two arms are driven A B B A, three A B C C B A; one arm is a profile."""
    model: ShortText
    """Name under which the engines serve the model."""
    prompts_path: ShortText
    """A file, or ``bundled:mix``."""
    max_prompts: int | None = None
    prompt_bounds: list[int] = []
    """Longest prompts of every band of lengths but the last, in characters; empty: lengths are not told apart."""
    concurrencies: list[int]
    requests_per_slot: int
    """Requests each of the ``concurrency`` slots answers in a block."""
    rates_per_minute: list[int] = []
    """Open loops to be driven after the closed ones: requests started a minute. They measure what users would wait for
    at that rate, and are left out of verdicts."""
    open_loop_requests: int = 60
    """Requests of an open loop's block."""
    max_tokens: int
    round: int
    warmup_requests: int = 4
    """Requests an arm answers before its first block, not counted."""
    request_timeout_s: int = 600
    stall_timeout_s: int = 120
    """Longest silence of a stream, its first token included."""
    users_ttft_limit_ms: int | None = None
    """Mean time to first token of users above which a pod that serves them is not driven."""


class ProbeReport(ApiModel):
    """The probe's termination message."""

    measurements: list[Measurement] = []
    greedy_agreement_percent: float | None = None
    """Share of prompts on which candidate and control gave the same greedy answer."""
    error: Message = ""
    permanent: bool = False


class Decision(StrEnum):
    """What became of a candidate."""

    PROMOTED = "Promoted"
    REJECTED = "Rejected"
    ABORTED = "Aborted"


class Purpose(StrEnum):
    """Why a record was opened."""

    BASELINE = "Baseline"  # the first revision of a target: nothing to measure it against, it only has to be ready
    CANDIDATE = "Candidate"  # a revision that has to beat its control and be no worse than stable
    GUARD = "Guard"  # stable itself is in question: is it still faster than its control?
    UNDO = "Undo"  # a person asked for the revision that served before
    RECOVERY = "Recovery"  # stable was stopped for a candidate that lost: is it as fast as before?


class Seating(StrEnum):
    """Where the arms of a rollout get their GPUs, as it was decided when they were asked for."""

    ASKED = "Asked"  # not decided: no pod is made
    BESIDE = "Beside"  # every arm has a place of its own
    SHARED = "Shared"  # one place beside stable: candidate and control take turns on it
    TAKEN = "Taken"  # every arm has a place, one of them taken from stable
    TAKEN_SHARED = "TakenShared"  # one place, taken from stable: candidate and control take turns on it
    STOPPED = "Stopped"  # stable's only place: all arms take turns on it


class RolloutRecord(ApiModel):
    """One rollout's evidence, kept in a ConfigMap: the durable memory of what was decided and why."""

    number: Annotated[int, pydantic.Field(ge=1)]
    """Counts the rollouts of one SpeculativeDeployment."""
    purpose: Purpose = Purpose.CANDIDATE
    candidate: ShortText
    """Full digest of the revision that is in question; for Guard and Undo it is the one that serves."""
    control: ShortText = ""
    stable: ShortText = ""
    workload: ShortText
    """Digest of prompts, concurrencies and lengths it was measured on."""
    started_at: ShortText
    measurements: list[Measurement] = []
    rounds: Annotated[int, pydantic.Field(ge=0)] = 0
    measuring_since: ShortText | None = None
    """When all arms were ready: the analysis deadline counts from here, and starts anew after a pause."""
    waiting_since: ShortText | None = None
    """When the wait for the arms began, if later than the start: after a pause."""
    paused: bool = False
    halted_since: ShortText | None = None
    """When it began to wait for a person: paused, or held without a verdict."""
    draining: bool = False
    """Whether a pod that ends beside an arm may still hold its GPU."""
    drained_at: ShortText | None = None
    """When the last such pod was found gone: what ran out of memory until then is not to blame."""
    probe_failures: Annotated[int, pydantic.Field(ge=0)] = 0
    """Probe pods in a row that brought no measurement."""
    measured_anew: Annotated[int, pydantic.Field(ge=0)] = 0
    """How often measuring began again, because the workload in the spec was edited."""
    seating: Seating | None = None
    """None in rollouts that older versions opened: every arm has a place of its own."""
    turns: list[ShortText] = []
    """Full digests of the arms that take turns on one place, in their order."""
    cycle: Annotated[int, pydantic.Field(ge=0)] = 0
    """How often every arm has had its turn without a verdict."""
    turn_took_s: Annotated[int, pydantic.Field(ge=0)] = 0
    """How long the last turn's measuring took, from its first probe until its rounds were stored; 0 before any."""
    carried_rounds: Annotated[int, pydantic.Field(ge=0)] = 0
    """Rounds taken over from earlier rollouts, as the recorded profile of an arm; they are the first of ``rounds``."""
    asked_replicas: Annotated[int, pydantic.Field(ge=0)] = 0
    """Replicas of the newcomer that are asked for in the ledger, beyond those it has; 0 while it does not grow."""
    granted_replicas: Annotated[int, pydantic.Field(ge=0)] = 0
    """Replicas of the newcomer that it may have since it asked for more; 0 before."""
    rolls: bool = False
    """Whether what serves from this decision on takes over one replica after the other, for want of room for both."""
    capacity_held: bool = False
    """Whether a person has to ask for another try, since there was no room."""
    released_at: ShortText | None = None
    """When stable was first asked to give up a replica."""
    expected_downtime_s: Annotated[int, pydantic.Field(ge=0)] = 0
    """Time without service that was stated before stable was stopped."""
    longest_downtime_s: Annotated[int, pydantic.Field(ge=0)] = 0
    band: Annotated[int, pydantic.Field(ge=0)] = 0
    """For the guard: the one concurrency it asks about; else 0, all of them."""
    decision: Decision | None = None
    serving: ShortText = ""
    """Full digest of the revision that serves users from this decision on; the newest decided record's is stable."""
    reason: ShortText = ""
    message: Message = ""
    decided_at: ShortText | None = None
    guard_of: Annotated[int, pydantic.Field(ge=0)] = 0
    """For a confirmation by the guard: the number of the rollout it puts in question; else 0."""
    earlier_confirmations: Annotated[int, pydantic.Field(ge=0)] = 0
    """For the guard: confirmations of what serves before this one; their records may be gone, and the pause grows."""
    live_acceptance_length: float | None = None
    """For the guard: what users' own traffic showed when it became suspicious."""
    live_drafts: Annotated[int, pydantic.Field(ge=0)] = 0
    """Drafts behind that figure."""
    measuring_copy: CopyState | None = None
    """None: stable is measured where it serves."""
    copy_message: Message = ""
    """Why there is no measuring copy although one was wanted."""
    weight: Annotated[int, pydantic.Field(ge=0, le=100)] = 0
    """Percent of users' traffic that the candidate is to have before it is promoted; 0 while it is only probed."""
    weight_since: ShortText | None = None
    """When that share was first seen in place; the step's pause counts from here."""
    route: ShortText = ""
    """Name of the HTTPRoute that it was seen in place on; empty behind the front Service alone."""
    verdict: Message = ""
    """What the probe found, kept while steps give the candidate its share: measuring is over by then."""
    handled: list[ShortText] = []
    """Verb annotations acted on, as ``verb=hash``."""
    remembered: list[ShortText] = []
    """Those that earlier rollouts acted on and that were still there as this one began; their records may be gone."""
