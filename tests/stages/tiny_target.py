"""Makes a tiny target, its own greedy answers and its hidden states. Runs in the heavy environment, as a program.

python tiny_target.py target ROOT      # target/ and prompts.jsonl
python tiny_target.py states ROOT      # hidden states of the data set that Prepare made
python tiny_target.py head ROOT        # head/: random weights in the original layout
python tiny_target.py compare ROOT HEAD OTHER  # prints by tensor whether two heads are equal
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from paceline.api import stages
from paceline.stages import agreement, extract, prepare, workspace

WORDS = [f"w{index}" for index in range(250)]
AUXILIARY = (0, 1, 2)
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}{% if add_generation_prompt %}{% endif %}"
ANSWER_TOKENS = 24
PROMPTS = 48
PROMPT_WORDS = 6
DRAFT_TOKENS = 192


def make_target(root: Path) -> None:
    """Write a random Llama of four layers and prompts with its greedy answers."""
    torch.manual_seed(0)
    vocabulary = {word: index for index, word in enumerate(["<unk>", "<s>", "</s>", "<pad>", *WORDS, "a", "b"])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106 - no password
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, **special)
    tokenizer.chat_template = TEMPLATE
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=False,
        # The embeddings' scale decides how sure a random model is; unsure, rounding would decide its answers.
        initializer_range=0.4,
    )
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(root / "target")
    tokenizer.save_pretrained(root / "target")
    prompts = [
        " ".join(WORDS[(index * 7 + step * 13) % len(WORDS)] for step in range(PROMPT_WORDS))
        for index in range(PROMPTS)
    ]
    answers = _greedy(model, tokenizer(prompts, return_tensors="pt")["input_ids"])
    lines = []
    for prompt, ids in zip(prompts, answers, strict=True):
        answer = " ".join(tokenizer.convert_ids_to_tokens(ids))
        turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
        lines.append(json.dumps({"messages": turns}) + "\n")
    (root / "prompts.jsonl").write_text("".join(lines))


@torch.no_grad()
def _greedy(model: LlamaForCausalLM, ids: torch.Tensor) -> list[list[int]]:
    """Return the model's greedy answers to prompts of one length; by hand, since a special token must not end one."""
    start = ids.shape[1]
    for _ in range(ANSWER_TOKENS):
        logits = model(ids).logits[:, -1]
        logits[:, :4] = float("-inf")
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], dim=1)
    return ids[:, start:].tolist()


@torch.no_grad()
def write_states(root: Path) -> None:
    """Write the hidden states as an engine would, and finish Extract with the agreement that its gate measures."""
    from datasets import load_from_disk  # noqa: PLC0415 - only where it is needed: its import takes seconds

    space = workspace.Workspace(root=root / "work", attempt="states")
    done = space.read_done("Prepare", stages.PrepareResult)
    dataset = space.root / done.folder / prepare.DATASET
    samples = root / "work" / "hidden" / "samples"
    samples.mkdir(parents=True)
    model = AutoModelForCausalLM.from_pretrained(root / "target").eval()
    before_norm = {}
    model.model.norm.register_forward_pre_hook(lambda _module, inputs: before_norm.update(last=inputs[0]))
    rows = load_from_disk(str(dataset / prepare.ARROW)).with_format(None)
    for index, ids in enumerate(rows["input_ids"]):
        hidden = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        layers = [hidden[layer][0] for layer in AUXILIARY] + [before_norm["last"][0]]
        states = {"hidden_states": torch.stack(layers, dim=1).contiguous(), "token_ids": torch.tensor(ids)}
        save_file(states, extract.sample_path(samples, index))
    output = agreement.load_output(root / "target")
    masks = extract.read_masks(dataset)
    counts = [agreement.count(output, extract.sample_path(samples, index), mask) for index, mask in enumerate(masks)]
    percent = 100.0 * sum(same for same, _ in counts) / sum(of for _, of in counts)
    result = stages.ExtractResult(samples=len(masks), tokens=1, hidden_bytes=1, agreement_percent=percent)
    space.finish("Extract", workspace.Done(input_digest="sha256:states", folder=str(samples), result=result))


def make_head(root: Path) -> None:
    """Write an EAGLE-3 head of another width than the trainer would choose, and without its norms."""
    torch.manual_seed(1)
    kept = torch.arange(DRAFT_TOKENS) + torch.where(torch.arange(DRAFT_TOKENS) < DRAFT_TOKENS // 2, 0, 64)
    hidden, width, keys = 64, 96, 32
    shapes = {
        "fc.weight": (hidden, 3 * hidden),
        "norm.weight": (hidden,),
        "lm_head.weight": (DRAFT_TOKENS, hidden),
        "midlayer.hidden_norm.weight": (hidden,),
        "midlayer.input_layernorm.weight": (hidden,),
        "midlayer.post_attention_layernorm.weight": (hidden,),
        "midlayer.self_attn.q_proj.weight": (hidden, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": (keys, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": (keys, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": (hidden, hidden),
        "midlayer.mlp.gate_proj.weight": (width, hidden),
        "midlayer.mlp.up_proj.weight": (width, hidden),
        "midlayer.mlp.down_proj.weight": (hidden, width),
    }
    tensors = {name: (torch.randn(shape) * 0.1).bfloat16() for name, shape in shapes.items()}
    target = json.loads((root / "target" / "config.json").read_text())
    mask = torch.zeros(target["vocab_size"], dtype=torch.bool)
    mask[kept] = True
    tensors |= {"d2t": kept - torch.arange(DRAFT_TOKENS), "t2d": mask}
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512,
        "vocab_size": target["vocab_size"],
        "draft_vocab_size": DRAFT_TOKENS,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(AUXILIARY), "use_aux_hidden_state": True},
    }
    (root / "head").mkdir()
    (root / "head" / "config.json").write_text(json.dumps(config))
    save_file(tensors, root / "head" / "model.safetensors", metadata={"format": "pt"})


def compare(head: Path, other: Path) -> None:
    """Print, by tensor of ``head`` under the trainer's names, whether ``other`` has the same; lm_head by token."""
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (head, other))
    rows = [_by_token(tensors) for tensors in (ours, theirs)]
    both = sorted(set(rows[0]) & set(rows[1]))
    same = {"lm_head.weight": all(torch.equal(rows[0][token], rows[1][token]) for token in both)}
    for name, tensor in ours.items():
        place = name.replace("midlayer.", "layers.0.")
        if place not in {"lm_head.weight", "d2t", "t2d"}:
            same[place] = place in theirs and torch.equal(tensor, theirs[place])
    print(json.dumps({"same": same, "tokens": len(both), "vocabulary": sorted(rows[1]) == sorted(rows[0])}))  # noqa: T201 - a program's answer


def _by_token(tensors: dict[str, torch.Tensor]) -> dict[int, torch.Tensor]:
    return {index + offset: tensors["lm_head.weight"][index] for index, offset in enumerate(tensors["d2t"].tolist())}


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        compare(Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        {"target": make_target, "states": write_states, "head": make_head}[sys.argv[1]](Path(sys.argv[2]))
