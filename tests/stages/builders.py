"""Makes tiny checkpoints, configurations and servers; a test says only what it is about."""

import json
import struct
from pathlib import Path
from typing import Any

from paceline.api import stages
from paceline.podside import progress
from paceline.stages import context, server, stopping, workspace

DIGEST = "sha256:" + "a" * 64


class FakeClock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        """Return the time that was set."""
        return self.now_s

    def wall(self) -> float:
        """Return the time that was set."""
        return self.now_s


def make_context(root: Path, *, attempt: str = "pod-1") -> context.Context:
    """Return a context whose workspace is ``root``."""
    clock = FakeClock()
    return context.Context(
        workspace=workspace.Workspace(root=root, attempt=attempt),
        progress=progress.Progress("Test", clock),
        clock=clock,
        stop=stopping.Stop(),
    )


def common(root: Path, **fields: Any) -> dict[str, Any]:
    """Return the fields that every stage is told."""
    return {
        "job_name": "kimi-head",
        "job_uid": "0000-1111",
        "workspace": str(root),
        "target": stages.TargetRef(path=str(root / "target")),
        **fields,
    }


def write_safetensors(path: Path, tensors: dict[str, tuple[int, ...]], *, missing_bytes: int = 0) -> None:
    """Write a file of zeros in float32 with a right header; ``missing_bytes`` are cut off its end."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in tensors.items():
        size = 4
        for side in shape:
            size *= side
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + bytes(offset)
    path.write_bytes(content[: len(content) - missing_bytes])


def write_target(folder: Path, **config: Any) -> Path:
    """Write a target of two layers: configuration, tokenizer and weights."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 8,
        "num_hidden_layers": 30,
        "vocab_size": 32,
        **config,
    }
    (folder / "config.json").write_text(json.dumps(document))
    (folder / "tokenizer.json").write_text("{}")
    write_safetensors(folder / "model.safetensors", {"model.norm.weight": (8,), "lm_head.weight": (32, 8)})
    return folder


def write_checkpoint(root: Path, epoch: int, *, local_step: int = 0) -> Path:
    """Write a whole checkpoint of the trainer."""
    folder = root / str(epoch)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"speculators_config": {"verifier": {"name_or_path": "/old"}}}))
    write_safetensors(folder / "model.safetensors", {"fc.weight": (2, 2)})
    (folder / "optimizer_state_dict.pt").write_bytes(b"state")
    (folder / "training_state.json").write_text(
        json.dumps({"epoch": epoch, "local_step": local_step, "global_step": 10})
    )
    return folder


class FakeEngine:
    """Answers as vLLM does, in tokens that depend on the prompt; counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuse: frozenset[str] = frozenset()
        self.fail_times = 0
        self.metrics = ""

    async def get(self, path: str) -> server.Reply:
        """Answer the model's name, or the metrics."""
        if path == "/v1/models":
            return reply({"data": [{"id": "/models/target"}]})
        return server.Reply(status=200, body=self.metrics)

    async def post(self, path: str, document: dict[str, Any]) -> server.Reply:
        """Answer a completion, unless told to refuse it or to be away."""
        if path == "/v1/completions":
            return reply({"choices": []})
        if self.fail_times:
            self.fail_times -= 1
            raise ConnectionError("connection refused")
        text = document["messages"][-1]["content"]
        self.asked.append(text)
        if text in self.refuse:
            return server.Reply(status=400, body="maximum context length")
        return reply(answer(text))


def answer(text: str) -> dict[str, Any]:
    """Return a chat completion for a prompt."""
    return {
        "prompt_token_ids": [1, len(text)],
        "choices": [{"token_ids": [7, 8, 9], "finish_reason": "stop"}],
        "usage": {"completion_tokens": 3},
    }


def reply(document: dict[str, Any]) -> server.Reply:
    """Return 200 with JSON."""
    return server.Reply(status=200, body=json.dumps(document))


def scrape(*, drafts: int, accepted: tuple[int, ...], model: str = "/models/target", start_s: float = 100.0) -> str:
    """Return a /metrics text of a speculating vLLM."""
    label = f'engine="0",model_name="{model}"'
    lines = [
        f"process_start_time_seconds {start_s}",
        f"vllm:generation_tokens_total{{{label}}} {drafts + sum(accepted)}.0",
        f"vllm:spec_decode_num_drafts_total{{{label}}} {drafts}.0",
        f"vllm:spec_decode_num_drafts_created{{{label}}} 1.79e+09",
        f"vllm:spec_decode_num_draft_tokens_total{{{label}}} {drafts * 3}.0",
        f"vllm:spec_decode_num_accepted_tokens_total{{{label}}} {sum(accepted)}.0",
    ]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{label},position="{index}"}} {count}.0'
        for index, count in enumerate(accepted)
    ]
    return "\n".join(lines) + "\n"
