"""A pipeline's definition: the content of `pipeline.toml`, with the files that it names, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

DELIVERY: Final = ("topic", "partition", "offset", "timestamp", "delivery_count", "read_at")
"""The columns of a record's delivery in `silver_rejected`; those of `silver_records` begin with `_`."""

TABLES: Final = (
    "bronze_records", "silver_records", "silver_rejected", "gold_rejected", "gold_deliveries", "state_folded",
    "state_log", "state_differences", "state_history", "failed_records", "gold_poison",
    "gold_publish_to_accept", "gold_queue_health",
)  # fmt: skip
"""The tables of every pipeline."""

ROWS: Final = ("silver_records", "silver_rejected")
"""The tables that depend on the project's format, fields, checks and columns."""

SECTIONS: Final = (
    "run", "totals", "rejected", "deliveries", "health", "accept", "poison", "poison_total", "kinds",
    "differences", "sections",
)  # fmt: skip
"""The parts of every report's summary."""

_INTERNAL: Final = ("_text", "_raw", "_sound", "_reason", "_verdict", "_row", "_fields", "_decoded",
                    "_corrupt_record")  # fmt: skip
_RESERVED: Final = frozenset({*(f"_{name}" for name in DELIVERY), *_INTERNAL})
_NESTED: Final = ("ARRAY", "MAP", "STRUCT")
_SIMPLE: Final = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"), "a number"),
    "BOOLEAN": "true or false",
    "DATE": "a date",
    "TIMESTAMP": "a timestamp",
    "STRING": "text",
    "BINARY": "base64",
}
_DECIMAL: Final = re.compile(r"DECIMAL *\( *\d+ *(?:, *\d+ *)?\)")
_NOT_NULL: Final = re.compile(r" +NOT +NULL$", re.IGNORECASE)
_SETTING: Final = re.compile(r"spark\.[A-Za-z0-9_.-]+")
_OPTIONS: Final = {
    "spark.master": "--master",
    "spark.driver.memory": "--memory",
    "spark.sql.warehouse.dir": "--storage",
}
_MOST_MISTAKES: Final = 5


class DefinitionError(Exception):
    """The definition is invalid; the message names each place and the mistake, up to five."""


