"""Method ``Auto``: the way to draft that the files speak for, fixed once it is resolved into a revision.

The target's own MTP where it is certain to work, else the head that is named, else look-up in the prompt, which needs
nothing. Whatever is chosen is measured against no speculation like any other candidate.
"""

from collections.abc import Mapping
from typing import Final

from paceline.api.checkpoint import HeadType
from paceline.api.speculation import Method
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.checkpoints import decision, inspection

_OF_HEAD: Final[Mapping[HeadType, Method]] = {
    HeadType.EAGLE1: Method.EAGLE,
    HeadType.MEDUSA: Method.MEDUSA,
    HeadType.MLP_SPECULATOR: Method.MLP_SPECULATOR,
    HeadType.DRAFT_MODEL: Method.DRAFT_MODEL,
    HeadType.DFLASH: Method.DFLASH,
    HeadType.DSPARK: Method.DSPARK,
    HeadType.MTP: Method.MTP,
}
"""All other kinds run as EAGLE-3."""


def choose(spec: SpeculativeDeploymentSpec, found: inspection.Inspection | None) -> SpeculativeDeploymentSpec:
    """Return the spec with a method in place of ``Auto``; unchanged when it names one.

    Args:
        spec: the wanted state.
        found: what the files of target and head amount to; None when they were read by a version without facts.
    """
    wanted = spec.speculation
    if wanted.method is not Method.AUTO:
        return spec
    if found is not None and decision.is_mtp_usable(found.target, found.serving) is True:
        changes = {"method": Method.MTP, "draft": None, "training_job_ref": None}
    elif wanted.draft is None and wanted.training_job_ref is None:
        changes = {"method": Method.NGRAM}
    else:
        head = found.head if found is not None else None
        changes = {"method": _OF_HEAD.get(head.head_type, Method.EAGLE3) if head else Method.EAGLE3}
    return spec.model_copy(update={"speculation": wanted.model_copy(update=changes)})
