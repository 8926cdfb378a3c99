"""The JSON Schema of a pipeline file, for editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contextrelay.pipelines import fields
from contextrelay.pipelines.language import KINDS

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a pipeline file, for editors."""

    def mapping(table: Mapping[str, fields.Field], **parts: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": False,
            "required": [name for name, field in table.items() if field.is_required],
            "properties": {
                name: {"description": field.meaning, **parts.get(name, field.schema)}
                for name, field in table.items()
            },
        }

    def named(schema: dict[str, Any]) -> dict[str, Any]:
        names = {"pattern": fields.NAME.pattern}
        return {"type": "object", "propertyNames": names, "additionalProperties": schema}

    out = mapping(fields.OUT)
    kinds = [mapping({**fields.KINDS[kind], **fields.STEP}, out=out) for kind in KINDS]
    taken: dict[str, Any] = {"anyOf": [mapping(fields.INPUT), {"not": {"type": "object"}}]}
    top = mapping(
        fields.TOP,
        inputs=named(taken),
        defaults=mapping(fields.DEFAULTS),
        budget=mapping(fields.BUDGET),
        steps=named({"oneOf": kinds}),
    )
    return {"$schema": SCHEMA_ID, "title": "A pipeline of Context Relay", **top}
