"""Evaluate: the head in the real engine, on prompts it was not trained on; also the proof that the engine loads it.

Acceptance comes from the engine's own counters over greedy answers. The prompts are the held-out ones of this run.
"""

from collections.abc import Sequence
from typing import Final

from paceline.api import names, stages
from paceline.stages import acceptance, extract, prepare, prompts, regenerate, server, workspace
from paceline.stages.context import Context
from paceline.stages.failures import PermanentError, TransientError

_CONCURRENCY: Final = 8
"""Acceptance does not depend on it; it only saves time."""


class GateNotMetError(PermanentError):
    """The head was measured and accepts less than was asked."""

    def __init__(self, result: stages.EvaluateResult, minimum: float) -> None:
        """Keep the measurement: it is what the user needs to see."""
        super().__init__(
            f"the head accepts {result.acceptance_length:.2f} tokens a step at k={result.speculative_tokens} on "
            f"{result.prompts} held-out prompts, below evaluation.minAcceptanceLength {minimum:g}; train on more or "
            "closer prompts, for more epochs, or lower the gate"
        )
        self.result = result


def run(config: stages.EvaluateConfig, context: Context) -> stages.EvaluateResult:
    """Return the head's acceptance.

    Raises:
        GateNotMetError: when it is below the gate.
        PermanentError: when the engine does not use the head at all.
    """
    data = extract.read_data(context.workspace)
    digest = names.digest({"data": data.input_digest, "evaluation": config.wire() | {"serverUrl": ""}})
    done = context.workspace.read_done("Evaluate", stages.EvaluateResult)
    if done and done.input_digest == digest:
        return _gated(done.result, config)
    holdout = prompts.read(context.workspace.root / data.folder / prepare.DATASET / prepare.HOLDOUT)
    chosen = sorted(holdout, key=lambda prompt: prompt.key)[: config.max_prompts]
    result = context.stop.run(_measure(config, chosen, context))
    folder = context.workspace.folder("Evaluate", digest)
    context.workspace.finish("Evaluate", workspace.Done(input_digest=digest, folder=folder.name, result=result))
    return _gated(result, config)


async def _measure(
    config: stages.EvaluateConfig, chosen: Sequence[prompts.Prompt], context: Context
) -> stages.EvaluateResult:
    answered = refused = 0
    async with server.HttpTransport(config.server_url) as transport:
        engine = server.EngineServer(transport, context.clock)
        context.progress.phase(0.0, "waiting for the engine to load the head and answer")
        await engine.wait_until_it_answers()
        before = acceptance.read(await engine.scrape(), engine.model)
        context.progress.phase(0.0, f"answering {len(chosen)} held-out prompts")

        async def ask(prompt: prompts.Prompt) -> None:
            nonlocal answered, refused
            try:
                await engine.chat(prompt.for_chat, max_tokens=config.max_tokens)
                answered += 1
            except server.RefusedError:
                refused += 1
            context.progress.update((answered + refused) / len(chosen), f"{answered} of {len(chosen)} held-out prompts")

        await regenerate.each(chosen, ask, concurrency=_CONCURRENCY)
        after = acceptance.read(await engine.scrape(), engine.model)
    if not answered:
        raise TransientError(f"the engine refused all {refused} held-out prompts; read the engine container's log")
    return _result(acceptance.between(before, after), config, answered=answered)


def _result(measured: acceptance.Acceptance, config: stages.EvaluateConfig, *, answered: int) -> stages.EvaluateResult:
    return stages.EvaluateResult(
        acceptance_length=round(measured.length, 4),
        acceptance_by_position=[round(share, 4) for share in measured.by_position],
        drafts=measured.drafts,
        accepted_tokens=measured.accepted,
        prompts=answered,
        speculative_tokens=config.speculative_tokens,
    )


def _gated(result: stages.EvaluateResult, config: stages.EvaluateConfig) -> stages.EvaluateResult:
    """Return the result when the head is good enough; one that is never accepted is not, whatever the gate."""
    if result.accepted_tokens == 0 or result.acceptance_length < config.min_acceptance_length:
        raise GateNotMetError(result, config.min_acceptance_length)
    return result
