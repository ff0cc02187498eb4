"""Generates the JSON Schemas of the package from structs.

A struct's docstring is its description: the first paragraphs describe the struct, the lines `field: text` after them
its fields. `RULE` holds further schema rules for the whole mapping.
"""

import inspect
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect

from turngate.contract.verdict import CallEvidence, Evidence, TurnEvidence

Schema = dict[str, Any]
WIDTH = 120


def schema(kind: Any, *more: Any, **head: str) -> Schema:
    """Return the JSON Schema of a struct or a union of structs, with keys such as `id` and `title` first.

    `more` are structs that the schema refers to but msgspec doesn't know.
    """
    names = {cls.__name__: cls for cls in _structs(msgspec.inspect.multi_type_info([kind, *more]))}
    (root, *_), components = msgspec.json.schema_components(
        [kind, *more], schema_hook=_hook, ref_template="#/$defs/{name}"
    )
    defs = {name: _tidied(component, names.get(name)) for name, component in sorted(components.items())}
    head = {"$id" if key == "id" else key: text for key, text in head.items()}
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | head
    root = about | (defs.pop(kind.__name__) if "$ref" in root else root)
    return root | {"$defs": defs} if defs else root


def _hook(kind: Any) -> Schema:
    name = {"type": "string", "minLength": 1}
    if kind is Evidence:
        return {"anyOf": [name, *({"$ref": f"#/$defs/{seen.__name__}"} for seen in (TurnEvidence, CallEvidence))]}
    if kind is Path:
        return name
    raise NotImplementedError(kind)


def text(node: Any, indent: str = "") -> str:
    """Return a schema as JSON, with as much on each line as fits."""
    line = json.dumps(node, ensure_ascii=False)
    if len(indent + line) <= WIDTH or not isinstance(node, (dict, list)):
        return line
    inner = indent + "  "
    if isinstance(node, list):
        parts, ends = [text(part, inner) for part in node], "[]"
    else:
        parts, ends = [f"{json.dumps(key)}: {text(value, inner)}" for key, value in node.items()], "{}"
    return f"{ends[0]}\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}{ends[1]}"


def _structs(todo: Iterable[msgspec.inspect.Type]) -> set[type[Any]]:
    """Return the structs that types consist of; another struct may have the name of one of them."""
    found, left = set[type[Any]](), list(todo)
    while left:
        node = left.pop()
        if isinstance(node, msgspec.inspect.StructType):
            if node.cls not in found:
                found.add(node.cls)
                left += [field.type for field in node.fields]
            continue
        for value in (getattr(node, name) for name in node.__struct_fields__):
            left += [
                part
                for part in (value if isinstance(value, tuple) else (value,))
                if isinstance(part, msgspec.inspect.Type)
            ]
    return found


def _tidied(component: Schema, cls: type | None) -> Schema:
    """Forbid unknown keys, and null for optional keys; describe the fields."""
    component = {key: value for key, value in component.items() if key != "title" and value != []}
    if "properties" not in component:
        about = _without_examples(inspect.cleandoc(component.get("description", "")))
        return component | ({"description": about} if about else {})
    about, fields = _described(cls)
    properties = {name: _property(prop, fields.get(name)) for name, prop in component["properties"].items()}
    tidied: Schema = {"description": about} if about else {}
    tidied |= {key: value for key, value in component.items() if key != "description"}
    return tidied | {"properties": properties, "additionalProperties": False} | getattr(cls, "RULE", {})


def _described(cls: type | None) -> tuple[str, Mapping[str, str]]:
    names = "|".join(field.encode_name for field in msgspec.structs.fields(cls)) if cls else ""
    text = _without_examples(inspect.getdoc(cls) or "")
    about, *parts = re.split(rf"^({names}): ", text, flags=re.MULTILINE) if names else (text,)
    return _one_line(about), dict(zip(parts[::2], map(_one_line, parts[1::2]), strict=True))


def _without_examples(text: str) -> str:
    return re.split(r"\n\n\s*>>>", text, maxsplit=1)[0]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _property(prop: Schema, description: str | None) -> Schema:
    left_out = {"type": "null"} if prop.get("default", "") is None else None
    variants = [variant for variant in prop.get("anyOf", ()) if variant != left_out]
    rest = {key: value for key, value in prop.items() if key not in ("anyOf", "default")}
    if isinstance(prop.get("default"), str) and prop["default"]:
        rest["default"] = prop["default"]
    if len(variants) == 1:
        rest |= variants[0]
    elif variants:
        rest["anyOf"] = variants
    simple: Schema = _simple(rest)
    return simple | ({"description": description} if description else {})


def _simple(node: Any) -> Any:
    """Merge alternatives of plain types into one, and write a single-value enum as `const`."""
    if isinstance(node, list):
        return [_simple(part) for part in node]
    if not isinstance(node, dict):
        return node
    node = {key: _simple(value) for key, value in node.items()}
    variants = node.get("anyOf", [])
    if variants and all("type" in variant and "enum" not in variant for variant in variants):
        del node["anyOf"]
        types = [variant["type"] for variant in variants]
        node = {key: value for variant in variants for key, value in variant.items()} | {"type": types} | node
    if len(node.get("enum", ())) == 1:
        node = {"const": node.pop("enum")[0]} | node
    if "const" in node:
        node.pop("type", None)
    return node
