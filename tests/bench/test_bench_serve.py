"""Two clients of one server, compared."""

import json

import pytest

from bench import bench_serve


def test_interval_is_of_the_ratio_by_repeat():
    """What changes both clients' figures alike from repeat to repeat is not in it."""
    pairs = [(pace * tilt, pace) for pace, tilt in zip((100, 150, 80, 120), (1.01, 1.03, 1.01, 1.03), strict=True)]
    found = bench_serve.ratio_of(pairs)
    assert found["ratio"] == pytest.approx(1.02, abs=1e-3)
    # mean 1.98 %, standard deviation 1.13 %, t of 3 degrees of freedom 3.18
    assert found["lower"] == pytest.approx(1.0017, abs=1e-3)
    assert found["upper"] == pytest.approx(1.0383, abs=1e-3)


@pytest.mark.parametrize(
    ("lower", "upper", "agrees"), [(0.96, 1.04, True), (0.94, 1.0, False), (1.0, 1.06, False), (0.9, 1.2, False)]
)
def test_clients_agree_when_the_whole_interval_lies_within_five_percent(lower, upper, agrees):
    """A wide interval that holds 1 is no agreement."""
    assert bench_serve.agrees({"lower": lower, "upper": upper}) is agrees


def test_steps_leave_out_what_drafts_brought():
    """Of 400 tokens in the run 100 were accepted drafts: three quarters took a step each, whatever came before."""
    assert bench_serve.steps_per_second(200.0, (1000, 900), (1400, 1000)) == pytest.approx(150.0)
    assert bench_serve.steps_per_second(200.0, (0, 0), (400, 0)) == pytest.approx(200.0)


@pytest.mark.parametrize("after", [(1000, 900), (10, 0)])
def test_server_that_counts_nothing_or_anew_is_told(after):
    """Its figures would be nonsense."""
    with pytest.raises(SystemExit, match="do not restart it"):
        bench_serve.steps_per_second(200.0, (1000, 900), after)


def test_pooled_runs_count_every_repeat(tmp_path):
    """Of a figure that one run lacks, those of the other; a concurrency that only one has stays as it is."""

    def run(*paces, ttft=True):
        seen = [{"tokens_per_second": pace} | ({"ttft_median_ms": 1.0} if ttft else {}) for pace in paces]
        return dict(zip(("probe", "vllm"), seen, strict=True))

    first = {"bands": [bench_serve.band(8, 48, [run(101, 100), run(103, 100)]), bench_serve.band(32, 192, [run(1, 1)])]}
    second = {"bands": [bench_serve.band(8, 48, [run(102, 100, ttft=False)])]}
    for name, document in (("a", first), ("b", second)):
        (tmp_path / name).write_text(json.dumps(document))
    out = tmp_path / "out.json"
    arguments = ["--pool", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(out)]
    assert bench_serve.main(arguments) == 1
    eight, wide = json.loads(out.read_text())["bands"]
    assert len(eight["runs"]) == 3
    assert eight["ratios"]["tokens_per_second"]["ratio"] == pytest.approx(1.02, abs=1e-3)
    assert bench_serve.agrees(eight["ratios"]["tokens_per_second"])
    assert wide["ratios"] == {}  # one repeat has no interval, and no agreement


def test_server_or_files_have_to_be_named(tmp_path, capsys):
    """Not half of a server."""
    with pytest.raises(SystemExit):
        bench_serve.main(["--url", "http://127.0.0.1:1", "--out", str(tmp_path / "out.json")])
    assert "or --pool" in capsys.readouterr().err
