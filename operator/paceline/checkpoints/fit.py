"""Whether a target, a head and an engine fit: every violation at once, each with what to change.

The order is that of a reader's interest: the target by itself, the engine, the head, and doubts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.api.checkpoint import HeadCheckpoint, HeadType, Presence, Problem, TargetCheckpoint
from paceline.checkpoints import arguments, auxiliary, lineage, parallelism, problems, support
from paceline.checkpoints import head as heads
from paceline.checkpoints.support import Engine, Support

_READS_STATES = auxiliary.READS_LAYERS - {HeadType.EAGLE1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How a target is to be served."""

    engine: Engine = support.NEWEST_VLLM
    tensor_parallel_size: int | None = None
    draft_tensor_parallel_size: int | None = None
    args: tuple[str, ...] = ()
    method: str = ""
    """The engine's word for the way of drafting; empty for what the head asks for."""
    target_name: str = ""
    """The target's ``organisation/name``, where it has one."""


def check_target(target: TargetCheckpoint, serving: Serving) -> list[Problem]:
    """Return what stands against serving a target so, with whatever draft."""
    return [*parallelism.check(target, serving.tensor_parallel_size), *_mtp(target, serving)]


def _mtp(target: TargetCheckpoint, serving: Serving) -> Iterator[Problem]:
    """Yield what is to be known of a target's own MTP layers before anyone counts on them."""
    mtp = target.mtp
    if mtp.weights is Presence.ABSENT and mtp.declared:
        yield problems.warning(
            "MtpWeightsAbsent",
            f"MTP is declared ({mtp.evidence}) and the weights are absent from the checkpoint; an engine that loads it "
            "all the same drafts from uninitialised memory. Use a draft head",
        )
    if mtp.weights is Presence.PRESENT and not mtp.declared:
        yield problems.warning(
            "MtpUndeclared",
            f"the weights hold {mtp.complete_modules} MTP modules that config.json does not declare ({mtp.evidence}), "
            "so no engine uses them; declare them to draft with them",
        )
    if not mtp.declared:
        return
    if mtp.weights is Presence.UNKNOWN:
        yield problems.warning(
            "MtpWeightsUnverified",
            f"MTP is declared ({mtp.evidence}); whether its weights are there was not seen. "
            "Read the checkpoint's folder, or give its model.safetensors.index.json",
        )
    family = support.family_named(mtp.family)
    maps = support.maps_mtp(serving.engine, family)
    if maps is Support.NO:
        yield problems.warning(
            "MtpNotMapped",
            f"MTP is declared ({mtp.evidence}) and {serving.engine.title} has no MTP class for model_type "
            f"{target.text_model_type or 'unknown'}; use a draft head",
        )
    if maps is Support.UNKNOWN:
        yield problems.warning(
            "MtpSupportUnknown",
            f"whether {serving.engine.title} drafts with the MTP layers of {target.text_model_type} is not known; "
            "a measured rollout will tell",
        )
    usable = family.usable_modules if family else None
    complete = mtp.complete_modules if mtp.weights is Presence.PRESENT else mtp.modules
    if usable is not None and mtp.modules > usable:
        yield problems.warning(
            "MtpModulesUnused",
            f"{mtp.modules} MTP modules are declared and vLLM loads {usable}; more speculative tokens reuse it",
        )
    elif complete < mtp.modules and mtp.weights is Presence.PRESENT:
        yield problems.warning(
            "MtpModulesMissing",
            f"{mtp.modules} MTP modules are declared and the weights hold {complete}; "
            f"set num_speculative_tokens to {complete} or its multiple",
        )


