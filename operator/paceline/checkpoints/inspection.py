"""All that is known of a target, a head and an engine, as one answer."""

from dataclasses import dataclass

from paceline.api.checkpoint import HeadCheckpoint, Problem, TargetCheckpoint
from paceline.checkpoints import auxiliary, decision, fit, problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The answer."""

    target: TargetCheckpoint
    head: HeadCheckpoint | None
    serving: fit.Serving
    decision: decision.Decision
    problems: tuple[Problem, ...]

    @property
    def is_valid(self) -> bool:
        """Whether nothing forbids going on."""
        return problems.is_valid(self.problems)

    @property
    def aux_layers(self) -> list[int]:
        """Layers that a new head would read; empty when the depth is not known."""
        return auxiliary.default(self.target.layers) if self.target.layers else []

    @property
    def hidden_state_bytes_per_token(self) -> int | None:
        """What extraction writes for one token."""
        return auxiliary.bytes_per_token(self.target.hidden_size, len(self.aux_layers)) if self.aux_layers else None


def inspect(target: TargetCheckpoint, serving: fit.Serving, *, head: HeadCheckpoint | None = None) -> Inspection:
    """Return every problem at once, and what to do."""
    found = list(target.problems)
    of_head: list[Problem] = []
    if target.layers is not None:
        found += fit.check_target(target, serving)
        of_head = fit.check_head(target, head, serving) if head else []
    if head is not None:
        of_head = [*head.problems, *of_head]
    decided = decision.decide(target, serving, head=head, head_problems=tuple(of_head))
    if head is None and decided.choice is decision.Choice.NGRAM_ONLY and serving.engine.text:
        found += fit.check_eagle3(target, serving)
    ordered = sorted([*found, *of_head], key=lambda one: one.severity.value)
    return Inspection(
        target=target, head=head, serving=serving, decision=decided, problems=tuple(dict.fromkeys(ordered))
    )
