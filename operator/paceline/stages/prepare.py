"""Prepare: prompts -> split -> the target's own answers -> the trainer's data set and token frequencies.

Layout of the work folder: ``answers/*.jsonl`` (one file an attempt), then in one rename ``dataset/`` with
``training.jsonl``, ``arrow/`` (what the trainer reads), ``token_frequencies.json`` and ``holdout.jsonl``.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from paceline.api import names, stages
from paceline.stages import (
    children,
    jsonl,
    prompts,
    regenerate,
    server,
    target_files,
    trainer_environment,
    vocabulary,
    workspace,
)
from paceline.stages.context import Context
from paceline.stages.failures import PermanentError, TransientError

ANSWERS: Final = "answers"
DATASET: Final = "dataset"
ARROW: Final = "arrow"
TRAINING: Final = "training.jsonl"
HOLDOUT: Final = "holdout.jsonl"
FREQUENCIES: Final = "token_frequencies.json"
_TOKENISE_SHARE: Final = 0.9
"""Answering takes nearly all of the time."""


def run(config: stages.PrepareConfig, context: Context) -> stages.PrepareResult:
    """Return facts about the data set, which lies on the workspace when this returns."""
    split = prompts.split(
        prompts.read(Path(config.prompts_path)),
        holdout_percent=config.holdout_percent,
        max_samples=config.max_samples,
    )
    digest = input_digest(config, split)
    done = context.workspace.read_done("Prepare", stages.PrepareResult)
    if done and done.input_digest == digest:
        return done.result
    folder = context.workspace.folder("Prepare", digest)
    rows = _answer(config, split, folder, context) if config.regenerate else _tokenise(config, split)
    result = _build(config, split, rows, folder=folder, digest=digest, context=context)
    context.workspace.finish("Prepare", workspace.Done(input_digest=digest, folder=folder.name, result=result))
    return result


def input_digest(config: stages.PrepareConfig, split: prompts.Split) -> str:
    """Return the digest of all that decides the data set; concurrency and addresses do not."""
    return names.digest(
        {
            "target": config.target.wire(),
            "train": prompts.content_digest(split.train),
            "holdout": prompts.content_digest(split.holdout),
            "sequenceLength": config.sequence_length,
            "regenerate": config.regenerate,
            "maxTokens": config.max_tokens if config.regenerate else None,
        }
    )


def _answer(config: stages.PrepareConfig, split: prompts.Split, folder: Path, context: Context) -> list[regenerate.Row]:
    """Return the target's answers to all training prompts, continuing where earlier attempts ended."""
    wanted = [prompt.unanswered() for prompt in split.train]
    known = regenerate.load_rows(folder / ANSWERS, wanted)
    if len(known) < len(wanted):
        with jsonl.JsonLog(folder / ANSWERS / f"{context.workspace.attempt}.jsonl") as log:
            known = context.stop.run(_ask_server(config, wanted, known, log, context))
    return [row for prompt in wanted if (row := known[prompt.key]) is not None]


async def _ask_server(
    config: stages.PrepareConfig,
    wanted: list[prompts.Prompt],
    known: Mapping[str, regenerate.Row | None],
    log: jsonl.JsonLog,
    context: Context,
) -> dict[str, regenerate.Row | None]:
    if config.server_url is None:
        raise PermanentError("data.regeneration is enabled but the stage was given no server to ask")

    def tell(answered: int, of: int, tokens: int) -> None:
        context.progress.update(
            _TOKENISE_SHARE * answered / of, f"{answered} of {of} prompts answered, {tokens} tokens in this attempt"
        )

    async with server.HttpTransport(config.server_url) as transport:
        engine = server.EngineServer(transport, context.clock)
        context.progress.phase(_TOKENISE_SHARE * len(known) / len(wanted), "waiting for the target's server to answer")
        await engine.wait_until_it_answers()
        context.progress.phase(
            _TOKENISE_SHARE * len(known) / len(wanted), f"{len(known)} of {len(wanted)} prompts answered"
        )
        return await regenerate.regenerate(
            engine,
            wanted,
            log=log,
            known=known,
            max_tokens=config.max_tokens,
            concurrency=config.concurrency,
            tell=tell,
        )


