"""The demo's report: one HTML file with its plots inside, that can be mailed."""

import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from demo import summary
from paceline.api.measurement import RolloutRecord

mpl.use("svg")

_STYLE: Final = """
:root { color-scheme: light; --ink: #1d2733; --quiet: #5b6b7c; --line: #dfe5ec; --good: #14804a; --bad: #b3261e; }
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink);
  max-width: 60rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2.4rem }
.quiet { color: var(--quiet) } .good { color: var(--good) } .bad { color: var(--bad) }
.card { border: 1px solid var(--line); border-radius: 10px; padding: .9rem 1.2rem; margin: .8rem 0 }
.card strong { font-size: 1.05rem } table { border-collapse: collapse; width: 100% }
th, td { text-align: right; padding: .35rem .6rem;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left } svg { max-width: 100%; height: auto }
"""
_COLOURS: Final = ("#8a99a8", "#2563b8", "#c77700", "#14804a")


@dataclass(slots=True, kw_only=True)
class Story:
    """What was seen while the demo ran."""

    machine: str
    moments: list[tuple[float, str]] = field(default_factory=list)
    """(seconds since the start, what happened)."""
    training: list[tuple[float, str, int]] = field(default_factory=list)
    """(seconds since the start, stage, percent)."""
    arm_names: dict[str, str] = field(default_factory=dict)
    """Revision hash -> ``no speculation``, ``EAGLE3 k=3``."""
    job: Mapping[str, Any] = field(default_factory=dict)
    """The DraftTrainingJob at its end."""


def write(
    path: Path, *, story: Story, records: Sequence[RolloutRecord], comparisons: Mapping[int, Sequence[Any]]
) -> None:
    """Write the report.

    Args:
        path: the HTML file.
        story: what was seen.
        records: the rollouts' evidence, oldest first.
        comparisons: rollout number -> ``status.rollout.comparisons`` as the operator stored them at the decision.
    """
    measured = [record for record in records if record.measurements]
    body = [
        "<h1>Paceline: what this machine measured</h1>",
        f'<p class="quiet">{html.escape(story.machine)}</p>',
        *(_card(record, story, comparisons.get(record.number, ())) for record in measured),
        "<h2>Timeline</h2>",
        _timeline(story),
        "<h2>Training</h2>",
        _training(story),
    ]
    for record in measured:
        body.append(f"<h2>Rollout {record.number}: measurements</h2>")
        body += [_throughput_plot(record, story), _table(record, story)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Paceline demo</title>"
        f"<style>{_STYLE}</style><body>{''.join(body)}</body></html>",
        encoding="utf-8",
    )


def _card(record: RolloutRecord, story: Story, comparisons: Sequence[Any]) -> str:
    name = story.arm_names.get(_short(record.candidate), _short(record.candidate))
    decision = record.decision.value if record.decision else "undecided"
    tone = "good" if decision == "Promoted" else "bad"
    lines = "".join(
        f"<br>against {one['against'].lower()}: {one.get('ratio', '-')}x "
        f'<span class="quiet">({one.get("lower", "-")} to {one.get("upper", "-")})</span> {html.escape(one["verdict"])}'
        for one in comparisons
    )
    return (
        f'<div class="card"><strong>{html.escape(name)}: <span class="{tone}">{decision}</span></strong> '
        f'<span class="quiet">{html.escape(record.reason)}</span>{lines}<br>{html.escape(record.message)}</div>'
    )


def _timeline(story: Story) -> str:
    rows = "".join(
        f"<tr><td>{int(at // 60):02d}:{int(at % 60):02d}</td><td style='text-align:left'>{html.escape(text)}</td></tr>"
        for at, text in story.moments
    )
    return f"<table><tr><th>minute</th><th style='text-align:left'>what happened</th></tr>{rows}</table>"


def _training(story: Story) -> str:
    output = story.job.get("status", {}).get("output", {})
    facts = (
        f"<p>Acceptance length {html.escape(str(output.get('acceptanceLength', '-')))} on held-out prompts; "
        f"by position {html.escape(', '.join(output.get('acceptanceByPosition', [])) or '-')}. "
        f'<span class="quiet">{html.escape(output.get("uri", ""))} '
        f"{html.escape(output.get('manifestDigest', ''))}</span></p>"
    )
    return facts + _progress_plot(story)


def _progress_plot(story: Story) -> str:
    if not story.training:
        return ""
    figure = Figure(figsize=(8.5, 2.2), layout="constrained")
    axes = figure.add_subplot()
    for stage in dict.fromkeys(stage for _, stage, _ in story.training):
        points = [(at / 60, percent) for at, name, percent in story.training if name == stage]
        axes.plot(*zip(*points, strict=True), label=stage, linewidth=1.8)
    axes.set(xlabel="minutes since the start", ylabel="percent", ylim=(0, 104))
    axes.legend(ncols=6, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0, 1.2))
    return _svg(figure)


def _throughput_plot(record: RolloutRecord, story: Story) -> str:
    cells = summary.cells(record.measurements)
    arms = list(dict.fromkeys(cell.arm for cell in cells))
    bands = sorted({cell.concurrency for cell in cells})
    figure = Figure(figsize=(8.5, 3.0), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / max(1, len(arms))
    for index, arm in enumerate(arms):
        mine = {cell.concurrency: cell for cell in cells if cell.arm == arm}
        at = [bands.index(band) + (index - (len(arms) - 1) / 2) * width for band in mine]
        speed = [cell.tokens_per_second for cell in mine.values()]
        spread = [
            [cell.tokens_per_second - cell.low for cell in mine.values()],
            [cell.high - cell.tokens_per_second for cell in mine.values()],
        ]
        axes.bar(
            at, speed, width * 0.9, yerr=[[max(0.0, v) for v in side] for side in spread], capsize=3,
            color=_COLOURS[index % len(_COLOURS)], label=story.arm_names.get(arm, arm),
        )  # fmt: skip
    axes.set_xticks(range(len(bands)), [f"concurrency {band}" for band in bands])
    axes.set_ylabel("tokens a second")
    axes.legend(frameon=False, fontsize=8)
    return _svg(figure)


def _table(record: RolloutRecord, story: Story) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(story.arm_names.get(cell.arm, cell.arm))}</td><td>{cell.concurrency}</td>"
        f"<td>{cell.tokens_per_second:.1f}</td><td>{cell.low:.1f} to {cell.high:.1f}</td><td>{cell.blocks}</td>"
        f"<td>{'-' if cell.acceptance_length is None else f'{cell.acceptance_length:.2f}'}</td></tr>"
        for cell in summary.cells(record.measurements)
    )
    return (
        "<table><tr><th>arm</th><th>concurrency</th><th>tokens/s</th><th>slowest to fastest block</th>"
        f"<th>blocks</th><th>acceptance length</th></tr>{rows}</table>"
    )


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _short(digest: str) -> str:
    return digest[7:15] if digest.startswith("sha256:") else digest
