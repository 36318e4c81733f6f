"""The demo's prompts."""

import json

import pytest

from demo import workload


def test_in_domain_prompts_are_distinct_and_repeatable() -> None:
    """A prompt that is trained on must not be measured on, so none may come twice; and every run gets the same."""
    prompts = workload.in_domain(400)
    assert len(set(prompts)) == 400
    assert prompts == workload.in_domain(400)


def test_more_prompts_than_combinations_are_refused() -> None:
    """Repeating prompts silently would leak training data into the measurement."""
    with pytest.raises(ValueError, match="has 1440 combinations"):
        workload.in_domain(1441)


def test_out_of_domain_prompts_share_nothing_with_the_template() -> None:
    """The guard's test stands on traffic that the head has never seen."""
    assert not any("product description" in prompt for prompt in workload.out_of_domain(200))


def test_json_lines_are_what_a_job_reads() -> None:
    """One JSON object a line, with the prompt."""
    lines = workload.json_lines(["a", 'say "b"']).splitlines()
    assert [json.loads(line) for line in lines] == [{"prompt": "a"}, {"prompt": 'say "b"'}]
