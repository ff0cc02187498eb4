"""Moves contracts and simulations of earlier schemas to those that this turngate reads.

A file is moved as text: a key gets its new name, a key that is gone is removed, and all else stays as it was
written. What only its author knows, such as a section that has been required since, is left to `lint`.
"""

import json
import re
from collections.abc import Mapping

from msgspec import Struct

from turngate.contract.load import CONTRACT, SIMULATION, numbered
from turngate.contract.yaml_edit import Edit, applied, replaced, without_pairs
from turngate.contract.yaml_text import Node, nodes
from turngate.errors import ContractError

Keys = tuple[str, ...]
"""The keys that lead to a value, those of today, without the numbers of lists and the `changes` of a section."""

# contracts with number 1 have one of nine forms, which nothing tells apart but their keys
RENAMED: Mapping[Keys, str] = {
    ("resident",): "sticky",
    ("tools_lost",): "unavailable_tools",
    ("widening_settings",): "approval_settings",
    ("handle", "dead"): "nonexistent_id",
    ("launch", "latest"): "newest_session_options",
    ("hermetic", "tool_call", "leaves"): "creates_file",
    ("deviations", "by_chance"): "flaky",
    ("deviations", "compensation"): "action",
    ("sticky", "asks"): "permission_requests",
    ("sticky", "once"): "one_time",
    ("sticky", "own_store"): "private_store",
    ("sticky", "same_id"): "keeps_session_id",
    ("sticky", "auto", "holds"): "expect",
    ("sticky", "interactive", "holds"): "expect",
}
_WARM = "a process that is kept belongs to a sticky run"
REMOVED: Mapping[Keys, str] = {
    ("simulation",): "what a simulated engine prints stands in a file of its own, simulations/ENGINE.yaml",
    ("store", "tied_to_cwd"): "the clause resume.other-cwd answers it",
    ("resume_probe", "command"): "the help pages are read instead",
    ("sticky", "warm"): _WARM,
    ("sticky", "loads_headless"): _WARM,
    ("sticky", "loads_headless_sessions"): _WARM,
}
RENAMED_IN_SIMULATIONS: Mapping[Keys, str] = {
    ("sticky", "asking_env"): "approval_env",
    ("sticky", "acp", "said"): "after_text",
}
REMOVED_IN_SIMULATIONS: Mapping[Keys, str] = {
    ("refused_call",): "a turn goes on after a refused call, and `called` says what it prints",
}
RENAMED_CLAUSES = {"orchestrated.": "server.", "resident.": "sticky."}
_EVIDENCE = re.compile(r"(?P<kind>clause|recording|observed):\s+(?P<what>.+)", re.DOTALL)
_VERSION = r"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}(?:-[0-9A-Za-z.-]*[0-9A-Za-z])?(?![\w.]*\d)"
_RELEASES = re.compile(rf"(?<![\w.]){_VERSION}(?: to {_VERSION})?")


class Change(Struct, frozen=True):
    """What differs at a line of the old text; `lost` is what the contract no longer says."""

    line: int
    what: str
    lost: bool = False


class Migration(Struct, frozen=True):
    """A contract or simulation in today's `schema`; without changes its text is the old one."""

    schema: str
    text: str
    number: int
    changes: tuple[Change, ...]


def migrate(text: str, file: str) -> Migration:
    """Return the text of a contract or simulation in today's schema; `file` is its name in errors.

    ContractError: it is neither, it is one of a newer turngate, or it can't be moved as text.
    """
    root = nodes(text, file)
    schema, number = _numbered(text, file, root)
    assert root  # noqa: S101 - it has a number
    moving = _Moving(schema, text, file)
    moving.mapping(root, ())
    moved = applied(text, moving.edits)
    try:
        rest = _Moving(schema, moved, file)
        if again := nodes(moved, file):
            rest.mapping(again, ())
    except ContractError as broken:
        raise _unmovable(file, broken.what) from broken
    if rest.edits:
        raise _unmovable(file, rest.changes[0].what)
    return Migration(schema, moved, number, tuple(sorted(moving.changes, key=lambda change: change.line)))


def _unmovable(file: str, why: str) -> ContractError:
    hint = "write out the values that begin with `*`, without the `&` they refer to, and run it again"
    return ContractError(f"can't be moved as text: {why}", file, hint=hint)


