"""``make demo``: both outcomes of a canary, each for its real reason, on one machine."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Final

from demo import machine, pace, report, sites, summary, workload
from demo.console import Console, spoken
from demo.flow import Flow, UnexpectedOutcomeError, expect
from paceline.api import names
from paceline.api.measurement import Decision, RolloutRecord

PROMOTED_TOKENS: Final = 3
# Far beyond what this head can foresee: nearly every token past the third is computed and thrown away.
TOO_MANY_TOKENS: Final = 10


def main() -> int:
    """Run the demo; 0 when both outcomes were seen, 1 otherwise, with the numbers."""
    options = _options()
    console = Console()
    story = report.Story(machine=machine.describe())
    console.line(story.machine)
    site = sites.choose(os.environ.get("CLUSTER") or "embedded")
    try:
        site.start(console)
        flow = Flow(cluster=site.cluster(), console=console, story=story, images=site.images(), target=site.target())
        code = _tell(flow, options.report)
    except UnexpectedOutcomeError as unexpected:
        console.line(f"NOT AS EXPECTED: {unexpected}")
        code = 1
    finally:
        if options.keep:
            console.line(f"the cluster stays; {site.how_to_use()}")
        else:
            site.stop()
    return code


def _tell(flow: Flow, report_path: Path) -> int:
    """Tell the story from the first apply to the report."""
    console = flow.console
    console.heading("Serve the target")
    flow.install()
    recipe = pace.first_guess()
    training, probing = workload.in_domain(recipe.train_prompts + recipe.probe_prompts), []
    probing = training[recipe.train_prompts :]
    flow.serve(recipe, tokens=PROMOTED_TOKENS, probe_prompts=probing)
    speed = pace.measure(flow)
    recipe = pace.fit(recipe, speed)
    flow.patience = max(1.0, pace.REFERENCE_TOKENS_PER_SECOND / speed)
    console.line(
        f"this machine makes {speed:.0f} tok/s at concurrency {pace.CONCURRENCY}: {recipe.train_prompts} prompts, "
        f"{recipe.epochs} epochs; about {spoken(pace.expected_s(recipe, speed))} from here"
    )
    console.heading("Train a head on the target's own answers")
    flow.train(recipe, prompts=training[: recipe.train_prompts])
    console.heading("Measure it against no speculation")
    promoted = flow.judged(2)
    expect(promoted, Decision.PROMOTED)
    flow.wait_for("users served by the head", lambda: flow.served_by() == names.short(promoted.candidate), minutes=5)
    console.heading(f"Ask for {TOO_MANY_TOKENS} speculative tokens instead of {PROMOTED_TOKENS}")
    flow.edit_tokens(TOO_MANY_TOKENS)
    rejected = flow.judged(3)
    expect(rejected, Decision.REJECTED)
    if flow.served_by() != names.short(promoted.candidate):
        raise UnexpectedOutcomeError(f"users are served by {flow.served_by()}, not by the promoted revision")
    console.line("users were served by the promoted revision all along")
    _close(flow, [promoted, rejected], report_path)
    return 0


def _close(flow: Flow, records: list[RolloutRecord], report_path: Path) -> None:
    """Print the summary and write the report."""
    console = flow.console
    console.heading("Summary")
    for record in records:
        console.line(f"rollout {record.number}: {record.decision} ({record.reason}) {record.message}")
        for cell in summary.cells(record.measurements):
            accepted = f", acceptance length {cell.acceptance_length:.2f}" if cell.acceptance_length else ""
            console.line(
                f"  {flow.story.arm_names.get(cell.arm, cell.arm):16} at {cell.concurrency}: "
                f"{cell.tokens_per_second:7.1f} tok/s ({cell.low:.1f} to {cell.high:.1f} over {cell.blocks} blocks)"
                f"{accepted}"
            )
    report.write(report_path, story=flow.story, records=flow.records(), comparisons=flow.comparisons)
    console.line(f"the report: {report_path}")
    console.line(f"finished at {time.strftime('%H:%M:%S')} after {spoken(console.elapsed_s())}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("report/index.html"))
    parser.add_argument("--keep", action="store_true", help="leave the cluster running")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
