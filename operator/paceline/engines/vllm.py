"""vLLM: the command line of ``vllm serve``."""

import json
from typing import Any, Final

from paceline.api.speculation import SuffixSpec
from paceline.engines import base
from paceline.engines.base import Extraction, ServeRequest, Speculation

# Asks the server on the loopback, whatever name it serves under; proxies of the environment are not for that. The first
# token comes from the prompt's own pass, further ones from the draft. A server that wants a key which is not in the
# environment cannot be asked more than whether it is there.
_COMPLETE: Final = """
import json, os, sys, urllib.error, urllib.request
base, key = "http://127.0.0.1:" + sys.argv[1], os.environ.get("VLLM_API_KEY")
headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + key} if key else {})}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def ask(path, body=None):
    request = urllib.request.Request(base + path, data=body and json.dumps(body).encode(), headers=headers)
    return json.load(opener.open(request, timeout=55))
try:
    model = ask("/v1/models")["data"][0]["id"]
    answer = ask("/v1/completions", {"model": model, "prompt": "1 2 3", "max_tokens": 4, "temperature": 0})
    tokens = (answer.get("usage") or {}).get("completion_tokens", 0)
    sys.exit(None if tokens else "the completion holds no token")
except urllib.error.HTTPError as error:
    sys.exit(None if error.code in (401, 403) else "HTTP %d: %s" % (error.code, error.read()[:300]))
except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
    sys.exit("no completion yet: %r" % error)
"""
# Not a real draft: vLLM runs extraction as if it were a method of speculation, one token ahead.
_EXTRACT_TOKENS: Final = 1
# --shutdown-timeout (vllm#34730); without it SIGTERM aborts what is in flight.
_DRAINS_SINCE: Final = (0, 18)


class Vllm:
    """Renders ``vllm serve``; on a CPU node the image's own ``vllm`` adds what a CPU needs."""

    health_path: Final = "/health"
    metrics_path: Final = "/metrics"

    def completion_command(self, port: int) -> list[str]:
        """Return the interpreter that vLLM runs in, with a program that asks for four tokens."""
        return ["python3", "-c", _COMPLETE, str(port)]

    def command(self, request: ServeRequest) -> list[str]:
        """Return the container's command line; JSON travels as one argument, never through a shell."""
        command = ["vllm", "serve", request.model, "--host=0.0.0.0", f"--port={request.port}"]
        command.append(f"--tensor-parallel-size={request.tensor_parallel_size}")
        if request.revision:
            command.append(f"--revision={request.revision}")
        if request.trust_remote_code:
            command.append("--trust-remote-code")
        if request.speculation:
            command += ["--speculative-config", _compact(_speculative(request.speculation))]
        if request.extraction:
            command += ["--speculative-config", _compact(_extraction(request.extraction))]
            command += ["--kv-transfer-config", _compact(_kv_transfer(request.extraction))]
        if request.drain_s and base.is_at_least(request.version, _DRAINS_SINCE):
            command.append(f"--shutdown-timeout={request.drain_s}")
        return command + list(request.args)


def _compact(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def _speculative(speculation: Speculation) -> dict[str, Any]:
    """Return vLLM's ``--speculative-config``."""
    config: dict[str, Any] = {
        "method": speculation.method,
        "model": speculation.draft_path,
        "revision": speculation.draft_revision,
        "num_speculative_tokens": speculation.num_speculative_tokens,
        "prompt_lookup_min": speculation.ngram_min,
        "prompt_lookup_max": speculation.ngram_max,
        "draft_tensor_parallel_size": speculation.draft_tensor_parallel_size,
        "num_speculative_tokens_per_batch_size": [list(step) for step in speculation.schedule] or None,
        **_suffix(speculation.suffix),
    }
    return {key: value for key, value in config.items() if value is not None}


def _suffix(suffix: SuffixSpec | None) -> dict[str, Any]:
    """Return the settings of suffix decoding, for which the API has percents and vLLM fractions."""
    if suffix is None:
        return {}
    return {
        "suffix_decoding_max_tree_depth": suffix.max_tree_depth,
        "suffix_decoding_max_cached_requests": suffix.max_cached_requests,
        "suffix_decoding_max_spec_factor": suffix.max_factor_percent / 100,
        "suffix_decoding_min_token_prob": suffix.min_probability_percent / 100,
    }


def _extraction(extraction: Extraction) -> dict[str, Any]:
    layers = list(extraction.auxiliary_layers)
    return {
        "method": "extract_hidden_states",
        "num_speculative_tokens": _EXTRACT_TOKENS,
        "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": layers}},
    }


def _kv_transfer(extraction: Extraction) -> dict[str, Any]:
    return {
        "kv_connector": "ExampleHiddenStatesConnector",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"shared_storage_path": extraction.hidden_states_path},
    }
