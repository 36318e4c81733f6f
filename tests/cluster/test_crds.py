"""The generated definitions on a real API server: what it accepts, what it refuses, and what it tells."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

import crdrows
import ourkinds
from api import builders
from bedctl import provider
from paceline.api import base, crd
from paceline.api import drafttrainingjob as dtj

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def kinds(control_plane: provider.Cluster) -> Iterator[ourkinds.Kinds]:
    """Our kinds, installed, in a namespace of this module's own."""
    with ourkinds.installed(control_plane.kubeconfig) as found:
        yield found


BUILDERS = {"SpeculativeDeployment": builders.deployment, "DraftTrainingJob": builders.training_job}
SAMPLES = sorted((Path(__file__).parents[2] / "config" / "samples").glob("*.yaml"))
STARTED_MESSAGE = next(cel.message for cel in dtj.DraftTrainingJob.cel)


def test_every_rule_of_the_models_has_a_row() -> None:
    """A rule that no server ever saw is a wish."""
    rules = {message for resource in crd.RESOURCES for message in _messages(crd.definition(resource))}
    assert rules - {row.message for row in crdrows.RULES} == {STARTED_MESSAGE}


def test_definitions_are_established(kinds: ourkinds.Kinds) -> None:
    """The fixture installed them: their structure and the cost of their rules are within the API server's limits."""
    resources = client.CustomObjectsApi(kinds.api).get_api_resources(base.GROUP, base.VERSION).resources
    found = {r.name: r for r in resources if "/" not in r.name}
    assert {name: r.short_names for name, r in found.items()} == {
        "speculativedeployments": ["sdep"],
        "drafttrainingjobs": ["dtj"],
    }
    assert all(r.categories == ["paceline"] for r in found.values())


@pytest.mark.parametrize("row", [*crdrows.RULES, *crdrows.SCHEMA], ids=lambda row: row.id)
def test_good_object_is_accepted_and_bad_one_refused_with_its_message(kinds: ourkinds.Kinds, row: crdrows.Row) -> None:
    """A refusal says what to change; the good neighbour shows that the rule refuses no more than that."""
    assert kinds.refusal(row.object(row.good)) == ""
    assert row.message in kinds.refusal(row.object(row.bad))


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.stem)
def test_samples_are_accepted(kinds: ourkinds.Kinds, file: Path) -> None:
    """They are the first thing that people copy."""
    ours = [document for document in yaml.safe_load_all(file.read_text()) if document["kind"] in BUILDERS]
    assert ours
    for document in ours:
        document["metadata"].pop("namespace", None)
        assert kinds.refusal(document) == ""


@pytest.mark.parametrize("kind", BUILDERS)
def test_defaults_of_the_server_are_those_of_the_models(kinds: ourkinds.Kinds, kind: str) -> None:
    """Otherwise the operator would see another spec than the user who reads the object."""
    document = BUILDERS[kind]()
    model = next(resource.model for resource in crd.RESOURCES if resource.kind == kind)
    stored = kinds.create(document, dry_run="All")
    assert model.model_validate(stored) == model.model_validate(document)
    explicit = builders.merged(document, {"spec": model.model_validate(document).wire()["spec"]})
    assert kinds.refusal(explicit) == ""


def test_null_is_the_same_as_absent(kinds: ourkinds.Kinds) -> None:
    """Templates write ``draft: null``."""
    document = builders.deployment()
    document["spec"]["speculation"] = {"method": "None", "draft": None, "ngram": None}
    assert "draft" not in kinds.create(document, dry_run="All")["spec"]["speculation"]


def test_two_managers_may_each_own_an_environment_variable(kinds: ourkinds.Kinds) -> None:
    """The list is a map by name: an admission webhook and a user do not undo each other."""
    for manager, name in (("user", "A"), ("webhook", "B")):
        change = {"engine": {"podTemplate": {"env": [{"name": name, "value": "1"}]}}}
        stored = kinds.apply(builders.deployment("managers", **change), manager=manager)
    env = stored["spec"]["engine"]["podTemplate"]["env"]
    assert sorted(entry["name"] for entry in env) == ["A", "B"]


def test_scale_subresource_sets_replicas_and_reads_status(kinds: ourkinds.Kinds) -> None:
    """kubectl scale and autoscalers work, and count the serving revision's pods only."""
    document = kinds.create(builders.deployment("scaled"))
    document["status"] = {"replicas": 1, "selector": "paceline.dev/revision=0a1b2c3d"}
    kinds.write_status(document)
    scale = kinds.scale(document, 3)
    assert scale["status"] == {"replicas": 1, "selector": "paceline.dev/revision=0a1b2c3d"}
    assert kinds.read(document)["spec"]["replicas"] == 3