def _numbered(text: str, file: str, root: Node | None) -> tuple[str, int]:
    """Return today's schema and the number of the one that a file names; ContractError: it names none, or a newer."""
    schema = next((value for key, value in root.pairs if key.text == "schema"), None) if root else None
    known = numbered(schema.text) if schema else None
    if known is None:
        named = f"its schema is {schema.text!r}" if schema and schema.text else "it names no schema"
        place = _place(text, schema.start) if schema else (1, 1)
        raise ContractError(
            f"no contract or simulation: {named}",
            file,
            *place,
            hint=f"it begins with `schema: {CONTRACT}`, for example",
        )
    assert schema  # noqa: S101 - it has the number
    if known[1] > int(known[0].rpartition("/")[2]):
        what = f"needs a newer turngate: its schema is {schema.text}, and this one reads {known[0]}"
        raise ContractError(what, file, *_place(text, schema.start), "$.schema", "upgrade turngate")
    return known


def _place(text: str, index: int) -> tuple[int, int]:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


class _Moving:
    """Collects the edits of one text and what they change."""

    def __init__(self, schema: str, text: str, file: str) -> None:
        self.edits, self._changes = list[Edit](), dict[int, Change]()
        self._schema, self._text, self._file = schema, text, file
        self._renamed, self._removed = RENAMED, REMOVED
        if schema == SIMULATION:
            self._renamed, self._removed = RENAMED_IN_SIMULATIONS, REMOVED_IN_SIMULATIONS

    @property
    def changes(self) -> list[Change]:
        """What the edits change, once for a place that aliases repeat."""
        return list(self._changes.values())

    def mapping(self, node: Node, at: Keys) -> None:
        """Move the pairs of a mapping, at these keys."""
        names = {key.text for key, _ in node.pairs}
        gone = set[int]()
        for i, (key, value) in enumerate(node.pairs):
            name = key.text or ""
            if key.start < node.start:
                raise _unmovable(self._file, f"the key `{name}` is an alias")
            # a change that set nothing else sets nothing
            here = _known((*at, name))
            removed = (
                [(key, (*at, name))]
                if here == (*at, name)
                else [(inner, (*here, inner.text or "")) for inner, _ in value.pairs]
            )
            if removed and all(keys in self._removed for _, keys in removed):
                gone.add(i)
                for inner, keys in removed:
                    self._note(inner, f"`{keys[-1]}` is gone: {self._removed[keys]}", lost=True)
                continue
            if new := self._renamed.get((*at, name)):
                if new in names:
                    place, hint = _place(self._text, key.start), "keep one of them, and run it again"
                    raise ContractError(
                        f"`{name}` is called `{new}` now, and both are here", self._file, *place, hint=hint
                    )
                self._edit(key, new, f"`{name}` is called `{new}`")
                name = new
            self._value(value, _known((*at, name)))
        if gone:
            self.edits += without_pairs(self._text, node, gone)

    def _value(self, node: Node, at: Keys) -> None:
        if node.pairs:
            self.mapping(node, at)
        for item in node.items:
            if at[-1:] == ("evidence",) and item.text is not None:
                self._evidence(item)
            else:
                self._value(item, at)
        if node.text is None:
            return
        if at == ("schema",) and node.text != self._schema:
            self._edit(node, self._schema, f"the schema is {self._schema}")
        names_clause = at[-2:] == ("evidence", "clause") or at == ("deviations", "clause")
        if names_clause and (new := _clause(node.text)) != node.text:
            self._edit(node, new, f"the clause `{node.text}` is called `{new}`")

    def _evidence(self, item: Node) -> None:
        """Turn evidence that is a text, `clause: ID`, into a mapping. Releases are those that the text names."""
        if not (read := _EVIDENCE.fullmatch((item.text or "").strip())):
            return
        kind, what = read["kind"], read["what"]
        written = json.dumps(what, ensure_ascii=False) if kind == "observed" else _clause(what)
        releases = [*dict.fromkeys(_RELEASES.findall(what))] if kind == "observed" else []
        named = f", releases: [{', '.join(releases)}]" if releases else ""
        self._edit(item, f"{{{kind}: {written}{named}}}", f"the evidence is a mapping: `{{{kind}: ...}}`")

    def _edit(self, node: Node, new: str, what: str) -> None:
        self.edits.append(replaced(self._text, node, new))
        self._note(node, what)

    def _note(self, node: Node, what: str, *, lost: bool = False) -> None:
        self._changes[node.start] = Change(_place(self._text, node.start)[0], what, lost)


def _known(at: Keys) -> Keys:
    """Leave out the `set` of a change, whose keys are those of its section, or of a simulation."""
    return at[:-2] if at in (("changes", "set"), (*at[:1], "changes", "set")) else at


def _clause(name: str) -> str:
    old = next((old for old in RENAMED_CLAUSES if name.startswith(old)), "")
    return RENAMED_CLAUSES.get(old, "") + name.removeprefix(old)
