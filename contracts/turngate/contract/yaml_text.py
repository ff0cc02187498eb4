"""Reads YAML strictly: only the core types, no duplicate keys, and the place of every value. The only user of PyYAML.

`0.140`, `on` and `12:30` are text.
"""

import re
from typing import Any

import yaml

from turngate.contract.versions import Path_, dotted
from turngate.errors import ContractError

Places = dict[Path_, tuple[int, int]]


def read_yaml(text: str, file: str, *, ours: bool) -> tuple[Any, Places, Places]:
    """Return a text as data, with the line and column (from 1) of every path and key in it.

    ContractError on a syntax error, a duplicate key, or a key that is not text. A file of `ours` is read with libyaml.
    """
    try:
        node = yaml.compose(text, _QuickLoader if ours else _CoreLoader)
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise ContractError(broken.problem or "not YAML", file, *place, hint="fix the YAML syntax") from broken
    except yaml.YAMLError as broken:
        raise ContractError(str(broken), file, hint="the file must be YAML in UTF-8") from broken
    except (UnicodeEncodeError, RecursionError) as broken:
        message = "nested too deeply" if isinstance(broken, RecursionError) else "not Unicode text"
        raise ContractError(message, file, hint="the file must be YAML in UTF-8") from broken
    marks, keys = Places(), Places()
    try:
        data = _construct(node, (), marks, keys, file) if node else None
    except RecursionError as broken:
        raise ContractError("an alias refers to its own anchor", file, hint="write the value out") from broken
    return data, marks, keys


def _construct(node: yaml.Node, path: Path_, marks: Places, keys: Places, file: str) -> Any:
    marks[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(child, (*path, i), marks, keys, file) for i, child in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        try:
            return _scalar(node)
        except ValueError:
            raise ContractError("not an integer", file, *marks[path], dotted(path), "write plain digits") from None
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key, line, column = key_node.value, key_node.start_mark.line + 1, key_node.start_mark.column + 1
        if not isinstance(key, str):
            raise ContractError("a key must be text", file, line, column, dotted(path))
        if key in mapping:
            raise ContractError(f"key {key!r} occurs twice", file, line, column, dotted(path), "keep one of them")
        keys[*path, key] = (line, column)
        mapping[key] = _construct(value_node, (*path, key), marks, keys, file)
    return mapping


def _scalar(node: yaml.Node) -> Any:
    if node.tag == "tag:yaml.org,2002:null":
        return None
    if node.tag == "tag:yaml.org,2002:bool":
        return node.value == "true"
    return int(node.value) if node.tag == "tag:yaml.org,2002:int" else node.value


class _CoreLoader(yaml.SafeLoader):
    """Recognizes null, true, false and plain decimal integers; everything else is text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape


_CoreLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"null\Z"), ["n"])
_CoreLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(true|false)\Z"), ["t", "f"])
_CoreLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"(0|-?[1-9][0-9]*)\Z"), list("-0123456789"))


class _QuickLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Does the same with libyaml; only its error messages differ."""

    yaml_implicit_resolvers = _CoreLoader.yaml_implicit_resolvers
