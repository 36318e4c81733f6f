"""What all models of the API share: camelCase on the wire, bounded types, CEL rules beside the fields they guard."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final

import pydantic
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema

GROUP: Final = "paceline.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cel:
    """One ``x-kubernetes-validations`` rule; ``message`` says what to change, since it is all the user will see."""

    rule: str
    message: str


class ApiModel(pydantic.BaseModel):
    """A document of ours: immutable once read, unknown fields ignored so that an older operator reads newer objects."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )

    cel: ClassVar[tuple[Cel, ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Carry the rules in the schema of the model they guard."""
        reference = handler(core_schema)
        if cls.cel:
            rules = [{"rule": cel.rule, "message": cel.message} for cel in cls.cel]
            handler.resolve_ref_schema(reference)["x-kubernetes-validations"] = rules
        return reference

    def wire(self) -> dict[str, Any]:
        """Return the JSON form: camelCase keys, unset optional fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def text(*, max_length: int, pattern: str | None = None, min_length: int = 1) -> pydantic.fields.FieldInfo:
    """Return the constraint of a bounded string; the API accepts no unbounded ones."""
    return pydantic.Field(min_length=min_length, max_length=max_length, pattern=pattern)  # type: ignore[no-any-return]


def list_field(*, max_items: int, keys: tuple[str, ...] = (), min_items: int = 0, distinct: bool = False) -> Any:
    """Return a bounded list's constraint with its ``listType``: a map over ``keys``, a set, or else atomic.

    The API server refuses a second item of the same key, or the same value in a set.

    Typed as Any because pydantic's ``Field`` is: it stands for the default of the annotated attribute.
    """
    extra: dict[str, Any] = {"x-kubernetes-list-type": "map" if keys else "set" if distinct else "atomic"}
    if keys:
        extra["x-kubernetes-list-map-keys"] = list(keys)
    return pydantic.Field(max_length=max_items, min_length=min_items, json_schema_extra=extra)


# RFC 1123 label and subdomain, as the API server spells them.
LABEL_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN_PATTERN: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"

ObjectName = Annotated[str, text(max_length=253, pattern=SUBDOMAIN_PATTERN)]
Label = Annotated[str, text(max_length=63, pattern=LABEL_PATTERN)]
ShortText = Annotated[str, text(max_length=256, min_length=0)]
"""Empty where a document says that there is none; a field that must say something takes ``Name`` or its own bound."""
Name = Annotated[str, text(max_length=256)]
Message = Annotated[str, text(max_length=1024, min_length=0)]
Digest = Annotated[str, text(max_length=71, pattern=r"^sha256:[0-9a-f]{64}$")]
Percent = Annotated[int, pydantic.Field(ge=0, le=100)]

# Decimal numbers travel as strings: the API has no floats, since two clients print one float in two ways.
Decimal = Annotated[str, text(max_length=16, pattern=r"^[0-9]{1,6}(\.[0-9]{1,9})?(e-?[0-9]{1,2})?$")]

_DURATION = re.compile(r"(?:(?P<h>[0-9]{1,5})h)?(?:(?P<m>[0-9]{1,5})m)?(?:(?P<s>[0-9]{1,6})s)?")
DURATION_PATTERN: Final = r"^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$"
Duration = Annotated[str, text(max_length=20, min_length=2, pattern=DURATION_PATTERN)]


def parse_duration(value: str) -> timedelta:
    """Return the span of ``1h30m``, ``20m`` or ``45s``.

    Raises:
        ValueError: when the text is not such a duration.
    """
    match = _DURATION.fullmatch(value)
    if match is None or not value:
        raise ValueError(f"{value!r} is not a duration; write it like 1h30m, 20m or 45s")
    hours, minutes, seconds = (int(match[unit] or 0) for unit in ("h", "m", "s"))
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)
