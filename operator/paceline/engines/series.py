"""Names of the engines' Prometheus series, newest first, and which samples count.

Sources: vLLM's ``vllm/v1/metrics`` by version (``gpu_cache_usage_perc`` became ``kv_cache_usage_perc`` in 0.10 and went
in 0.12, vllm#18354 and #29330; ``time_per_output_token_seconds`` became ``inter_token_latency_seconds`` in 0.11,
vllm#24110; one series an engine under data parallelism, vllm#24049), SGLang's ``metrics_collector.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

REPEATING_LABELS: Final = frozenset({"tp_rank", "pp_rank"})
"""Ranks of one engine report the same value; adding them would multiply it."""
PROCESS_START: Final = "process_start_time_seconds"
RENAMED_PREFIXES: Final = ("ray_vllm", "ray_sglang", "vllm_", "sglang_")
"""Ray's exporter, and those that have no colon in a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line of a scrape."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """One engine's series; an empty tuple where it has none."""

    engine: str
    prefix: str
    model_labels: tuple[str, ...]
    always_counts_tokens: bool
    generation_tokens: tuple[str, ...]
    prompt_tokens: tuple[str, ...]
    requests_running: tuple[str, ...]
    requests_waiting: tuple[str, ...]
    requests_finished: tuple[str, ...]
    kv_cache_usage: tuple[str, ...]
    prefix_cache_queries: tuple[str, ...] = ()
    prefix_cache_hits: tuple[str, ...] = ()
    ttft: tuple[str, ...]
    """Histograms: without ``_sum`` and ``_count``."""
    itl: tuple[str, ...]
    drafts: tuple[str, ...] = ()
    draft_tokens: tuple[str, ...] = ()
    accepted_tokens: tuple[str, ...] = ()
    accepted_per_position: tuple[str, ...] = ()
    acceptance_length: tuple[str, ...] = ()
    """A gauge, where the engine computes it itself."""
    acceptance_rate: tuple[str, ...] = ()
    """Likewise."""
    engine_type: str | None = None
    """Only samples of this ``engine_type`` count; others are the draft model's own."""

    def model_of(self, sample: Sample) -> str | None:
        """Return the model that a sample speaks of, or None."""
        return next((sample.labels[label] for label in self.model_labels if label in sample.labels), None)

    def counts(self, sample: Sample) -> bool:
        """Return whether a sample is the serving engine's own, or the process's."""
        if sample.name == PROCESS_START:
            return True
        if not sample.name.startswith(self.prefix):
            return False
        return self.engine_type is None or sample.labels.get("engine_type", self.engine_type) == self.engine_type


VLLM: Final = Names(
    engine="vllm",
    prefix="vllm:",
    model_labels=("model_name",),
    always_counts_tokens=True,
    generation_tokens=("vllm:generation_tokens_total",),
    prompt_tokens=("vllm:prompt_tokens_total",),
    requests_running=("vllm:num_requests_running",),
    requests_waiting=("vllm:num_requests_waiting",),
    requests_finished=("vllm:request_success_total",),
    kv_cache_usage=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    prefix_cache_queries=("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    prefix_cache_hits=("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    ttft=("vllm:time_to_first_token_seconds",),
    itl=("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    drafts=("vllm:spec_decode_num_drafts_total",),
    draft_tokens=("vllm:spec_decode_num_draft_tokens_total",),
    accepted_tokens=("vllm:spec_decode_num_accepted_tokens_total",),
    accepted_per_position=("vllm:spec_decode_num_accepted_tokens_per_pos_total",),
)
SGLANG: Final = Names(
    engine="sglang",
    prefix="sglang:",
    model_labels=("model_name", "model"),
    # Releases that had only gauges are still met; their acceptance can be read, their throughput cannot.
    always_counts_tokens=False,
    generation_tokens=("sglang:generation_tokens_total",),
    prompt_tokens=("sglang:prompt_tokens_total",),
    requests_running=("sglang:num_running_reqs",),
    requests_waiting=("sglang:num_queue_reqs",),
    requests_finished=("sglang:num_requests_total",),
    kv_cache_usage=("sglang:token_usage",),
    # It counts hits by where they lay, and no queries: every prompt token is one.
    prefix_cache_queries=("sglang:prompt_tokens_total",),
    prefix_cache_hits=("sglang:cached_tokens_total",),
    ttft=("sglang:time_to_first_token_seconds",),
    itl=("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
    acceptance_length=("sglang:spec_accept_length",),
    acceptance_rate=("sglang:spec_accept_rate",),
    engine_type="unified",
)
ENGINES: Final = (VLLM, SGLANG)
PREFIXES: Final = tuple(names.prefix for names in ENGINES)
