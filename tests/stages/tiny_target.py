"""Makes a tiny target, its own greedy answers and its hidden states. Runs in the heavy environment, as a program.

python tiny_target.py target ROOT      # target/ and prompts.jsonl
python tiny_target.py states ROOT      # hidden states of the data set that Prepare made
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
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


if __name__ == "__main__":
    {"target": make_target, "states": write_states}[sys.argv[1]](Path(sys.argv[2]))
