"""Reads the messages of releases from the TypeScript declarations that a vendor publishes in another package.

The types become a JSON Schema. What is not understood, such as generic and conditional types, may be anything.
"""

import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from tests.tools.history.with_release import with_release
from turngate import Stop
from turngate.contract import load
from turngate.contract.launch import TypeFile
from turngate.history import FROM_TYPES, History, Kind
from turngate_probes.journal.protocol import protocol
from turngate_probes.releases.npm import npm

_NOTE = re.compile(r"""('(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")|/\*.*?\*/|//[^\n]*""", re.DOTALL)
_TOKEN = re.compile(r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|=>|[\w$.]+|[^\s\w]""")
_TYPE = re.compile(r"^(?:export )?(?:declare )?type (\w+) = ", re.MULTILINE)
_CLOSING = {"{": "}", "(": ")", "[": "]", "<": ">"}
_MOST_STEPS = 10

Schema = dict[str, Any]


def with_types(known: History, versions: Iterable[str], stop: Stop) -> History:
    """Return a history with the messages of these releases, if their vendor publishes them."""
    for version in versions:
        release, contract = known.find(version), load.find_contract(known.engine, version)
        facts = dict[str, str]()
        for types in contract.type_files if contract else ():
            facts |= _published(types, version, stop)
        if release and facts:
            section = f"{Kind.PROTOCOL}/{FROM_TYPES}"
            known = with_release(known, replace(release, facts={**release.facts, section: facts}))
    return known


def schema(text: str) -> Schema:
    """Return `definitions` with the type of each name."""
    bare = _NOTE.sub(lambda note: note[1] or " ", text)
    starts = [*_TYPE.finditer(bare)]
    ends = [*(start.start() for start in starts[1:]), len(bare)]
    types = {start[1]: _Reader(bare[start.end() : end]).type() for start, end in zip(starts, ends, strict=True)}
    return {"definitions": {name: _whole(types, node) for name, node in types.items()}}


def _published(types: TypeFile, version: str, stop: Stop) -> Mapping[str, str]:
    """Return the messages of a release; none if no release of the package names it."""
    listed = _releases(types.package, types.release, stop)
    package = next((each["version"] for each in reversed(listed) if each.get(types.release) == version), None)
    if package is None:
        return {}
    with TemporaryDirectory() as folder:
        npm(("pack", f"{types.package}@{package}", "--pack-destination", folder), stop)
        (archive,) = Path(folder).iterdir()
        with tarfile.open(archive) as opened:
            file = opened.extractfile(f"package/{types.file}")
            text = file.read().decode() if file else ""
    unions = {called: f"definitions/{name}" for called, name in types.unions.items()}
    return protocol(unions, json.dumps(schema(text)))


@cache
def _releases(package: str, key: str, stop: Stop) -> Any:
    """Return the releases of a package, each with this key of its manifest."""
    return json.loads(npm(("view", f"{package}@>=0", "name", "version", key, "--json"), stop))


def _whole(types: Mapping[str, Schema], node: Schema) -> Schema:
    """Return an object that is made of others with the members of all of them."""
    if "allOf" not in node:
        return node
    parts = [_whole(types, _resolved(types, part)) for part in node["allOf"]]
    members = {key: value for part in parts for key, value in part.get("properties", {}).items()}
    return {"properties": members, "required": [key for part in parts for key in part.get("required", ())]}


def _resolved(types: Mapping[str, Schema], node: Schema) -> Schema:
    for _ in range(_MOST_STEPS):
        if "$ref" not in node:
            return node
        node = types.get(node["$ref"].rpartition("/")[2], {})
    return {}


class _Reader:
    """Reads a type from the beginning of a text."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def type(self) -> Schema:
        """Read a union; a leading `|` is allowed."""
        self._skip("|")
        kinds = [self._both()]
        while self._skip("|"):
            kinds.append(self._both())
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}

    def _both(self) -> Schema:
        parts = [self._one()]
        while self._skip("&"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else {"allOf": parts}

    def _one(self) -> Schema:
        node, token = Schema(), self._next()
        if token == "{":
            node = self._object()
        elif token == "(":
            inside = self._inside(token)
            if self._skip("=>"):
                self.type()
            else:
                node = _Reader(" ".join(inside)).type()
        elif token in _CLOSING:
            self._inside(token)
        elif token[:1] in ("'", '"'):
            node = {"enum": [token[1:-1]]}
        elif token in ("readonly", "keyof", "typeof"):
            return self._one()
        elif re.fullmatch(r"\w+(\.\w+)*", token):
            node = {"$ref": f"#/definitions/{token.rpartition('.')[2]}"}
        while self._peek() in ("[", "<"):
            self._inside(self._next())
            node = {}
        return node

    def _object(self) -> Schema:
        members, required = dict[str, Schema](), list[str]()
        while (token := self._next()) not in ("}", ""):
            if token in _CLOSING:
                self._inside(token)
            elif token not in (";", ",", "readonly"):
                is_optional, name = self._skip("?"), token.strip("'\"")
                if self._skip(":"):
                    members[name] = self.type()
                    required += [] if is_optional else [name]
        return {"properties": members, "required": required}

    def _inside(self, opening: str) -> list[str]:
        """Return what stands between an opening bracket, which was read, and its closing one."""
        return [*self._until(opening, _CLOSING[opening])]

    def _until(self, opening: str, closing: str) -> Iterator[str]:
        depth = 1
        while token := self._next():
            depth += (token == opening) - (token == closing)
            if not depth:
                return
            yield token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _skip(self, token: str) -> bool:
        self._at += (is_there := self._peek() == token)
        return is_there
