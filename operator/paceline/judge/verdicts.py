"""What the judge answers: a verdict, its one reason, and the numbers behind it."""

from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """What the measurements say."""

    PASS = "Pass"  # noqa: S105 - not a password
    FAIL = "Fail"
    INCONCLUSIVE = "Inconclusive"


class Reason(StrEnum):
    """Why; each belongs to one verdict."""

    # Pass
    FASTER = "Faster"
    NO_WORSE = "NoWorse"
    # Fail
    SLOWER = "Slower"  # below the rival itself
    NO_GAIN = "NoGain"  # perhaps not slower, yet certainly below the asked gain
    REGRESSED = "Regressed"  # slower than the rival by more than is allowed
    BAND_BELOW_FLOOR = "BandBelowFloor"  # one band lost more than any band may
    TTFT_ABOVE_LIMIT = "TTFTAboveLimit"
    ITL_ABOVE_LIMIT = "ITLAboveLimit"
    DEAD_DRAFT = "DeadDraft"  # drafts, and nothing accepted
    ANSWERS_CHANGED = "AnswersChanged"  # other greedy answers, more often than the control gives other ones itself
    # Inconclusive
    NO_DATA = "NoData"  # an arm was never measured
    TOO_FEW_BLOCKS = "TooFewBlocks"  # fewer usable rounds than asked for
    TOO_NOISY = "TooNoisy"  # the bounds hold the bar between them
    BAND_TOO_NOISY = "BandTooNoisy"  # the whole would pass; the bounds of one band hold the floor between them
    TTFT_UNCLEAR = "TTFTUnclear"  # the whole would pass; the limit lies between the bounds, or was not measured
    ITL_UNCLEAR = "ITLUnclear"
    NOT_SIDE_BY_SIDE = "NotSideBySide"  # arms lived one after the other, and not every load can be compared
    TOO_FEW_LOADS = "TooFewLoads"  # arms lived one after the other: more loads are needed to know their luck
    UNLIKE_ARMS = "UnlikeArms"  # prompts or cache hits differ, so the arms did not do the same work
    CLOCK_JUMPED = "ClockJumped"  # blocks claim to have begun before those they followed
    REQUEST_ERRORS = "RequestErrors"  # too few usable blocks, mostly for this reason, or too many errors to trust the
    # rest; and so on
    STALLED = "Stalled"
    NO_TOKENS = "NoTokens"
    SCRAPE_ERROR = "ScrapeError"
    CONTAMINATED = "Contaminated"
    ARM_CHANGED = "ArmChanged"
    YIELDED = "Yielded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The ratio at one concurrency. It explains, and is held to the floor; the verdict is over all bands together."""

    concurrency: int
    prompt_band: str = "all"
    ratio: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The answer."""

    verdict: Verdict
    reason: Reason
    message: str
    ratio: float | None = None
    """Throughput of the candidate over the rival's; None when nothing could be paired."""
    lower: float | None = None
    upper: float | None = None
    bands: tuple[Band, ...] = field(default=())
    rounds: int = 0
    """Rounds with at least one usable sample."""
    samples: int = 0
    """Halves of rounds; for arms that lived one after the other, loads of both arms."""
