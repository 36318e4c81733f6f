"""What a person may change in a candidate that wins at some concurrencies and loses at others."""

from paceline.api.speculation import ONE_LENGTH
from paceline.judge import schedule
from paceline.rollout import judging
from paceline.rollout.steps import Case


def schedule_of(case: Case, against: judging.Against) -> str:
    """Return a sentence that proposes a schedule; empty where none can help.

    One number of tokens was measured, so all that can be told is where drafting pays and where it does not. What an
    idle draft costs is not known; the rollout of the schedule measures it.
    """
    revision = case.seen.revisions.get(case.record.candidate)
    if against.rival != "Control" or revision is None or not revision.inputs.speculates:
        return ""
    inputs = revision.inputs
    if inputs.schedule or inputs.method in ONE_LENGTH:
        return ""
    steps = schedule.split(against.comparison.bands, tokens=inputs.num_speculative_tokens)
    if not steps:
        return ""
    said = ", ".join(f"{{upToConcurrency: {step.concurrency}, tokens: {step.tokens}}}" for step in steps)
    return f" It pays at some concurrencies and costs at others; speculation.schedule [{said}] may win more."
