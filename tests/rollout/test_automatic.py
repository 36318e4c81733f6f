"""Method Auto: what the files speak for, written into the revision by its own name."""

import pytest

from paceline.api.speculation import Method
from rollout import builders
from rollout.test_suitability import KIMI, KIMI_HEAD, LLAMA, read, resolved

HEAD = {"uri": "pvc://models/head"}
QWEN = "Qwen--Qwen3.5-397B-A17B"


@pytest.mark.parametrize(
    ("target", "head", "names", "method"),
    [
        (QWEN, None, "qwen3.5-with-mtp", Method.MTP),
        (QWEN, None, None, Method.NGRAM),
        (QWEN, None, "qwen3.5-mtp-partial_fc_only", Method.NGRAM),
        (KIMI, None, None, Method.NGRAM),
        (KIMI, KIMI_HEAD, None, Method.EAGLE3),
        (LLAMA, "heads/yuhuili--EAGLE-LLaMA3-Instruct-8B", None, Method.EAGLE),
        ("Qwen--Qwen3-8B", "heads/specforge--qwen3-8b-dflash", None, Method.DFLASH),
    ],
)
def test_auto_is_what_the_files_speak_for(target: str, head: str | None, names: str | None, method: Method) -> None:
    """Own MTP that is certain, else the named head by its kind, else look-up; the revision holds no Auto."""
    speculation = {"method": "Auto", **({"draft": HEAD} if head else {})}
    found = resolved(read(target, head, names=names), speculation=speculation)
    assert found.desired is not None
    assert found.desired.method is method
    assert (found.desired.draft is not None) == (head is not None)
    assert found.message.endswith(f"Auto is {method.value} here.")


def test_own_mtp_is_preferred_to_a_head() -> None:
    """It needs no second checkpoint, and is measured like any candidate."""
    found = resolved(read(QWEN, KIMI_HEAD, names="qwen3.5-with-mtp"), speculation={"method": "Auto", "draft": HEAD})
    assert found.desired is not None
    assert (found.desired.method, found.desired.draft) == (Method.MTP, None)


def test_head_that_does_not_fit_is_refused_and_not_passed_over() -> None:
    """Whoever names a head wants to know that it cannot be used."""
    found = resolved(read(LLAMA, KIMI_HEAD), tp=1, speculation={"method": "Auto", "draft": HEAD})
    assert (found.accepted, found.desired) == (False, None)
    assert found.reason.value == "HeadMismatch"


def test_files_read_by_an_older_version_leave_the_head_as_it_is_named() -> None:
    """EAGLE-3, which is what a DraftTrainingJob makes."""
    found = resolved(builders.inspected(), speculation={"method": "Auto", "draft": HEAD})
    assert found.desired is not None
    assert found.desired.method is Method.EAGLE3
