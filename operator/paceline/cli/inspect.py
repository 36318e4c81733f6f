"""``paceline inspect DIR_OR_CONFIG``: what the operator would make of a model, from its files, in a second."""

import argparse
from pathlib import Path
from typing import Any

from paceline.api.checkpoint import HeadCheckpoint, TargetCheckpoint
from paceline.checkpoints import decision as decisions
from paceline.checkpoints import documents, estimates, files, fit, inspection, parallelism, support, weights
from paceline.checkpoints import head as heads
from paceline.checkpoints import target as targets
from paceline.cli import exits, output


def register(commands: Any) -> None:
    """Add the command to the tree."""
    parser = commands.add_parser(
        "inspect",
        help="tell how a model can be drafted for, and whether a head fits it",
        description=(
            "Read a target's files, and a head's, and tell whether MTP, head, engine and parallelism fit. Weights are "
            "looked at by name and size only. Exit code 3 when something forbids going on."
        ),
    )
    parser.add_argument("target", type=Path, help="a checkpoint's folder, or a config.json alone")
    parser.add_argument("--index", type=Path, help="the target's model.safetensors.index.json, beside a config alone")
    parser.add_argument("--head", type=Path, help="a draft head's folder, or its config.json alone")
    parser.add_argument("--head-index", type=Path, help="the head's index, beside a config alone")
    parser.add_argument("--tp", type=_positive, help="tensor-parallel size at which the target is to run")
    parser.add_argument("--draft-tp", type=_positive, help="draft_tensor_parallel_size, where one is set")
    parser.add_argument("--engine", help="engine and version, like vllm==0.18.0 (default: the newest known vLLM)")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="FLAG", help="engine argument, like --arg=--max-model-len=32768"
    )
    parser.add_argument("--method", default="", help="how the head is to be run, such as eagle3 (default: its own way)")
    parser.add_argument("--samples", type=_positive, help="estimate extraction for so many training samples")
    parser.add_argument("--sequence-length", type=_positive, default=4096, help="tokens of a sample (%(default)s)")
    parser.add_argument("--volume", help="size of the workspace volume, like 10Ti, that the estimate must fit")
    output.add_format(parser)
    parser.set_defaults(run=run)


def _positive(text: str) -> int:
    """Return a whole number from 1 to a million of millions; argparse tells the rest."""
    number = int(text)
    if not 1 <= number <= 10**12:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to {10**12}")
    return number


def run(options: argparse.Namespace) -> int:
    """Return the exit code."""
    try:
        serving = _serving(options)
        target = _target(options)
        head = _head(options)
        estimate = _estimate(options, target, serving)
    except documents.UnreadableError as error:
        raise exits.UsageError(str(error)) from error
    except ValueError as error:
        raise exits.UsageError(str(error)) from error
    found = inspection.inspect(target, serving, head=head)
    document = describe(found, estimate)
    if estimate is not None and options.volume:
        refused = estimates.check_volume(estimate.hidden_bytes, estimates.parse_quantity(options.volume))
        document["problems"] += [one.wire() for one in refused]
        document["valid"] = document["valid"] and not refused
    output.answer(document, _lines(document), form=options.output)
    return exits.OK if document["valid"] else exits.REFUSED


def _serving(options: argparse.Namespace) -> fit.Serving:
    return fit.Serving(
        engine=support.parse_engine(options.engine) if options.engine else support.Engine(),
        tensor_parallel_size=options.tp,
        draft_tensor_parallel_size=options.draft_tp,
        args=tuple(options.arg),
        method=options.method,
        target_name=options.target.absolute().name.removesuffix(".json"),
    )


def _target(options: argparse.Namespace) -> TargetCheckpoint:
    path: Path = options.target
    if _is_folder(path):
        folder = files.Folder(path=path)
        config, found, tokens = files.read_config(folder), files.read_weights(folder), files.read_tokenizer(folder)
    else:
        config, found, tokens = _json(path), None, None
    if options.index:
        found = weights.from_index(_json(options.index), name=options.index.name)
    return targets.read(config, weights=found, tokenizer=tokens)


def _head(options: argparse.Namespace) -> HeadCheckpoint | None:
    path: Path | None = options.head
    if path is None:
        if options.head_index:
            raise exits.UsageError("--head-index belongs to a head; name it with --head")
        return None
    if _is_folder(path):
        found = files.read_head(files.Folder(path=path))
        if not options.head_index:
            return found
        path = path / files.CONFIG
    index = weights.from_index(_json(options.head_index), name=options.head_index.name) if options.head_index else None
    return heads.read(_json(path), weights=index)


