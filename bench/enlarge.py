"""Make a small target and its EAGLE-3 head cost what a 7B costs, with the same answers.

    python -m bench.enlarge --target DIR --head DIR --out DIR        # writes DIR/target and DIR/head

Every matrix gets zero blocks around it, so the first 576 of 4096 numbers of the residual stream are what they were and
the rest stay zero. A norm divides by the root mean square over *all* numbers, which falls by sqrt(576 / 4096); its
weight is scaled by as much, and its epsilon by 576 / 4096. The head reads the target's residual stream, so the same
widening makes it draft the same tokens. A step then multiplies matrices of a 7B's shapes: its speed stands for a 7B,
its language for the small model.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja")


@dataclass(frozen=True, kw_only=True)
class Widths:
    """Widths of one model."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int

    @classmethod
    def of(cls, config: Mapping[str, int]) -> "Widths":
        """Return the widths that a Llama's configuration states."""
        heads, hidden = config["num_attention_heads"], config["hidden_size"]
        return cls(
            hidden=hidden,
            intermediate=config["intermediate_size"],
            heads=heads,
            kv_heads=config["num_key_value_heads"],
            head_dim=config.get("head_dim") or hidden // heads,
        )


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where numbers of the small model stand in a larger space."""

    indices: tuple[int, ...]
    size: int


class Widener:
    """Puts what a small model holds into the corner of a large one."""

    def __init__(self, small: Widths, large: Widths) -> None:
        """Widen from ``small`` to ``large``; both share ``head_dim``, and a group of query heads may only grow."""
        if small.head_dim != large.head_dim or large.heads // large.kv_heads < small.heads // small.kv_heads:
            raise SystemExit("head_dim must stay, and heads / kv_heads must not shrink")
        self.small, self.large = small, large
        self.shrink = small.hidden / large.hidden

    def tensor(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Widen a tensor of a Llama, or of an EAGLE-3 head in speculators' layout."""
        if weight.ndim == 1:
            return self._norm(weight) if "norm" in name else weight  # d2t and t2d speak of tokens
        rows, columns = self._matrix(name.split(".")[-2], weight)
        return _put(weight, rows, columns)

    def _norm(self, weight: torch.Tensor) -> torch.Tensor:
        scaled = (weight.float() * self.shrink**0.5).to(weight.dtype)
        streams = self._residual(weight.shape[0] // self.small.hidden)
        return _put(scaled[:, None], streams, _same(1))[:, 0].clone()

    def _matrix(self, layer: str, weight: torch.Tensor) -> tuple[Places, Places]:
        """Return where the rows and columns of a matrix go."""
        outside, inside = (
            self._residual(),
            Places(indices=tuple(range(self.small.intermediate)), size=self.large.intermediate),
        )
        wide = self._residual(weight.shape[1] // self.small.hidden)
        places = {
            "q_proj": (self._queries(), wide),
            "k_proj": (self._values(), wide),
            "v_proj": (self._values(), wide),
            "o_proj": (outside, self._queries()),
            "gate_proj": (inside, outside),
            "up_proj": (inside, outside),
            "down_proj": (outside, inside),
            "fc": (outside, wide),
            "embed_tokens": (_same(weight.shape[0]), outside),
            "lm_head": (_same(weight.shape[0]), outside),
        }
        if layer not in places:
            raise SystemExit(f"{layer} has no known place in a wider model")
        return places[layer]

    def _residual(self, streams: int = 1) -> Places:
        """Return where the numbers of so many residual streams side by side go."""
        small, large = self.small.hidden, self.large.hidden
        found = tuple(at * large + index for at in range(streams) for index in range(small))
        return Places(indices=found, size=streams * large)

    def _queries(self) -> Places:
        """Return where query heads go: each stays with the KV head it had."""
        group, wide = self.small.heads // self.small.kv_heads, self.large.heads // self.large.kv_heads
        heads = [kv * wide + at for kv in range(self.small.kv_heads) for at in range(group)]
        dim = self.small.head_dim
        found = tuple(head * dim + index for head in heads for index in range(dim))
        return Places(indices=found, size=self.large.heads * dim)

    def _values(self) -> Places:
        dim = self.small.head_dim
        return Places(indices=tuple(range(self.small.kv_heads * dim)), size=self.large.kv_heads * dim)


def _same(size: int) -> Places:
    return Places(indices=tuple(range(size)), size=size)


def _put(weight: torch.Tensor, rows: Places, columns: Places) -> torch.Tensor:
    wide = torch.zeros((rows.size, columns.size), dtype=weight.dtype)
    wide[torch.tensor(rows.indices)[:, None], torch.tensor(columns.indices)[None]] = weight
    return wide


def widened(tensors: Mapping[str, torch.Tensor], by: Widener) -> dict[str, torch.Tensor]:
    """Return a checkpoint's tensors."""
    return {name: by.tensor(name, weight) for name, weight in tensors.items()}


def _config(config: Mapping[str, object], by: Widener) -> dict[str, object]:
    large = by.large
    return {
        **config,
        "hidden_size": large.hidden,
        "intermediate_size": large.intermediate,
        "num_attention_heads": large.heads,
        "num_key_value_heads": large.kv_heads,
        "head_dim": large.head_dim,
        "rms_norm_eps": float(str(config["rms_norm_eps"])) * by.shrink,
    }


def _target(source: Path, out: Path, large: Widths) -> dict[str, torch.Tensor]:
    config = json.loads((source / "config.json").read_text())
    by = Widener(Widths.of(config), large)
    tensors = load_file(source / "model.safetensors")
    out.mkdir(parents=True, exist_ok=True)
    save_file(widened(tensors, by), out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(_config(config, by), indent=1))
    for name in _TOKENIZER:
        if (source / name).exists():
            shutil.copy(source / name, out)
    return tensors


def _head(source: Path, out: Path, large: Widths, target: Mapping[str, torch.Tensor]) -> None:
    config = json.loads((source / "config.json").read_text())
    by = Widener(Widths.of(config["transformer_layer_config"]), large)
    tensors = load_file(source / "model.safetensors")
    # A head that was packed without its embeddings shares the target's.
    tensors.setdefault("embed_tokens.weight", target["model.embed_tokens.weight"])
    out.mkdir(parents=True, exist_ok=True)
    save_file(widened(tensors, by), out / "model.safetensors", metadata={"format": "pt"})
    layer = _config(config["transformer_layer_config"], by)
    (out / "config.json").write_text(json.dumps({**config, "transformer_layer_config": layer}, indent=1))


def main() -> int:
    """Write both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--head", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--intermediate", type=int, default=14336)
    parser.add_argument("--heads", type=int, default=64)
    parser.add_argument("--kv-heads", type=int, default=16)
    options = parser.parse_args()
    small = Widths.of(json.loads((options.target / "config.json").read_text()))
    large = Widths(
        hidden=options.hidden,
        intermediate=options.intermediate,
        heads=options.heads,
        kv_heads=options.kv_heads,
        head_dim=small.head_dim,
    )
    tensors = _target(options.target, options.out / "target", large)
    if options.head:
        _head(options.head, options.out / "head", large, tensors)
    return 0


if __name__ == "__main__":
    sys.exit(main())
