"""Reads YAML strictly: only the core types, no duplicate keys, and the place of every value. The only user of PyYAML.

`0.140`, `on` and `12:30` are text.
"""

import re
from typing import Any

import yaml
from msgspec import Struct

from turngate.contract.versions import Path_, dotted
from turngate.errors import ContractError

Places = dict[Path_, tuple[int, int]]
MOST_VALUES = 50_000
_MOST_TEXT = 4 * 2**20  # characters
# how a message of PyYAML begins, what it means, and what to do
_MISTAKES = (
    (
        "mapping values are not allowed here",
        "a value contains a colon and a space, or this line is indented too far",
        "put the value in quotes, or indent the line like the keys beside it",
    ),
    ("found character '\\t'", "YAML doesn't allow a tab here", "use spaces"),
    ("found unexpected end of stream", "a quotation mark is missing", "close the quotes that begin in {where}"),
    (
        "expected ',' or",
        "a bracket is not closed, or a comma is missing",
        "close the bracket that begins in {where}, or separate its items with commas",
    ),
    (
        "expected <block end>",
        "this doesn't fit the list or mapping that begins in {where}",
        "indent the line like the others, or put the value in double quotes",
    ),
    (
        "could not find expected ':'",
        "this line has no `key: value`",
        "add the colon and the value, or put text that spans several lines in quotes",
    ),
    ("found character", "a value can't begin with this character", "put the value in quotes"),
    (
        "found unknown escape character",
        "this is no escape sequence in double quotes",
        "use single quotes, which keep a backslash as it is",
    ),
)


class Node(Struct, frozen=True):
    """A value as it is written, from the index `start` up to but not including `end`. A key is a node, too.

    A value that an alias repeats is at the place of its anchor. The `end` of a block is that of the blank lines and
    comments after it.

    text: The text of a scalar, which is None for a list or a mapping.
    is_flow: It is written in brackets or braces.
    """

    start: int
    end: int
    text: str | None = None
    items: "tuple[Node, ...]" = ()
    pairs: "tuple[tuple[Node, Node], ...]" = ()
    is_flow: bool = False


def nodes(text: str, file: str) -> Node | None:
    """Return what a text writes where; None for an empty one, and ContractError as `read_yaml`."""
    read_yaml(text, file, ours=False)  # bounds what aliases repeat
    root = yaml.compose(text, _CoreLoader)
    return _written(root) if root else None


def _written(node: yaml.Node) -> Node:
    place = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.MappingNode):
        pairs = tuple((_written(key), _written(value)) for key, value in node.value)
        return Node(*place, pairs=pairs, is_flow=bool(node.flow_style))
    if isinstance(node, yaml.SequenceNode):
        return Node(*place, items=tuple(map(_written, node.value)), is_flow=bool(node.flow_style))
    return Node(*place, text=node.value)


def read_yaml(text: str, file: str, *, ours: bool) -> tuple[Any, Places, Places]:
    """Return a text as data, with the line and column (from 1) of every path and key in it.

    ContractError on a syntax error, a duplicate key, a key that is not text, or too many values, for which a few
    aliases suffice. A file of `ours` is read with libyaml.
    """
    try:
        node = yaml.compose(text, _QuickLoader if ours else _CoreLoader)
    except yaml.MarkedYAMLError as broken:
        raise _in_plain_words(broken, file) from broken
    except yaml.YAMLError as broken:
        raise ContractError(str(broken), file, hint="the file must be YAML in UTF-8") from broken
    except (UnicodeEncodeError, RecursionError) as broken:
        message = "nested too deeply" if isinstance(broken, RecursionError) else "not Unicode text"
        raise ContractError(message, file, hint="the file must be YAML in UTF-8") from broken
    construction = _Construction(file)
    try:
        data = construction.of(node, ()) if node else None
    except RecursionError as broken:
        raise ContractError("an alias refers to its own anchor", file, hint="write the value out") from broken
    return data, construction.marks, construction.keys


def _in_plain_words(broken: yaml.MarkedYAMLError, file: str) -> ContractError:
    """Return the error for a mistake in the syntax, in plain words if the parser's message is a known one."""
    said, mark, began = broken.problem or "not YAML", broken.problem_mark, broken.context_mark
    place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    where = f"line {began.line + 1}" if began else "an earlier line"
    known = ((message, hint) for start, message, hint in _MISTAKES if said.startswith(start))
    message, hint = (words.replace("{where}", where) for words in next(known, (said, "fix the YAML syntax")))
    return ContractError(message, file, *place, hint=hint)


class _Construction:
    """Makes data of nodes and notes their places, within limits, since an alias repeats all that its anchor holds."""

    def __init__(self, file: str) -> None:
        self.marks, self.keys = Places(), Places()
        self._file = file
        self._text = 0

    def of(self, node: yaml.Node, path: Path_) -> Any:
        """Return the data of a node at a path; ContractError if it is invalid."""
        self.marks[path] = _place(node)
        if len(self.marks) > MOST_VALUES:
            raise self._error(f"more than {MOST_VALUES} values", path, "write less, and use fewer aliases")
        if isinstance(node, yaml.SequenceNode):
            return [self.of(child, (*path, i)) for i, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        self._text += len(node.value)
        if self._text > _MOST_TEXT:
            raise self._error(f"more than {_MOST_TEXT} characters", path, "write less, and use fewer aliases")
        try:
            return _scalar(node)
        except ValueError:
            raise self._error("not an integer", path, "write plain digits") from None

    def _mapping(self, node: yaml.MappingNode, path: Path_) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, place = key_node.value, _place(key_node)
            if not isinstance(key, str):
                raise ContractError("a key must be text", self._file, *place, dotted(path))
            if key in mapping:
                raise ContractError(f"key {key!r} occurs twice", self._file, *place, dotted(path), "keep one of them")
            self.keys[*path, key] = place
            mapping[key] = self.of(value_node, (*path, key))
        return mapping

    def _error(self, message: str, path: Path_, hint: str) -> ContractError:
        return ContractError(message, self._file, *self.marks[path], dotted(path), hint)


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


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
