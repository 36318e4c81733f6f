"""From a URI to where a pod finds it."""

import pytest

from paceline.api import sources


@pytest.mark.parametrize(
    ("uri", "claim", "path"),
    [
        ("pvc://models/kimi/k2.5", "models", "/mnt/paceline/models/kimi/k2.5"),
        ("pvc://models", "models", "/mnt/paceline/models"),
        ("pvc://models/", "models", "/mnt/paceline/models"),
        ("hf://moonshotai/Kimi-K2.5", None, "moonshotai/Kimi-K2.5"),
        ("s3://bucket/models/kimi", None, "s3://bucket/models/kimi"),
    ],
)
def test_accepted_sources_are_located(uri: str, claim: str | None, path: str) -> None:
    """A claim is mounted; the engine fetches the rest itself."""
    assert sources.locate(uri) == sources.Location(claim=claim, path=path)


@pytest.mark.parametrize(
    "uri",
    [
        "/etc/passwd",
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data",
        "pvc://models/../../etc",
        "hf://http://169.254.169.254/x",
        "s3://-x",
        "pvc://",
        "pvc://models/a b",
        "pvc://models/a\n",
        "",
    ],
)
def test_every_other_source_is_refused_with_the_accepted_ones(uri: str) -> None:
    """Neither the node's files nor a metadata address can be reached through a resource."""
    with pytest.raises(ValueError, match="use pvc://CLAIM/PATH, hf://ORGANISATION/NAME or s3://BUCKET/KEY"):
        sources.locate(uri)


def test_mount_path_is_the_claims_folder() -> None:
    """Every claim has its own folder, so that two never hide each other."""
    assert sources.locate("pvc://models/kimi").mount_path == "/mnt/paceline/models"
    assert sources.locate("hf://a/b").mount_path == ""
