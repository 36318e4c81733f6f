"""Which ways of drafting a version of the engine has, and how each is rendered for it."""

import json

import pytest

from paceline.api.speculation import Method, SuffixSpec
from paceline.engines import methods
from paceline.engines.base import ServeRequest, Speculation
from paceline.engines.vllm import Vllm

NEWEST = "0.33.0"


def config(speculation: Speculation) -> dict:
    """Return what ``vllm serve`` is told of the draft."""
    request = ServeRequest(
        model="/m", revision=None, trust_remote_code=False, tensor_parallel_size=1, port=8000, speculation=speculation
    )
    command = Vllm().command(request)
    return json.loads(command[command.index("--speculative-config") + 1])


def test_every_method_has_a_row() -> None:
    """A method of the API that the table forgot would fail when the first pod is rendered."""
    assert set(methods.VLLM) == set(Method) - {Method.NONE, Method.AUTO}


@pytest.mark.parametrize("method", [one for one in Method if one is not Method.AUTO])
def test_a_recent_engine_has_all_but_the_mlp_speculator(method: Method) -> None:
    """The V1 engine has no proposer for MLP speculators; that is told instead of a pod that crashes."""
    refused = methods.refusal(method, scheduled=False, version=NEWEST)
    assert bool(refused) == (method is Method.MLP_SPECULATOR)


@pytest.mark.parametrize(
    ("method", "version", "scheduled", "said"),
    [
        (Method.DRAFT_MODEL, "0.13.0", False, "use an engine image of 0.15.0 or newer, or another method"),
        (Method.DFLASH, "0.19", False, "0.20.0 or newer"),
        (Method.SUFFIX, "0.11.0", False, "0.11.1 or newer"),
        (Method.MLP_SPECULATOR, "0.10.0", False, "choose another method"),
        (Method.EAGLE3, "0.23.1", True, "remove speculation.schedule"),
    ],
    ids=str,
)
def test_refusal_names_the_version_and_the_way_out(method: Method, version: str, scheduled: bool, said: str) -> None:  # noqa: FBT001 - by pytest
    """What is missing, in which version, and what to change."""
    refused = methods.refusal(method, scheduled=scheduled, version=version)
    assert f"vLLM {version}" in refused
    assert said in refused


@pytest.mark.parametrize("version", ["0.24.0", "0.33.0rc1", "0.24", "1.0.0+cu130"])
def test_a_schedule_needs_0_24(version: str) -> None:
    """Suffixes of a version do not confuse the comparison."""
    assert methods.refusal(Method.EAGLE3, scheduled=True, version=version) == ""


def test_suffix_decoding_is_told_in_fractions() -> None:
    """The API holds no floats, the engine wants them."""
    suffix = SuffixSpec(max_factor_percent=150, min_probability_percent=5)
    assert config(Speculation(method="suffix", num_speculative_tokens=16, suffix=suffix)) == {
        "method": "suffix",
        "num_speculative_tokens": 16,
        "suffix_decoding_max_tree_depth": 24,
        "suffix_decoding_max_cached_requests": 10000,
        "suffix_decoding_max_spec_factor": 1.5,
        "suffix_decoding_min_token_prob": 0.05,
    }


def test_schedule_is_rendered_in_the_engines_own_form() -> None:
    """Inclusive ranges of requests in flight, each with its number of tokens."""
    told = config(Speculation(method="eagle3", num_speculative_tokens=3, schedule=((1, 8, 3), (9, 64, 0))))
    assert told["num_speculative_tokens_per_batch_size"] == [[1, 8, 3], [9, 64, 0]]
