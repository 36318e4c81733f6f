"""The answer log survives being cut anywhere."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.stages import jsonl


def test_half_line_at_the_end_is_ignored(tmp_path):
    """A writer killed in the middle of a line leaves the lines before it."""
    (tmp_path / "a.jsonl").write_bytes(b'{"key":1}\n{"key":2')
    assert list(jsonl.read_all(tmp_path)) == [{"key": 1}]


def test_appending_after_a_half_line_spoils_no_record(tmp_path):
    """A record written after a torn one is read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"key":1}\n{"key":2')
    with jsonl.JsonLog(path) as log:
        log.append({"key": 3})
    assert list(jsonl.read_all(tmp_path)) == [{"key": 1}, {"key": 3}]


def test_files_of_all_attempts_are_merged(tmp_path):
    """Each attempt has a file of its own."""
    for attempt in ("pod-a", "pod-b"):
        with jsonl.JsonLog(tmp_path / f"{attempt}.jsonl") as log:
            log.append({"by": attempt})
    assert [record["by"] for record in jsonl.read_all(tmp_path)] == ["pod-a", "pod-b"]


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text()), min_size=1), st.integers(min_value=0))
def test_any_cut_leaves_a_prefix_of_the_records(tmp_path_factory, records, cut):
    """Whatever byte the log ends at, what is read is what was written first."""
    folder = tmp_path_factory.mktemp("log")
    with jsonl.JsonLog(folder / "a.jsonl") as log:
        for record in records:
            log.append(record)
    content = (folder / "a.jsonl").read_bytes()
    (folder / "a.jsonl").write_bytes(content[: cut % (len(content) + 1)])
    found = list(jsonl.read_all(folder))
    assert found == records[: len(found)]
