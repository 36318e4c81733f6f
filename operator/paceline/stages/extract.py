"""Extract: the hidden states of every training sample, written by the engine, moved into place one by one, and checked.

Resumable to the single sample: a sample is one file, which appears by a rename and is opened again before it counts.
"""

import json
import sys
from pathlib import Path
from typing import Final

from paceline.api import names, stages
from paceline.stages import agreement, children, prepare, server, target_files, trainer_environment, workspace
from paceline.stages.context import Context
from paceline.stages.failures import PermanentError, TransientError

_GATE_SAMPLES: Final = 24
_GATE_SHARE: Final = 0.95


def run(config: stages.ExtractConfig, context: Context) -> stages.ExtractResult:
    """Return facts about the hidden states, which lie on the workspace when this returns.

    Raises:
        PermanentError: when they are not the target's.
        TransientError: when samples are missing.
    """
    data = read_data(context.workspace)
    digest = names.digest({"data": data.input_digest, "target": config.target.wire()})
    done = context.workspace.read_done("Extract", stages.ExtractResult)
    if done and done.input_digest == digest:
        return done.result
    samples = Path(config.hidden_states_path) / f"samples-{names.short(digest)}"
    samples.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(samples.parent)
    dataset = context.workspace.root / data.folder / prepare.DATASET
    _extract(config, context, dataset=dataset, samples=samples, wanted=data.result.train_samples)
    result = _measure(config, context, dataset=dataset, samples=samples)
    context.workspace.finish("Extract", workspace.Done(input_digest=digest, folder=str(samples), result=result))
    return result


def read_data(space: workspace.Workspace) -> workspace.Done[stages.PrepareResult]:
    """Return what Prepare left.

    Raises:
        PermanentError: when it left nothing.
    """
    done = space.read_done("Prepare", stages.PrepareResult)
    if done is None:
        raise PermanentError(f"{space.root} holds no finished data set; the Prepare stage must succeed first")
    return done


def _extract(config: stages.ExtractConfig, context: Context, *, dataset: Path, samples: Path, wanted: int) -> None:
    """Drive the trainer's own client; a sample it skipped is missing afterwards, whatever its exit code."""
    start = len(_files(samples))
    context.progress.phase(_GATE_SHARE * start / wanted, "waiting for the extraction server to answer")
    if start < wanted:
        context.stop.run(_wait(config, context))
    context.progress.phase(_GATE_SHARE * start / wanted, f"{start} of {wanted} samples")

    def tick() -> None:
        count = len(_files(samples))
        context.progress.update(_GATE_SHARE * count / wanted, f"{count} of {wanted} samples")

    # Run even when all files are there: it opens each one and asks again for those that are cut off.
    command = [sys.executable, "-m", "speculators", "generate-offline-data", "--validate-outputs"]
    command += [f"--endpoint={config.server_url.rstrip('/').removesuffix('/v1')}/v1", f"--output={samples}"]
    command += [f"--preprocessed-data={dataset / prepare.ARROW}", f"--concurrency={config.concurrency}"]
    code, tail = children.run(command, environment=trainer_environment.variables(), stop=context.stop, tick=tick)
    if (count := len(_files(samples))) < wanted:
        raise TransientError(f"{wanted - count} of {wanted} samples are missing (exit code {code}): {tail[-600:]}")


async def _wait(config: stages.ExtractConfig, context: Context) -> None:
    async with server.HttpTransport(config.server_url) as transport:
        await server.EngineServer(transport, context.clock).wait_until_it_answers()


def _measure(config: stages.ExtractConfig, context: Context, *, dataset: Path, samples: Path) -> stages.ExtractResult:
    """Check the hidden states against the target and sum up."""
    context.progress.phase(_GATE_SHARE, "rebuilding the target's logits from hidden states")
    masks = read_masks(dataset)
    output = agreement.load_output(target_files.locate(config.target, weights=True))
    step = max(1, len(masks) // _GATE_SAMPLES)
    agreeing = compared = 0
    for index in range(0, len(masks), step):
        same, of = agreement.count(output, sample_path(samples, index), masks[index])
        agreeing, compared = agreeing + same, compared + of
    percent = 100.0 * agreeing / compared if compared else 0.0
    if not agreement.is_enough(agreeing, compared, min_percent=config.min_agreement_percent):
        raise PermanentError(
            f"logits rebuilt from the hidden states name the target's next token in {percent:.1f} % of {compared} "
            f"positions, below extraction.minAgreementPercent {config.min_agreement_percent}: they are not this "
            "target's, or its answers were not regenerated greedily; check that engine and target match"
        )
    files = _files(samples)
    return stages.ExtractResult(
        samples=len(files),
        tokens=sum(len(mask) for mask in masks),
        hidden_bytes=sum(path.stat().st_size for path in files),
        agreement_percent=round(percent, 2),
    )


def sample_path(samples: Path, index: int) -> Path:
    """Return where the sample of a data set's row lies; the trainer looks for this name."""
    return samples / f"hs_{index}.safetensors"


def read_masks(dataset: Path) -> list[list[int]]:
    """Return the loss masks in the order of the trainer's data set, which is shuffled."""
    from datasets import load_from_disk  # noqa: PLC0415 - only the trainer image has it

    return [list(mask) for mask in load_from_disk(str(dataset / prepare.ARROW)).with_format(None)["loss_mask"]]


def _clear_leftovers(folder: Path) -> None:
    """Remove what the engine of a killed attempt wrote and nobody moved into place; that attempt's pod is gone."""
    for path in folder.glob("*.safetensors*"):
        path.unlink(missing_ok=True)


def _files(samples: Path) -> list[Path]:
    return list(samples.glob("hs_*.safetensors"))


def load_frequencies(dataset: Path) -> dict[int, int]:
    """Return how often each token is learnt."""
    return {int(token): count for token, count in json.loads((dataset / prepare.FREQUENCIES).read_text()).items()}
