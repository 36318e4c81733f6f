"""Turn a quantised GGUF Llama into a bf16 checkpoint folder that vLLM and speculators both read.

python convert_gguf.py FILE.gguf OUT
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

# What the loader writes about the quantised file, and what would make vLLM look for one.
_STALE_KEYS = ("quantization_config", "_name_or_path", "architectures", "transformers_version", "dtype", "torch_dtype")


def convert(source: Path, out: Path) -> None:
    """Write config, weights, tokenizer and chat template of ``source`` into ``out``."""
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    quantised = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    # A fresh model, because the loaded one insists that it is quantised and refuses to be saved as anything else.
    config = {key: value for key, value in quantised.config.to_dict().items() if key not in _STALE_KEYS}
    plain = LlamaForCausalLM(LlamaConfig(**config)).to(torch.bfloat16)
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in quantised.state_dict().items()}
    plain.load_state_dict(weights, strict=True)
    plain.tie_weights()
    plain.save_pretrained(out)
    tokenizer.save_pretrained(out)
    # Weights are written 0600; pods read them as another user.
    for path in out.iterdir():
        path.chmod(0o644)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
