"""Which ways of drafting an engine has, by version: its own word, and why one is refused.

A table, so that a new release of an engine changes a row. A method whose first version is not known has none here: the
engine's own refusal then ends the rollout, and what serves stays.

Sources: vLLM's ``config/speculative.py`` and ``v1/worker/gpu_model_runner.py`` by release; draft models came back with
vllm#24322 (0.13 refuses them, vllm#31883), suffix decoding with vllm#25784, one word for MTP with vllm#25232, DFlash
with 0.20, DSpark with vllm#46995, the schedule by batch size with vllm#32374; MLP speculators went with the V0 engine
(vllm#21152) and the V1 engine has no proposer for them (vllm#20655 was closed).
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from paceline.api.speculation import Method

Version: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """One method in vLLM."""

    word: str
    """As ``--speculative-config`` spells it."""
    since: Version | None = None
    """First version that has it; None when that is not known."""
    until: Version | None = None
    """First version that has it no more."""


VLLM: Final[dict[Method, Support]] = {
    Method.NGRAM: Support(word="ngram", since=(0, 8, 0)),
    Method.NGRAM_GPU: Support(word="ngram_gpu"),
    Method.SUFFIX: Support(word="suffix", since=(0, 11, 1)),
    Method.EAGLE: Support(word="eagle", since=(0, 8, 0)),
    Method.EAGLE3: Support(word="eagle3", since=(0, 8, 5)),
    Method.MTP: Support(word="mtp", since=(0, 11, 0)),
    Method.MEDUSA: Support(word="medusa", since=(0, 8, 0)),
    Method.MLP_SPECULATOR: Support(word="mlp_speculator", since=(0, 8, 0), until=(0, 10, 0)),
    Method.DRAFT_MODEL: Support(word="draft_model", since=(0, 15, 0)),
    Method.DFLASH: Support(word="dflash", since=(0, 20, 0)),
    Method.DSPARK: Support(word="dspark", since=(0, 25, 0)),
}
"""All that an engine is told: None is left out, and Auto is resolved before."""
SCHEDULE_SINCE: Final[Version] = (0, 24, 0)
"""First version of vLLM that drafts by a schedule."""

_NUMBERS: Final = re.compile(r"[0-9]+")


def word(method: Method) -> str:
    """Return the engine's own name of a method that drafts."""
    return VLLM[method].word


def refusal(method: Method, *, scheduled: bool, version: str) -> str:
    """Return why vLLM of this version cannot draft so, and what to change; empty when it can."""
    if method is Method.NONE:
        return ""
    support, running = VLLM[method], _parsed(version)
    if support.since is not None and running < support.since:
        return (
            f"vLLM {version} has no speculation method {method.value}; "
            f"use an engine image of {_text(support.since)} or newer, or another method"
        )
    if support.until is not None and running >= support.until:
        return (
            f"vLLM {version} has speculation method {method.value} no more, {_text(support.until)} removed it; "
            "choose another method"
        )
    if scheduled and running < SCHEDULE_SINCE:
        return (
            f"vLLM {version} drafts by no schedule; "
            f"remove speculation.schedule, or use an engine image of {_text(SCHEDULE_SINCE)} or newer"
        )
    return ""


def _parsed(version: str) -> Version:
    major, minor, patch = [*(int(one) for one in _NUMBERS.findall(version)[:3]), 0, 0, 0][:3]
    return major, minor, patch


def _text(version: Version) -> str:
    return ".".join(map(str, version))