def _tokenise(config: stages.PrepareConfig, split: prompts.Split) -> list[regenerate.Row]:
    """Return rows from answers that the data set already holds."""
    from transformers import AutoTokenizer  # noqa: PLC0415 - only the trainer image has it

    tokenizer = AutoTokenizer.from_pretrained(
        target_files.locate(config.target, weights=False), trust_remote_code=config.target.trust_remote_code
    )
    rows = [_tokenise_one(tokenizer, prompt) for prompt in split.train if prompt.answered]
    if not rows:
        raise PermanentError(
            "no prompt ends in an assistant turn; add answers to the data or set data.regeneration.enabled to true"
        )
    return [row for row in rows if row is not None]


def _tokenise_one(tokenizer: object, prompt: prompts.Prompt) -> regenerate.Row | None:
    """Return a row, or None where the template renders the context differently once an answer follows it."""
    apply = tokenizer.apply_chat_template  # type: ignore[attr-defined]
    context = apply(prompt.unanswered().for_chat, add_generation_prompt=True, tokenize=True, return_dict=True)
    whole = apply(prompt.for_chat, tokenize=True, return_dict=True)
    prompt_ids, ids = list(context["input_ids"]), list(whole["input_ids"])
    if ids[: len(prompt_ids)] != prompt_ids:
        return None
    return regenerate.Row(key=prompt.key, prompt_ids=tuple(prompt_ids), answer_ids=tuple(ids[len(prompt_ids) :]))


def _build(
    config: stages.PrepareConfig,
    split: prompts.Split,
    rows: list[regenerate.Row],
    *,
    folder: Path,
    digest: str,
    context: Context,
) -> stages.PrepareResult:
    """Write the data set into a fenced folder and put it into place."""
    records = [row.training_record(config.sequence_length) for row in rows]
    records = [record for record in records if any(record["loss_mask"])]
    if not records:
        raise PermanentError("no answer fits into data.sequenceLength; raise it above the prompts' own length")
    if not (folder / DATASET).is_dir():
        scratch = context.workspace.scratch(folder)
        (scratch / TRAINING).write_text("".join(json.dumps(record) + "\n" for record in records))
        (scratch / HOLDOUT).write_text(
            "".join(json.dumps({"messages": prompt.unanswered().for_chat}) + "\n" for prompt in split.holdout)
        )
        (scratch / FREQUENCIES).write_text(json.dumps(vocabulary.count_tokens(records)))
        context.progress.phase(_TOKENISE_SHARE, f"writing the data set of {len(records)} samples")
        _write_arrow(config, scratch, context)
        workspace.commit_folder(scratch, folder / DATASET)
    return stages.PrepareResult(
        data_digest=names.digest({"inputs": digest, "rows": records}),
        train_samples=len(records),
        holdout_samples=len(split.holdout),
        train_tokens=sum(sum(record["loss_mask"]) for record in records),
    )


def _write_arrow(config: stages.PrepareConfig, scratch: Path, context: Context) -> None:
    """Let the trainer's own tool write its data set, so that its format is its own matter."""
    command = [
        sys.executable,
        "-m",
        "speculators",
        "prepare-data",
        f"--model={target_files.locate(config.target, weights=False)}",
    ]
    command += [f"--data={scratch / TRAINING}", f"--output={scratch / ARROW}", f"--seq-length={config.sequence_length}"]
    command += ["--trust-remote-code"] if config.target.trust_remote_code else []
    code, tail = children.run(
        command, environment=trainer_environment.variables(), stop=context.stop, tick=lambda: None
    )
    if not (scratch / ARROW / "dataset_info.json").is_file():
        raise TransientError(f"speculators prepare-data left no data set (exit code {code}): {tail[-600:]}")