class FieldType:
    """The type of a field, as in `CREATE TABLE`: one of Spark's types, and whether it may be NULL."""

    def __init__(self, text: str) -> None:
        """Raises ValueError for an unknown type."""
        self.required = bool(_NOT_NULL.search(text))
        self.kind = _NOT_NULL.sub("", text).strip()
        upper = self.kind.upper()
        nested = upper.partition("<")[0].rstrip()
        self.nested = nested in _NESTED and upper.endswith(">")
        if upper not in _SIMPLE and not _DECIMAL.fullmatch(upper) and not self.nested:
            simple = ", ".join(_SIMPLE)
            raise ValueError(
                f"{text!r} is not a type; the types are {simple}, DECIMAL(p, s), ARRAY<type>, "
                "MAP<type, type> and STRUCT<name: type>, each followed by NOT NULL if a value is required"
            )
        self.meaning = f"of type {self.kind}" if self.nested else _SIMPLE.get(upper, "a number")


Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
Name = Annotated[str, StringConstraints(min_length=1)]
SchemaId = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,9})$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Value(_Strict):
    """How values are encoded, and the fields that become columns."""

    format: Literal["json", "avro", "arrow"] = "json"
    fields: dict[Name, str]
    avro_schema: str | dict[SchemaId, str] = ""
    """The writer's schema as JSON; for format avro. With framing, the schemas by their ids."""
    framing: Literal["none", "confluent"] = "none"
    """confluent: five bytes with a schema id precede each Avro value."""

    @field_validator("fields")
    @classmethod
    def _has_types(cls, fields: dict[str, str]) -> dict[str, str]:
        if not fields:
            raise ValueError("at least one field is needed")
        _check_names(fields)
        for name, text in fields.items():
            try:
                FieldType(text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return fields

    @model_validator(mode="after")
    def _has_schema_of_its_format(self) -> Value:
        if (self.format == "avro") != bool(self.avro_schema):
            raise ValueError("avro_schema names the file of the writer's schema; format avro needs it, alone")
        if self.framing != "none" and self.format != "avro":
            raise ValueError("framing is for format avro")
        if self.avro_schema and isinstance(self.avro_schema, str) != (self.framing == "none"):
            raise ValueError(
                "framing confluent needs the file of each schema id, as avro_schema = { 7 = 'FILE' }; "
                "without framing avro_schema is one file"
            )
        return self

    def types(self) -> dict[str, FieldType]:
        """Returns the type of each field."""
        return {name: FieldType(text) for name, text in self.fields.items()}


class TableDefinition(_Strict):
    """A table that each run computes from others."""

    comment: Text
    query: Text
    """A SELECT of Spark's SQL."""


class Chart(_Strict):
    """A plot of a section's rows: horizontal bars in the order of the rows, or lines over `x`."""

    kind: Literal["bars", "lines"]
    x: Name
    y: list[Name]
    """Columns; of bars the first is drawn as bars, further ones as marks."""
    label: str = ""
    """The name and unit of the values."""
    behind: str = ""
    """A column that lines have as grey bars behind them."""

    @field_validator("y")
    @classmethod
    def _has_few(cls, names: list[str]) -> list[str]:
        if not 1 <= len(names) <= 3:
            raise ValueError("1 to 3 columns can be drawn")
        return names


class Section(_Strict):
    """A part of the report: rows as a table, and a chart of them."""

    title: Text
    query: Text
    chart: Chart | None = None


class Definition(_Strict):
    """What is read, what a valid record is, and what becomes of the records."""

    topic: Text
    group: Text = "pipeline"
    value: Value
    checks: dict[Text, Text] = {}
    """Conditions by the reason for which a record is rejected if one is false."""
    columns: dict[Name, Text] = {}
    """Expressions of further columns of `silver_records`."""
    tables: dict[Identifier, TableDefinition] = {}
    report: dict[Identifier, Section] = {}
    spark: dict[Text, str] = {}
    """Settings of Spark."""

    @field_validator("spark")
    @classmethod
    def _has_lines(cls, settings: dict[str, str]) -> dict[str, str]:
        for name, text in settings.items():
            if not _SETTING.fullmatch(name) or any(letter < " " for letter in text):
                raise ValueError(f"{name!r} is no setting of Spark, or its value is more than a line of text")
            if name in _OPTIONS:
                raise ValueError(f"{name} is the option {_OPTIONS[name]} of the command")
        return settings

    @model_validator(mode="after")
    def _has_names_of_its_own(self) -> Definition:
        _check_names([*self.value.fields, *self.columns])
        views = map(section_view, self.report)
        for names, taken in ((self.tables, (*TABLES, *views)), (self.report, SECTIONS)):
            if used := sorted({name.lower() for name in names} & {name.lower() for name in taken}):
                raise ValueError(f"every pipeline has {used[0]}; choose another name")
        return self

    @staticmethod
    def of(document: Mapping[str, Any]) -> Definition:
        """Returns the definition. Raises DefinitionError."""
        try:
            return Definition.model_validate(document)
        except ValidationError as error:
            mistakes = [_mistake(each) for each in error.errors()[:_MOST_MISTAKES]]
            raise DefinitionError("; ".join(mistakes)) from None

    def rows(self) -> dict[str, Any]:
        """Returns what decides the rows of silver; a change of it concerns records that were read before."""
        return self.model_dump(include={"value", "checks", "columns"})


def section_view(name: str) -> str:
    """Returns the name of the view of a report's section, by which Spark checks it before a run."""
    return f"report_{name}"


def can_be_quoted(name: str) -> bool:
    """Returns whether SQL in a file can have the name between backticks."""
    return not any(letter == "`" or letter < " " or "\ud800" <= letter <= "\udfff" for letter in name)


def _check_names(names: Iterable[str]) -> None:
    """Raises ValueError for a name that SQL cannot have, or has already."""
    seen = set[str]()
    for name in names:
        if not can_be_quoted(name):
            raise ValueError(f"{name!r} cannot be the name of a column")
        if name.lower() in _RESERVED:
            raise ValueError(f"every pipeline has a column {name}; it cannot be the name of a field")
        if name.lower() in seen:
            raise ValueError(f"{name} is there twice; names differ not only in case")
        seen.add(name.lower())


def _mistake(error: Any) -> str:
    place = ".".join(map(str, error["loc"]))
    text = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        text = "there is no such setting"
    return f"{place}: {text}" if place else text
