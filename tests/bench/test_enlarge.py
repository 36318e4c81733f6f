"""A model that is made larger and says the same. Needs the environment of requirements/cpu.lock."""

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from requirements import cpu_env

pytestmark = pytest.mark.ml

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = textwrap.dedent("""
    import json, subprocess, sys
    from pathlib import Path
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    out = Path(sys.argv[1])
    torch.manual_seed(3)
    small = LlamaForCausalLM(LlamaConfig(
        vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=3, head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=True,
    )).eval()
    for name, weight in small.named_parameters():
        torch.nn.init.normal_(weight, 1.0 if "norm" in name else 0.0, 0.2)
    small.save_pretrained(out / "small")
    from bench import enlarge
    sys.argv = ["enlarge", "--target", str(out / "small"), "--out", str(out), "--hidden", "128",
                "--intermediate", "200", "--heads", "16", "--kv-heads", "4"]
    enlarge.main()
    large = LlamaForCausalLM.from_pretrained(out / "target").eval()
    tokens = torch.arange(40).reshape(2, 20)
    with torch.no_grad():
        one, other = small(tokens).logits, large(tokens).logits
    print(json.dumps({
        "hidden": large.config.hidden_size,
        "largest": float(one.abs().max()),
        "difference": float((one - other).abs().max()),
        "grown": sum(p.numel() for p in large.parameters()) / sum(p.numel() for p in small.parameters()),
    }))
""")


def test_enlarged_target_says_the_same(tmp_path):
    """Its logits are the small one's, and its matrices a larger model's."""
    python = cpu_env.find_venv()
    if python is None:
        pytest.skip("the environment of requirements/cpu.lock is not built; `make test-parts` builds it")
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(  # noqa: S603 - our own program
        [python / "bin" / "python", "-c", SCRIPT, tmp_path],
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["hidden"] == 128
    assert found["grown"] > 5
    assert found["difference"] < 1e-3 * found["largest"]
