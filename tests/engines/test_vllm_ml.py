"""The table of methods and the rendered configuration, against the vLLM that is installed."""

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

from paceline.api.speculation import SuffixSpec
from paceline.engines import methods
from paceline.engines.base import ServeRequest, Speculation
from paceline.engines.vllm import Vllm

REPOSITORY = Path(__file__).resolve().parents[2]
ASK = """
import dataclasses, json
from typing import get_args
from vllm.config import speculative
from vllm.v1.spec_decode.dynamic import utils
words = json.dumps(get_args(speculative.SpeculativeMethod))
fields = [field.name for field in dataclasses.fields(speculative.SpeculativeConfig)]
lookup = utils.build_dynamic_sd_schedule_lookup([[1, 2, 3], [3, 4, 0]], 6, 3)
print("ANSWER" + json.dumps({"words": words, "fields": fields, "lookup": lookup}))
"""

pytestmark = [pytest.mark.ml, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def installed() -> dict:
    """Return what the installed engine says of itself."""
    spec = importlib.util.spec_from_file_location("cpu_env", REPOSITORY / "requirements" / "cpu_env.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.find_venv()
    if found is None:
        pytest.skip("the heavy environment is not built; run python3 requirements/cpu_env.py venv")
    done = subprocess.run([found / "bin" / "python", "-c", ASK], capture_output=True, text=True, check=True)  # noqa: S603 - our own words
    return json.loads(done.stdout.rpartition("ANSWER")[2])


def test_engine_knows_every_word(installed: dict) -> None:
    """A misspelt method would end every rollout of it."""
    words = {support.word for support in methods.VLLM.values()}
    assert all(f'"{word}"' in installed["words"] for word in words)


def test_engine_knows_every_key(installed: dict) -> None:
    """And a misspelt key as well: the configuration refuses unknown ones."""
    speculation = Speculation(
        method="suffix",
        num_speculative_tokens=3,
        draft_path="/d",
        draft_revision="r",
        draft_tensor_parallel_size=1,
        ngram_min=1,
        ngram_max=2,
        suffix=SuffixSpec(),
        schedule=((1, 2, 3), (3, 4, 0)),
    )
    request = ServeRequest(
        model="/m", revision=None, trust_remote_code=False, tensor_parallel_size=1, port=8000, speculation=speculation
    )
    command = Vllm().command(request)
    told = json.loads(command[command.index("--speculative-config") + 1])
    assert set(told) <= set(installed["fields"])


def test_engine_reads_a_schedule_as_the_api_documents_it(installed: dict) -> None:
    """Steps follow one another from 1, and beyond the last one its length stays; index 0 is not used."""
    assert installed["lookup"] == [0, 3, 3, 0, 0, 0, 0]
