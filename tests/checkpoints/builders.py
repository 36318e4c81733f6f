"""Reads the public configurations, and asks the command line about them; a test says only what it is about."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

from paceline.api.checkpoint import Problem, TargetCheckpoint
from paceline.checkpoints import documents, fit, inspection, support, weights
from paceline.checkpoints import head as heads
from paceline.checkpoints import target as targets
from paceline.cli.__main__ import main

DATA = Path(__file__).parent / "data"
EXPECTATIONS: list[dict[str, Any]] = json.loads((DATA / "expectations.json").read_text())

KIMI = "moonshotai--Kimi-K2.5"
LLAMA = "meta-llama--Llama-3.1-8B-Instruct"


def config(name: str) -> dict[str, Any]:
    """Return a configuration by its file's name, such as ``heads/specforge--kimi-k25-eagle3``."""
    document: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return document


def path(name: str) -> str:
    """Return a file's path for the command line."""
    return str(DATA / f"{name}.json")


def index(name: str) -> weights.Weights:
    """Return one of the weight indexes."""
    return weights.from_index(config(f"weight-index/{name}"), name=name)


def named(*tensors: str) -> weights.Weights:
    """Return weights of these names."""
    return weights.Weights(names=frozenset(tensors), shapes={})


def read(name: str, **fields: Any) -> TargetCheckpoint:
    """Return a target's facts, its configuration changed by ``fields``."""
    return targets.read({**config(name), **fields})


def serving(**fields: Any) -> fit.Serving:
    """Return a way of serving; ``engine`` as people write it."""
    if "engine" in fields:
        fields["engine"] = support.parse_engine(fields["engine"])
    if "tp" in fields:
        fields["tensor_parallel_size"] = fields.pop("tp")
    return fit.Serving(**fields)


def judge(target: str, head: str | None = None, **fields: Any) -> inspection.Inspection:
    """Return the whole judgement of files by name."""
    return inspection.inspect(read(target), serving(**fields), head=heads.read(config(head)) if head else None)


def codes(problems: tuple[Problem, ...] | list[Problem], severity: str = "error") -> set[str]:
    """Return the codes of the findings of one severity."""
    return {one.code for one in problems if one.severity == severity}


def ask(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Return ``paceline inspect``'s exit code and JSON answer; an empty one when there is none."""
    out, talk = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(talk):
        code = main(["inspect", *arguments, "-o", "json"])
    answer = documents.parse(out.getvalue().encode(), name="answer") if out.getvalue() else {}
    return code, answer
