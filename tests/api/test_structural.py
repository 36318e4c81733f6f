"""What becomes of a pydantic model on its way to a structural schema."""

from enum import StrEnum
from typing import Annotated, Any

import pydantic
import pytest

from paceline.api import structural
from paceline.api.base import ApiModel, Cel, ShortText, list_field, text


class Colour(StrEnum):
    """Two choices."""

    RED = "Red"
    BLUE = "Blue"


class Wheel(ApiModel):
    """A part."""

    cel = (Cel(rule="self.size > 0", message="size must be positive"),)

    size: int = 3
    colour: Colour = Colour.RED
    """What one sees,
    in ``RGB``."""


class Bicycle(ApiModel):
    """A whole."""

    front_wheel: Wheel = Wheel()
    rear_wheel: Wheel | None = None
    bells: Annotated[list[ShortText], list_field(max_items=2)] = []
    stickers: Annotated[list[ShortText], list_field(max_items=2, distinct=True)] = ["fast"]


def test_references_are_inlined_and_fields_are_camel_case() -> None:
    """A structural schema has no references."""
    schema = structural.structural(Bicycle)
    assert schema["properties"]["frontWheel"]["properties"]["size"] == {"type": "integer", "default": 3}


def test_optional_field_loses_its_null_and_null_default() -> None:
    """Absent and null are one thing to the API server, which prunes nulls."""
    rear = structural.structural(Bicycle)["properties"]["rearWheel"]
    assert rear["type"] == "object"
    assert "anyOf" not in rear
    assert "default" not in rear


def test_rules_travel_with_every_use_of_their_model() -> None:
    """A model used twice is guarded twice."""
    properties = structural.structural(Bicycle)["properties"]
    expected = [{"rule": "self.size > 0", "message": "size must be positive"}]
    assert properties["frontWheel"]["x-kubernetes-validations"] == expected
    assert properties["rearWheel"]["x-kubernetes-validations"] == expected


def test_default_of_an_object_is_spelled_out() -> None:
    """The API server tries the rules on a default before it fills the fields below."""
    assert structural.structural(Bicycle)["properties"]["frontWheel"]["default"] == {"size": 3, "colour": "Red"}


def test_default_that_its_fields_contradict_is_refused() -> None:
    """``wheel: {}`` would then differ from no wheel at all."""
    model = pydantic.create_model("Bad", __base__=ApiModel, wheel=(Wheel, Wheel(size=9)))
    with pytest.raises(structural.UnstructuralError, match="say it in one place"):
        structural.structural(model)


def test_empty_defaults_are_left_out_and_others_kept() -> None:
    """An empty list means the same as none, and would be written into every stored object."""
    properties = structural.structural(Bicycle)["properties"]
    assert "default" not in properties["bells"]
    assert properties["stickers"]["default"] == ["fast"]


def test_list_types_are_said() -> None:
    """Server-side apply needs to know what a list is."""
    properties = structural.structural(Bicycle)["properties"]
    assert properties["bells"]["x-kubernetes-list-type"] == "atomic"
    assert properties["stickers"]["x-kubernetes-list-type"] == "set"


def test_enum_is_listed_and_attribute_docstring_wins() -> None:
    """``kubectl explain`` shows what the field means, on one line and without markup."""
    colour = structural.structural(Wheel)["properties"]["colour"]
    assert colour["enum"] == ["Red", "Blue"]
    assert colour["description"] == "What one sees, in RGB."


def test_no_defaults_remain_below_a_status() -> None:
    """A default in a status would claim what nobody wrote."""
    assert "default" not in str(structural.without_defaults(structural.structural(Bicycle)))


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        pytest.param(float, "is a float", id="a float"),
        pytest.param(str, "is a string without maxLength", id="an unbounded string"),
        pytest.param(list[int], "is a list without a bound", id="an unbounded list"),
        pytest.param(Annotated[list[int], pydantic.Field(max_length=3)], "or a list type", id="a list of no type"),
        pytest.param(dict[str, int], "is a map without maxProperties", id="an unbounded map"),
        pytest.param(int | bool, "is a union", id="a union"),
        pytest.param(Any, "has no type", id="anything"),
        pytest.param(Annotated[int, pydantic.Field(multiple_of=2)], "multipleOf has no place", id="a foreign keyword"),
        pytest.param(Annotated[list[str], list_field(max_items=3)], r"field\[\]: is a string", id="below a list"),
        pytest.param(
            Annotated[dict[str, str], pydantic.Field(max_length=3)], r"field\{\}: is a string", id="below a map"
        ),
    ],
)
def test_what_the_api_does_not_allow_is_refused_by_name(annotation: Any, problem: str) -> None:
    """The message names the field and what to change."""
    model = pydantic.create_model("Bad", __base__=ApiModel, field=(annotation, ...))
    with pytest.raises(structural.UnstructuralError, match=rf"Bad\.field.*{problem}|Bad\.{problem}"):
        structural.structural(model)


def test_bounded_text_is_accepted() -> None:
    """The refusals above are not for want of any accepted string."""
    model = pydantic.create_model("Good", __base__=ApiModel, field=(Annotated[str, text(max_length=9)], ...))
    assert structural.structural(model)["properties"]["field"] == {"type": "string", "minLength": 1, "maxLength": 9}
