"""The termination message: 4 KiB from a pod that nobody vouches for."""

import base64
import contextlib
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.api import measurement, report, stages


def _round(arms: int, bands: int) -> measurement.ProbeReport:
    """Return a round of the given size, with figures that do not compress away."""
    order = {2: (0, 1, 1, 0), 3: (0, 1, 2, 2, 1, 0)}[arms]
    blocks = [
        measurement.Measurement(
            arm=f"{0x7F3A91C2 * (arm + 1) % 2**32:08x}",
            node="gpu-worker-17.example.internal",
            pod_uid=f"0c1f8a6e-7d{arm}4-4c1b-9b7e-{0x5DEECE66D * (arm + 3) % 2**48:012x}",
            load=arm,
            round=7,
            position=position,
            concurrency=2**band,
            started_at=f"2026-01-02T03:{band:02d}:{position:02d}.{(band * 7919 + position * 104729) % 10**6:06d}Z",
            window_ms=10_000 + (band * 7919 + position * 3571) % 90_000,
            requests=6 * 2**band,
            output_tokens=20_000 + (band * 104729 + position * 6841) % 90_000,
            stalls=band % 2,
            ttft_ms=round(12.5 + (band * 31337 + position * 17) % 997 / 7, 2),
            itl_ms=round(3.25 + (band * 271 + position * 31) % 89 / 7, 2),
            ttft_p99_ms=round(50.5 + (band * 48611 + position * 7919) % 99_991 / 7, 2),
            itl_p99_ms=round(9.25 + (band * 27644437 + position * 6700417) % 9_973 / 7, 2),
            prompt_tokens=50_000 + (band * 611953 + position * 15_485_863) % 99_991,
            cached_tokens=(band * 746773 + position * 32_452_843) % 49_999,
            compared=6 * 2**band,
            agreed=(band * 4099 + position * 8209) % (6 * 2**band),
            drafts=5_000 + (band * 7907 + position * 1543) % 9_000,
            draft_tokens=15_000 + (band * 6133 + position * 2221) % 9_000,
            accepted_tokens=9_000 + (band * 5051 + position * 3301) % 9_000,
        )
        for band in range(bands)
        for position, arm in enumerate(order)
    ]
    return measurement.ProbeReport(measurements=blocks, greedy_agreement_percent=98.4)


def test_small_report_travels_as_json() -> None:
    """People read it with kubectl."""
    small = stages.StageReport(error="config.json is missing", permanent=True)
    message = report.encode(small)
    assert message.startswith("{")
    assert report.decode(message, stages.StageReport) == small


def test_largest_round_that_a_spec_allows_fits() -> None:
    """Three arms at six bands: the bound on analysis.concurrencies comes from here."""
    largest = _round(arms=3, bands=6)
    message = report.encode(largest)
    assert len(message.encode()) <= stages.TERMINATION_LIMIT_BYTES
    assert report.decode(message, measurement.ProbeReport) == largest


def test_columns_carry_what_only_some_blocks_have() -> None:
    """A server that tells no prompt tokens leaves none behind, and not a zero."""
    whole = _round(arms=3, bands=8).measurements
    mixed = [one.model_copy(update={"prompt_tokens": None}) if at % 2 else one for at, one in enumerate(whole)]
    message = report.encode(measurement.ProbeReport(measurements=mixed))
    assert message.startswith("c:")
    assert report.decode(message, measurement.ProbeReport).measurements == mixed


def test_report_that_cannot_fit_is_refused_by_its_writer() -> None:
    """A cut report would be no report; the writer can still say less."""
    noise = "".join(chr(0x4E00 + (i * i * 7919) % 20_000) for i in range(1024))
    with pytest.raises(ValueError, match="does not fit a termination message"):
        report.encode(
            measurement.ProbeReport(measurements=_round(3, 6).measurements, error=noise),
        )


def test_bomb_is_refused_unread() -> None:
    """Four kilobytes can inflate to four megabytes."""
    bomb = "z:" + base64.b85encode(zlib.compress(b" " * 10**6 + b"{}")).decode()
    assert len(bomb) < stages.TERMINATION_LIMIT_BYTES
    with pytest.raises(report.UnreadableReportError):
        report.decode(bomb, stages.StageReport)


def _packed(text: str, mark: str) -> str:
    return mark + base64.b85encode(zlib.compress(text.encode("utf-8", "surrogatepass"))).decode()


_COLUMNED = st.fixed_dictionaries(
    {},
    optional={
        "rest": st.one_of(st.none(), st.dictionaries(st.text(max_size=3), st.none(), max_size=2)),
        "columns": st.one_of(
            st.integers(),
            st.dictionaries(
                st.text(max_size=3),
                st.one_of(st.none(), st.dictionaries(st.text(max_size=3), st.lists(st.none(), max_size=2))),
                max_size=2,
            ),
        ),
    },
)


@given(
    st.one_of(
        st.text(),
        st.sampled_from(["z:", "c:"]).flatmap(lambda mark: st.text().map(lambda text: mark + text)),
        st.sampled_from(["z:", "c:"]).flatmap(lambda mark: st.text().map(lambda text: _packed(text, mark))),
        _COLUMNED.map(lambda document: _packed(json.dumps(document), "c:")),
    )
)
def test_any_other_text_is_unreadable_and_nothing_worse(message: str) -> None:
    """The container may have been killed, or be a stranger's."""
    with contextlib.suppress(report.UnreadableReportError):
        report.decode(message, stages.StageReport)
        assert message.lstrip().startswith(("{", "z:", "c:"))
