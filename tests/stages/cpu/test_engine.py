"""The CPU's front of vLLM adds what is missing and changes nothing that was said."""

import json

from paceline.api.engine import EngineName
from paceline.engines import base, registry
from paceline.stages.cpu import engine


def _rendered(**fields):
    request = {
        "model": "/m",
        "revision": None,
        "trust_remote_code": False,
        "tensor_parallel_size": 1,
        "port": 8000,
        **fields,
    }
    return registry.ENGINES[EngineName.VLLM].command(base.ServeRequest(**request))[1:]


def test_what_is_missing_is_added():
    """The operator's command line runs as it is on a GPU, and with two more options here."""
    assert engine.arguments(_rendered(), dtype="bfloat16") == [*_rendered(), "--dtype=bfloat16", "--enforce-eager"]


def test_what_was_said_stays():
    """A user's own choice wins."""
    given = ["serve", "/m", "--dtype", "float32", "--no-enforce-eager"]
    assert engine.arguments(given, dtype="bfloat16") == given


def test_other_commands_pass_through():
    """``vllm --version`` is nobody's business."""
    assert engine.arguments(["--version"], dtype="bfloat16") == ["--version"]


def test_connector_is_swapped_in_the_operators_own_command_line():
    """Extraction is rendered once; here it runs without CUDA."""
    extraction = base.Extraction(auxiliary_layers=(2, 15, 27, 30), hidden_states_path="/w/hidden")
    args = engine.arguments(_rendered(extraction=extraction), dtype="bfloat16")
    config = json.loads(args[args.index("--kv-transfer-config") + 1])
    assert config["kv_connector"] == "CpuHiddenStatesConnector"
    assert config["kv_connector_module_path"] == "paceline.stages.cpu.connector"
    assert config["kv_connector_extra_config"]["shared_storage_path"] == "/w/hidden"


def test_foreign_connectors_are_left_alone():
    """Only what is known not to run is replaced."""
    given = ["serve", "/m", '--kv-transfer-config={"kv_connector":"Mine"}', "--dtype=float32", "--enforce-eager"]
    assert engine.arguments(given, dtype="bfloat16") == given


def test_environment_lets_workers_import_the_connector():
    """vLLM's workers are new interpreters."""
    variables = engine.environment({"PYTHONPATH": "/mine"}, quota_cores=None)
    assert variables["PYTHONPATH"].split(":")[1:] == ["/mine"]
    assert "OMP_NUM_THREADS" not in variables


def test_limited_pod_gets_threads_by_its_limit():
    """vLLM would bind a thread to each core of the node."""
    variables = engine.environment({}, quota_cores=3)
    assert (variables["OMP_NUM_THREADS"], variables["VLLM_CPU_OMP_THREADS_BIND"]) == ("3", "nobind")


def test_given_variables_win():
    """What a pod template sets is meant."""
    variables = engine.environment({"VLLM_CPU_KVCACHE_SPACE": "8"}, quota_cores=None)
    assert variables["VLLM_CPU_KVCACHE_SPACE"] == "8"
