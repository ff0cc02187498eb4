"""Kinds of values in contract files, and what their JSON Schemas require of them."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

NOT_EMPTY = Meta(min_length=1)
_RELEASE = r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?"

Strings = tuple[str, ...]
Text = Annotated[str, NOT_EMPTY]
Texts = tuple[Text, ...]
Regex = Annotated[Text, Meta(extra_json_schema={"format": "regex"})]
_BELOW = r"(?!\.\.?(/|$))[^/]+"
PATH = Meta(
    extra_json_schema={
        "pattern": r"^[^.]+(\.[^.]+)*$",
        "description": "A dotted path into a record, such as `content.0.text`. A number is an index of a list: 0 is "
        "the first, -1 the last.",
    }
)
RecordPath = Annotated[str, PATH]
Match = Mapping[RecordPath, str | int | float | bool | None]
OnlyTrue = Annotated[bool, Meta(extra_json_schema={"const": True})]
Unique = Meta(extra_json_schema={"uniqueItems": True})
SchemaRule = Mapping[str, Any]
"""What a JSON Schema requires of a mapping beyond valid keys and values; a struct has it as its `RULE`."""
ABSENT: SchemaRule = {"not": {}}


def matching(pattern: str, **more: str) -> Meta:
    """Return the schema of text with a pattern. Structs don't check it, since compiling patterns is slow."""
    return Meta(extra_json_schema={"pattern": pattern} | more)


def keys(*allowed: str) -> Meta:
    """Return the schema of a mapping without other keys. Structs don't check it."""
    return Meta(extra_json_schema={"propertyNames": {"enum": list(allowed)}})


Name = Annotated[str, matching("^[a-z][a-z0-9-]*$")]
Flag = Annotated[str, matching("^--?[A-Za-z0-9][A-Za-z0-9_-]*$")]
FileName = Annotated[str, matching("^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
NpmName = Annotated[str, matching("^(@[a-z0-9~][a-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*$")]
PyPiName = Annotated[str, matching("^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]
RelativePath = Annotated[
    str, matching(f"^{_BELOW}(/{_BELOW})*$", description="A path relative to a folder that it stays in, without `..`.")
]
SandboxPath = Annotated[
    str,
    matching(
        rf"^\{{(work|home|tmp)\}}(/{_BELOW})+$", description="A path below {work}, {home} or {tmp}, without `..`."
    ),
]
Variable = Annotated[str, matching("^[A-Za-z_][A-Za-z0-9_]*$", description="The name of an environment variable.")]
Release = Annotated[str, matching(f"^{_RELEASE}$", description="A release, as published.")]
Releases = Annotated[str, matching(f"^{_RELEASE}( to {_RELEASE})?$", description="A release, or `A to B`.")]


def either(condition: SchemaRule, needed: Strings, refused: Strings) -> SchemaRule:
    """Require the `needed` keys and forbid the `refused` ones if a condition holds; otherwise the reverse."""
    then, otherwise = (
        {"required": list(these), "properties": dict.fromkeys(those, ABSENT)}
        for these, those in ((needed, refused), (refused, needed))
    )
    return {"if": condition, "then": then, "else": otherwise}


def has(key: str, *values: str) -> SchemaRule:
    """Return the condition that a key exists, and has one of the values if any are given."""
    return {"required": [key]} | ({"properties": {key: {"enum": list(values)}}} if values else {})