def test_table_shows_the_ratio_over_the_control(kinds: ourkinds.Kinds) -> None:
    """The first look at ``kubectl get sdep`` answers whether speculation pays."""
    document = kinds.create(builders.deployment("shown"))
    comparisons = [
        {"against": "Control", "verdict": "Pass", "ratio": "1.42"},
        {"against": "Stable", "verdict": "Pass", "ratio": "1.01"},
    ]
    document["status"] = {
        "speculation": "EAGLE3 k=3",
        "readyReplicas": 1,
        "rollout": {"candidate": "0a1b2c3d", "phase": "Promoted", "comparisons": comparisons},
    }
    kinds.write_status(document)
    shown = _row(kinds.table("SpeculativeDeployment"), "shown")
    expected = {"Speculation": "EAGLE3 k=3", "Ready": 1, "Phase": "Promoted", "Ratio": "1.42"}
    assert {name: shown[name] for name in expected} == expected


def test_table_shows_how_far_a_run_is(kinds: ourkinds.Kinds) -> None:
    """And ``kubectl get dtj`` whether it will end."""
    document = kinds.create(builders.training_job("shown"))
    document["status"] = {
        "phase": "Running",
        "progress": {"stage": "Train", "percent": 40, "eta": "5m"},
        "output": {"uri": "pvc://m/h", "manifestDigest": builders.DIGEST, "acceptanceLength": "2.1"},
    }
    kinds.write_status(document)
    shown = _row(kinds.table("DraftTrainingJob"), "shown")
    expected = {"Phase": "Running", "Stage": "Train", "Percent": 40, "ETA": "5m", "Acceptance": "2.1"}
    assert {name: shown[name] for name in expected} == expected


def test_status_is_written_by_its_subresource_only(kinds: ourkinds.Kinds) -> None:
    """A user's apply cannot forge what was measured."""
    document = builders.training_job("forged")
    document["status"] = {"phase": "Complete"}
    assert "status" not in kinds.create(document)


@pytest.fixture
def started(kinds: ourkinds.Kinds) -> builders.Document:
    """A run that has started, with parts of a pod that the schema does not know."""
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    template = {"affinity": affinity, "tolerations": [{"operator": "Exists"}], "labels": {"a": "b"}}
    document = kinds.create(builders.training_job(f"run-{uuid.uuid4().hex[:8]}", engine={"podTemplate": template}))
    document["status"] = {"startTime": builders.NOW}
    return kinds.write_status(document)


@pytest.mark.parametrize(
    "change",
    [
        {"target": {"uri": "pvc://models/other"}},
        {"engine": {"args": ["--max-model-len=4096"]}},
        {"engine": {"podTemplate": {"affinity": {"nodeAffinity": None}}}},
        {"engine": {"podTemplate": {"tolerations": []}}},
        {"trainer": {"image": "paceline/trainer:0.2.0"}},
        {"data": {"holdoutPercent": 20}},
        {"extraction": {"concurrency": 4}},
        {"draft": {"layers": 2}},
        {"training": {"epochs": 3}},
        {"evaluation": {"maxPrompts": 10}},
        {"workspace": {"claimName": "other"}},
        {"output": {"uri": "pvc://models/elsewhere"}},
    ],
    ids=str,
)
def test_what_a_started_run_is_made_of_may_not_change(
    kinds: ourkinds.Kinds, started: builders.Document, change: builders.Document
) -> None:
    """Its stages would not belong together."""
    changed = builders.merged(started, {"spec": change})
    assert STARTED_MESSAGE in kinds.update_refusal(changed)


def test_how_a_started_run_is_treated_may_change(kinds: ourkinds.Kinds, started: builders.Document) -> None:
    """Suspend, queue, deadlines, retries and TTL have nothing to do with what comes out."""
    change = {
        "suspend": True,
        "queue": {"localQueue": "team-a"},
        "activeDeadline": "48h",
        "stageRetries": 5,
        "ttlAfterFinished": "1h",
    }
    assert kinds.update_refusal(builders.merged(started, {"spec": change})) == ""


def test_a_run_that_has_not_started_may_be_mended(kinds: ourkinds.Kinds) -> None:
    """A source that does not exist is fixed by editing it."""
    document = kinds.create(builders.training_job("mended"))
    document["status"] = {"observedGeneration": 1}
    waiting = kinds.write_status(document)
    changed = builders.merged(waiting, {"spec": {"target": {"uri": "pvc://models/right"}}})
    assert kinds.update_refusal(changed) == ""


def _messages(node: Any) -> Iterator[str]:
    """Yield the messages of all rules in a definition."""
    if isinstance(node, dict):
        yield from (rule["message"] for rule in node.get("x-kubernetes-validations", []))
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _messages(child)


def _row(table: builders.Document, name: str) -> dict[str, Any]:
    """Return one row by the names of its columns."""
    columns = [column["name"] for column in table["columnDefinitions"]]
    rows = [dict(zip(columns, row["cells"], strict=True)) for row in table["rows"]]
    return next(row for row in rows if row["Name"] == name)