def _is_folder(path: Path) -> bool:
    """Whether a path is a folder; one that the system refuses to look up is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _json(path: Path) -> documents.Json:
    """Return a file's object, read under the bounds that hold for a checkpoint's own files."""
    raw = files.read_whole(files.Folder(path=path.parent), path.name)
    if raw is None:
        raise documents.UnreadableError(f"{str(path)!r} is no readable file; name a folder, or a JSON file")
    return documents.parse(raw, name=str(path))


def _estimate(options: argparse.Namespace, target: TargetCheckpoint, serving: fit.Serving) -> estimates.Estimate | None:
    if options.volume and not options.samples:
        raise exits.UsageError("--volume is compared with an estimate; say how much is trained with --samples")
    if options.volume:
        estimates.parse_quantity(options.volume)
    if not options.samples:
        return None
    tokens = options.samples * options.sequence_length
    return estimates.extraction(target, tokens=tokens, aux_layers=3, gpus=serving.tensor_parallel_size)


def describe(found: inspection.Inspection, estimate: estimates.Estimate | None) -> dict[str, Any]:
    """Return the answer: every key is there, null where nothing is known."""
    target, size = found.target, found.serving.tensor_parallel_size
    allowed = parallelism.allowed(target, at_most=max(size or 0, parallelism.NODE_GPUS))
    return {
        "valid": found.is_valid,
        "decision": found.decision.word,
        "choice": found.decision.choice.value,
        "reasons": list(found.decision.reasons),
        "backbone": _backbone(target) if target.layers else None,
        "mtp": {
            "declared": target.mtp.declared,
            "evidence": target.mtp.evidence,
            "modules": target.mtp.modules,
            "weights": target.mtp.weights.value,
            "mapped": support.maps_mtp(found.serving.engine, support.family_named(target.mtp.family)).value,
            "usable": decisions.is_mtp_usable(target, found.serving),
        },
        "tp": {
            "requested": size,
            "allowed": allowed,
            "ok": parallelism.fits(target, size) if size is not None else None,
        },
        "aux_layers": found.aux_layers,
        "hidden_state_bytes_per_token": found.hidden_state_bytes_per_token,
        "engine": found.serving.engine.title,
        "tokenizer_fingerprint": target.tokenizer_fingerprint,
        "head": _of_head(found) if found.head else None,
        "estimate": _of_estimate(estimate) if estimate else None,
        "problems": [one.wire() for one in found.problems],
    }


def _backbone(target: TargetCheckpoint) -> dict[str, Any]:
    return {
        "path": target.text_path,
        "wrapper": bool(target.text_path),
        "model_type": target.text_model_type,
        "architectures": target.architectures,
        "hidden_size": target.hidden_size,
        "num_hidden_layers": target.layers,
        "vocab_size": target.vocabulary_size,
        "num_attention_heads": target.attention_heads,
        "num_kv_heads": target.kv_heads,
        "head_dim": target.head_dim,
        "latent_attention": target.latent_attention,
        "max_position_embeddings": target.window,
        "num_experts": target.experts,
        "num_experts_per_tok": target.experts_per_token,
        "tied": target.tied_embeddings,
        "quantization": target.quantization or None,
        "remote_code": target.remote_code,
        "weights_bytes": target.weights_bytes,
    }


def _of_head(found: inspection.Inspection) -> dict[str, Any]:
    head = found.head
    if head is None:
        raise AssertionError("only called with a head")
    size, name = found.serving.tensor_parallel_size, heads.registered_name(head)
    has = support.has_head(found.serving.engine, name) if name else support.Support.UNKNOWN
    return {
        "head_type": head.head_type.value,
        "methods": list(heads.methods(head)),
        "architecture": head.architecture or None,
        "model_type": head.model_type or None,
        "hidden_size": head.hidden_size,
        "target_hidden_size": head.target_hidden_size,
        "vocab_size": head.vocabulary_size,
        "draft_vocab_size": head.draft_vocabulary_size,
        "num_hidden_layers": head.layers,
        "num_attention_heads": head.attention_heads,
        "num_kv_heads": head.kv_heads,
        "max_position_embeddings": head.window,
        "aux_layer_ids": head.aux_layer_ids,
        "aux_layer_convention": heads.convention(head, found.target.layers).value,
        "tp_ok": parallelism.fits(head, size) if size is not None else None,
        "registered": None if has is support.Support.UNKNOWN else has is support.Support.YES,
        "verifier": head.verifier or None,
        "weights": head.weights.value,
    }


def _of_estimate(estimate: estimates.Estimate) -> dict[str, Any]:
    return {
        "tokens": estimate.tokens,
        "hidden_state_bytes": estimate.hidden_bytes,
        "gpus_per_node": estimate.gpus,
        "extraction_seconds": estimate.seconds,
    }


def _lines(document: dict[str, Any]) -> list[str]:
    """Return the answer for people: what to do first, then facts, then problems."""
    lines = [f"decision: {document['decision'] or 'none'} ({document['choice']})"]
    lines += [f"  {reason}" for reason in document["reasons"]]
    for key in ("backbone", "mtp", "tp", "head", "estimate"):
        if document[key]:
            lines.append(f"{key}: " + ", ".join(f"{name} {_plain(value)}" for name, value in document[key].items()))
    lines.append(f"auxiliary layers: {_plain(document['aux_layers'])}")
    lines.append(f"hidden states: {_plain(document['hidden_state_bytes_per_token'])} bytes a token")
    lines += [f"{one['severity']}: {one['message']} [{one['code']}]" for one in document["problems"]]
    return [line.encode("ascii", "backslashreplace").decode() for line in lines]


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(str(one) for one in value) or "-" if isinstance(value, list) else str(value) or "-"
