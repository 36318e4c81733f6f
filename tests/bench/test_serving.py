"""Servers by the operator's own command lines."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from bench import serving


@pytest.mark.parametrize(
    ("arm", "name", "method"),
    [("none", "none", None), ("3", "k=3", "eagle3"), ("ngram4", "ngram=4", "ngram"), ("lossy3", "lossy=3", "ngram")],
)
def test_arm_says_how_it_drafts(arm, name, method):
    """And is called by it."""
    found = serving.speculation(arm, Path("head"))
    assert serving.name_of(arm) == name
    assert (found and found.method) == method


@pytest.mark.parametrize("arm", ["k3", "ngram", "0", "ngram0", "-1", "100"])
def test_word_that_is_no_arm_is_refused(arm):
    """With what one may write."""
    with pytest.raises(SystemExit, match="write none, or a number of tokens"):
        serving.name_of(arm)


def test_heads_arm_needs_a_head():
    """An n-gram draft needs none."""
    assert serving.speculation("ngram3", None)
    with pytest.raises(SystemExit, match="--head"):
        serving.speculation("3", None)


def test_servers_start_answer_and_end(options):
    """Each has a load of its own, and nothing is left of them."""
    options.arms = ["none", "none"]
    assert serving.up(options) == 0
    servers = serving.read(options.work)
    assert [one.label for one in servers] == ["none#0", "none#1"]
    assert serving.wait_for(servers, options.work, limit_s=60) == []
    assert all(serving.healthy(one.url) for one in servers)
    serving.down(options)
    assert not any(serving.healthy(one.url) or serving.alive(one.pid) for one in servers)
    assert not (options.work / "arms.json").exists()


def test_dead_server_is_told_with_its_last_words(options, capsys):
    """Nobody waits for it until the limit."""
    options.engine = [sys.executable, "-c", "raise SystemExit('out of luck')"]
    server = serving.launch("none", options, load=0, port=options.port)
    assert serving.wait_for([server], options.work, limit_s=60) == []
    assert "none#0 died: out of luck" in capsys.readouterr().out


def test_lossy_arm_overrides_how_drafts_are_accepted(options):
    """vLLM takes the last of an option that is given twice."""
    program = "import json, sys; print(json.dumps(sys.argv))"
    options.engine = [sys.executable, "-c", program]
    server = serving.launch("lossy3", options, load=0, port=options.port)
    serving.wait_for([server], options.work, limit_s=60)
    given = json.loads(serving.last_words(server.folder(options.work)))
    settings = [json.loads(given[at + 1]) for at, one in enumerate(given) if one == "--speculative-config"]
    assert [one.get("rejection_sample_method") for one in settings] == [None, "synthetic"]
    assert shlex.join(given).count("--port") == 1
