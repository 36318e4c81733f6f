"""Tables and the plot of what was simulated."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.judge import loads

_GOALS = {
    "5 % slower promoted": "<= 1 %",
    "15 % slower rejected": ">= 99 %",
    "equal rejected as slower": "<= 1 %",
    "equal promoted as faster": "<= 1 %",
    "20 % faster promoted": ">= 99 %",
}
_HEAD = (
    "| | rule | "
    + " | ".join(f"{key} ({goal})" for key, goal in _GOALS.items())
    + (" | undecided | median samples | median server-seconds |")
)
_RULE = "|---" * (len(_GOALS) + 5) + "|"


def tables(answer: dict[str, Any]) -> str:
    """Return the tables in Markdown: all rules side by side, recording by recording."""
    hardest = answer["rows"][-1]["condition"]
    lines = [f"### All recordings, noise: {hardest}", "", _HEAD, _RULE]
    lines += [_line(row["recording"], row) for row in answer["rows"] if row["condition"] == hardest]
    lines += ["", *_thresholds([row for row in answer["rows"] if row["condition"] == hardest])]
    for recording in answer["recordings"]:
        lines += ["", f"### {recording['name']}", "", *_about(recording), ""]
        lines += list(_table([row for row in answer["rows"] if row["recording"] == recording["name"]]))
    lines += ["", "### Arms that live one after the other", "", *loads.table(answer["loads"])]
    copy = answer["copyAgrees"]
    lines += [
        "",
        f"{answer['runs']} runs a figure, seed {answer['seed']}; the copy in numpy gave the product's verdict",
    ]
    lines += [f"in {copy['same']} of {copy['of']} runs.", "", "| fault | verdict |", "|---|---|"]
    lines += [f"| {name} | {verdict} |" for name, verdict in answer["faults"].items()]
    return "\n".join(lines).lstrip() + "\n"


def _about(recording: dict[str, Any]) -> list[str]:
    said = "; ".join(
        f"{arm} {', '.join(f'{100 * spread:.1f} %' for spread in spreads)}"
        for arm, spreads in recording["spread"].items()
    )
    bands = ", ".join(str(band) for band in recording["bands"])
    return [f"Concurrency {bands}; a block takes {recording['blockSeconds']} s; spread of single blocks: {said}."]


def _thresholds(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield with which thresholds each rule ran."""
    for row in rows:
        yield f"- {row['recording']}: {row['title']}"


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield _HEAD
    yield _RULE
    yield from (_line(row["condition"], row) for row in rows)


def _line(label: str, row: dict[str, Any]) -> str:
    """Return a row; what is wanted and not reached is in bold."""
    shares = [f"{100 * row['shares'][key]:.1f}" for key in _GOALS]
    shares = [one if row["reached"][key] else f"**{one}**" for key, one in zip(_GOALS, shares, strict=True)]
    costs = (_each(row["undecided"], 100.0), _each(row["medianSamples"]), _each(row["medianServerSeconds"]))
    return f"| {label} | {row['rule']} | {' | '.join([*shares, *costs])} |"


def _each(by_case: dict[str, float], factor: float = 1.0) -> str:
    """Return one figure a case, in the order of the columns."""
    return " / ".join(f"{factor * by_case[key]:.0f}" for key in _GOALS)


def plot(answer: dict[str, Any], path: Path) -> None:
    """Draw how often each rule promotes by the true ratio, and what it costs."""
    import matplotlib as mpl  # noqa: PLC0415 - only a whole run needs it

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of a backend

    curves = answer["curves"]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7.5, 7), sharex=True)
    for name, curve in curves["rules"].items():
        (line,) = top.plot(curves["truths"], curve["promoted"], marker=".", label=f"{name}: promoted")
        if any(curve["undecided"]):
            top.plot(curves["truths"], curve["undecided"], color=line.get_color(), ls=":", label=f"{name}: undecided")
        bottom.plot(curves["truths"], curve["serverSeconds"], marker=".", color=line.get_color(), label=name)
    top.axvline(0.97, color="grey", lw=0.8)
    top.set_ylabel("share of runs")
    top.set_title(f"Is it slower? {curves['recording']}, {curves['condition']}", fontsize=10)
    bottom.set_ylabel("median server-seconds")
    bottom.set_xlabel("true throughput against the rival's; the bar is at 0.97")
    bottom.set_yscale("log")
    for axes in (top, bottom):
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