def check_eagle3(target: TargetCheckpoint, serving: Serving) -> list[Problem]:
    """Return whether the engine hands out this target's hidden states, which EAGLE-3 and extraction both need."""
    engine = serving.engine
    named = target.text_model_type or target.model_type or "this model"
    takes = support.takes_eagle3(engine, text_model_type=named, architectures=target.architectures)
    first = support.first_with_eagle3(engine, text_model_type=named, architectures=target.architectures)
    if takes is Support.YES:
        return []
    if takes is Support.UNKNOWN:
        since = f"; {first} and later are known to" if first else ""
        return [
            problems.warning(
                "EngineSupportUnknown",
                f"whether {engine.title} takes EAGLE-3 for {named} is not known{since}; a measured rollout will tell",
            )
        ]
    remedy = f"{first} or later is needed" if first else "no version that takes it is known; use another method"
    return [
        problems.error(
            "EngineUnsupported",
            f"{engine.title} does not support EAGLE-3 for {named}; {remedy}",
        )
    ]


def check_extraction(target: TargetCheckpoint, serving: Serving) -> list[Problem]:
    """Return whether the engine can write this target's hidden states for training."""
    engine = serving.engine
    if support.has_method(engine, "extract_hidden_states") is Support.NO:
        since = support.since(engine, method="extract_hidden_states")
        return [
            problems.error(
                "ExtractionUnsupported",
                f"{engine.title} cannot extract hidden states; {since} or later is needed to train a head",
            )
        ]
    return check_eagle3(target, serving)


def check_kinship(target: TargetCheckpoint, head: HeadCheckpoint, *, target_name: str = "") -> list[Problem]:
    """Return what the shapes, layers and origin of a head say against this target, whatever engine runs the two."""
    found = [*_sizes(target, head), *auxiliary.check(head, target)]
    return found + _doubled(found, lineage.check(head, target, target_name=target_name))


def check_head(target: TargetCheckpoint, head: HeadCheckpoint, serving: Serving) -> list[Problem]:
    """Return what stands against drafting for a target with a head."""
    if head.head_type is HeadType.UNKNOWN:
        return []
    found = [*_method(head, serving), *_registered(head, serving)]
    if head.head_type in _READS_STATES or (head.head_type is HeadType.EAGLE1 and serving.method == "eagle3"):
        found += check_eagle3(target, serving)
    found += [*_sizes(target, head), *auxiliary.check(head, target)]
    found += parallelism.check_head(head, serving.tensor_parallel_size)
    found += [*_draft_parallelism(head, serving)]
    if head.head_type is not HeadType.DRAFT_MODEL:
        found += _doubled(found, lineage.check(head, target, target_name=serving.target_name))
    return [*found, *_window(target, head, serving), *_precision(target, head, serving)]


def _doubled(found: list[Problem], doubts: list[Problem]) -> list[Problem]:
    """Return doubts about a head's origin, as errors where its layers are of another depth as well.

    A fine-tune has another name and the same depth; another name with another depth is another model.
    """
    shallow = any(one.code == "HeadAuxLayersShallow" for one in found)
    return [
        problems.error(one.code, one.message) if shallow and one.code == "HeadOtherVerifier" else one for one in doubts
    ]


def _method(head: HeadCheckpoint, serving: Serving) -> Iterator[Problem]:
    possible = heads.methods(head)
    if serving.method and serving.method not in possible:
        yield problems.error(
            "HeadMethodMismatch",
            f"the head is of type {head.head_type.value} and cannot be run as {serving.method}; "
            f"use method {problems.listed(possible)}, or a head of the wanted kind",
        )


def _registered(head: HeadCheckpoint, serving: Serving) -> Iterator[Problem]:
    """Yield that an engine has no class for a head; without a named engine that is only worth a word."""
    engine, name = serving.engine, heads.registered_name(head)
    if not name:
        return
    has = support.has_head(engine, name)
    if has is Support.YES:
        return
    since = support.since(engine, head=name)
    if has is Support.UNKNOWN:
        yield problems.warning(
            "HeadSupportUnknown", f"whether {engine.title} can run a {name} is not known; a measured rollout will tell"
        )
        return
    note = problems.error if engine.text else problems.warning
    remedy = f"{since} or later is needed" if since else "convert it to an architecture that the engine has"
    yield note("HeadArchitectureUnsupported", f"{engine.title} has no draft architecture {name}; {remedy}")


