"""The generated definitions: current, complete, and agreeing with what the rest of the tree says of our kinds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
import yaml

from api import builders
from paceline.api import base, crd, measurement, reference, stages
from paceline.planning import kinds

ROOT = Path(__file__).parents[2]
NAMES = [resource.kind for resource in crd.RESOURCES]


@pytest.fixture(params=crd.RESOURCES, ids=NAMES)
def resource(request: pytest.FixtureRequest) -> crd.CustomResource:
    """Each of our kinds."""
    return request.param


def test_committed_files_are_what_the_models_say() -> None:
    """CI fails when they are stale; so does this."""
    assert list(crd.stale([ROOT / folder for folder in crd.DEFAULT_FOLDERS])) == []


def test_committed_reference_is_what_the_definitions_say() -> None:
    """The page is read in the repository, where nobody runs a generator."""
    assert (ROOT / reference.DEFAULT_FILE).read_text() == reference.render()


def test_check_names_an_edited_and_a_leftover_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both are wrong, and the message says what to run."""
    crd.write([tmp_path])
    edited = tmp_path / crd.RESOURCES[0].file_name
    edited.write_text(edited.read_text().replace("sdep", "sd"))
    (tmp_path / "leftover.yaml").touch()
    assert crd.main(["--check", "--output", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "leftover.yaml" in told
    assert f"{edited} is not what operator/paceline/api says; run `make crds`" in told


def test_write_heals_every_difference(tmp_path: Path) -> None:
    """What ``--check`` tells to run makes it content."""
    (tmp_path / "leftover.yaml").touch()
    assert crd.main(["--output", str(tmp_path)]) == 0
    assert crd.main(["--check", "--output", str(tmp_path)]) == 0


def test_kind_table_and_definitions_agree() -> None:
    """The kind table of planning is written by hand; a typo there would be a 404."""
    ours = {(kind.kind, kind.plural, kind.api_version) for kind in kinds.OURS}
    assert ours == {(resource.kind, resource.plural, base.API_VERSION) for resource in crd.RESOURCES}


def test_generated_text_reads_back_as_the_definition(resource: crd.CustomResource) -> None:
    """No anchors, and nothing that YAML reads as something else."""
    text = crd.render(resource)
    assert yaml.safe_load(text) == crd.definition(resource)
    assert "&id" not in text


def test_text_that_begins_like_a_number_is_quoted() -> None:
    """kubectl and Helm would read a bare ``1e-4`` as a number, and PyYAML would not tell."""
    assert "default: '1e-4'" in crd.render(next(r for r in crd.RESOURCES if r.kind == "DraftTrainingJob"))


def test_only_the_serving_kind_scales() -> None:
    """A training run has no replicas."""
    scaling = {r.kind: "scale" in _version(r)["subresources"] for r in crd.RESOURCES}
    assert scaling == {"SpeculativeDeployment": True, "DraftTrainingJob": False}


def test_every_printer_column_and_scale_path_exists_in_the_schema(resource: crd.CustomResource) -> None:
    """A column of a renamed field would be empty for ever, and nothing would say so."""
    version = _version(resource)
    paths = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
    paths += list(version["subresources"].get("scale", {}).values())
    for path in paths:
        assert _exists(version["schema"]["openAPIV3Schema"], path), path


def test_definition_fits_an_annotation_of_client_side_apply(resource: crd.CustomResource) -> None:
    """``kubectl apply -f crds/`` keeps the whole object in an annotation of at most 256 KiB."""
    assert len(crd.render(resource)) < 200_000


def _documents() -> Iterator[type[base.ApiModel]]:
    """Yield every model of the API, and of what pods say and are told."""
    waiting: list[type[base.ApiModel]] = [base.ApiModel]
    while waiting:
        for model in waiting.pop().__subclasses__():
            waiting.append(model)
            if model.__module__.startswith("paceline.api"):
                yield model


@pytest.mark.parametrize("model", sorted(set(_documents()), key=lambda m: m.__name__), ids=lambda m: m.__name__)
def test_every_default_obeys_its_own_bounds(model: type[base.ApiModel]) -> None:
    """pydantic does not look at defaults; the API server does, and so does whoever reads a document back."""
    for name, field in model.model_fields.items():
        if field.is_required():
            continue
        default = field.get_default(call_default_factory=True)
        checked = pydantic.TypeAdapter(field.rebuild_annotation())
        if default is not None:
            assert checked.validate_python(checked.dump_python(default, mode="json")) == default, name


@pytest.mark.parametrize(
    "document",
    [
        measurement.RolloutRecord(number=1, candidate="c", workload="w", started_at=builders.NOW),
        measurement.Measurement(arm="a", concurrency=1, started_at=builders.NOW),
        stages.StageReport(error="gone", permanent=True),
    ],
    ids=lambda d: type(d).__name__,
)
def test_documents_with_nothing_set_survive_a_round_trip(document: base.ApiModel) -> None:
    """Records outlive operators: what one writes, the next must read."""
    assert type(document).model_validate(document.wire()) == document


@pytest.mark.parametrize("build", [builders.deployment, builders.training_job], ids=lambda b: b.__name__)
def test_minimal_resources_are_read_and_written_back(build: Any) -> None:
    """What the builders make is what the models accept."""
    document = build()
    model = next(r.model for r in crd.RESOURCES if r.kind == document["kind"])
    resource = model.model_validate(document)
    assert model.model_validate(resource.wire()) == resource


def _version(resource: crd.CustomResource) -> dict[str, Any]:
    return crd.definition(resource)["spec"]["versions"][0]


def _exists(schema: dict[str, Any], path: str) -> bool:
    """Whether ``.a.b[?(@.c=="d")].e`` leads to a field; metadata is the API server's own."""
    node = schema
    for step in path.lstrip(".").split("."):
        name = step.split("[", 1)[0]
        if name == "metadata":
            return True
        if name.startswith(("@", "against")) or not name:
            continue
        node = node.get("items", node)
        if name not in node.get("properties", {}):
            return False
        node = node["properties"][name]
    return True