def _sizes(target: TargetCheckpoint, head: HeadCheckpoint) -> Iterator[Problem]:
    if head.head_type is HeadType.MTP:
        return
    reads, has = head.target_hidden_size, target.hidden_size
    if head.head_type is not HeadType.DRAFT_MODEL and reads and has and reads != has:
        yield problems.error(
            "HeadHiddenSizeMismatch",
            f"the head reads hidden states of size {reads} and the target's have {has}; "
            "use a head that was trained for this target",
        )
    if head.vocabulary_size and target.vocabulary_size and head.vocabulary_size != target.vocabulary_size:
        yield problems.error(
            "HeadVocabularyMismatch",
            f"the head's vocabulary has {head.vocabulary_size} tokens and the target's {target.vocabulary_size}: "
            "another tokenizer. It is refused, since its draft vocabulary cannot be remapped; "
            "use a head that was trained for this target",
        )
    draft = head.draft_vocabulary_size
    if draft and target.vocabulary_size and draft > target.vocabulary_size:
        yield problems.error(
            "HeadDraftVocabularyTooLarge",
            f"the head's draft vocabulary of {draft} exceeds the target's vocabulary of {target.vocabulary_size}; "
            "use a head that was trained for this target",
        )
    if head.target_layers and target.layers and head.target_layers != target.layers:
        yield problems.error(
            "HeadTargetLayersMismatch",
            f"the head was made for a target of {head.target_layers} layers and this one has {target.layers}; "
            "use a head that was trained for this target",
        )


def _draft_parallelism(head: HeadCheckpoint, serving: Serving) -> Iterator[Problem]:
    """Yield what stands against a tensor-parallel size of the draft's own."""
    draft, whole = serving.draft_tensor_parallel_size, serving.tensor_parallel_size or 1
    if draft is None or draft == whole:
        return
    if draft != 1:
        yield problems.error(
            "DraftTensorParallelSize",
            f"draft_tensor_parallel_size is {draft} and the target runs at TP {whole}; "
            f"engines accept 1 or {whole}, leave it out",
        )
    elif head.head_type in auxiliary.READS_LAYERS:
        yield problems.warning(
            "DraftTensorParallelIgnored",
            f"draft_tensor_parallel_size 1 has no effect for EAGLE heads: the head is divided by {whole} like its "
            "target (vLLM issue 31345); leave it out",
        )


def _window(target: TargetCheckpoint, head: HeadCheckpoint, serving: Serving) -> Iterator[Problem]:
    longest = arguments.length(serving.args) or target.window
    if head.window is None or longest is None or head.window >= longest:
        return
    yield problems.warning(
        "HeadWindow",
        f"the head's window is {head.window} tokens and sequences may have {longest}: beyond the window acceptance "
        "falls, and vLLM 0.24 ends with a device assertion (issue 48894). Put a prompt longer than the window into the "
        "analysis, or lower --max-model-len",
    )


def _precision(target: TargetCheckpoint, head: HeadCheckpoint, serving: Serving) -> Iterator[Problem]:
    """Yield combinations of precisions that engines have stumbled over."""
    version = serving.engine.version
    fp8_cache = arguments.value(serving.args, "--kv-cache-dtype").startswith("fp8")
    if fp8_cache and version is not None and version < (0, 11):
        yield problems.warning(
            "HeadCacheDtype",
            "--kv-cache-dtype fp8 and a head end in a dtype mismatch before vLLM 0.11 (pull request 24505), and "
            f"{serving.engine.title} is older; leave it out or use a newer engine",
        )
    if head.quantized_lm_head:
        yield problems.warning(
            "HeadOutputQuantized",
            "the head's lm_head is quantised, which many engine versions cannot share or load (AttributeError at "
            "start-up); use a head whose lm_head is not",
        )
    inherits = target.quantization and not head.quantization and version is not None and version[:2] == (0, 10)
    if inherits:
        yield problems.warning(
            "HeadInheritsQuantization",
            f"the target is quantised ({target.quantization}) and the head is not: vLLM builds of autumn 2025 load "
            "such a head as if it were quantised and end with a KeyError (pull request 25883); use 0.11 or later",
        )
