"""Loads contracts and the clause catalogue: strict YAML, JSON Schema, and rules that a schema can't express.

Errors of JSON Schema are explained in plain words. This is the only module that uses jsonschema. PyYAML and jsonschema
are slow to import, so only what needs them imports them.
"""

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from turngate.contract.defaults import completed
from turngate.contract.engine_contract import EngineContract
from turngate.contract.versions import Claim, Path_, bare, dotted, stretches
from turngate.contract.versions import parse as parse_version
from turngate.decoding import convert, decode
from turngate.errors import ContractError, NotCoveredError, NoVersionError, did_you_mean
from turngate.files import contract_files, left_out, name_of, read_regular
from turngate.sanitize import bounded

_TYPES = {"object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number", "null": "null"}
ONE_OF = (
    "version",
    "help",
    "launch",
    "streams",
    "events",
    "handle",
    "end",
    "final",
    "store",
    "environment",
    "resume_probe",
    "hermetic",
    "sticky",
    "guards",
    "copied_settings",
    "artifacts",
    "tool_search",
)
OPTIONAL = ("store", "guards", "artifacts", "copied_settings", "tool_search")
ALL_OF = (
    "options",
    "auto_flags",
    "failures",
    "reports",
    "outputs",
    "deviations",
    "volatile",
    "approval_signs",
    "unavailable_tools",
    "ongoing_calls",
    "question_calls",
    "command_sandboxes",
    "canaries",
    "file_marks",
    "instruction_files",
    "approval_settings",
    "unsafe_settings",
    "redirects",
    "output_settings",
    "listings",
    "type_files",
)
SECTIONS = (*ONE_OF, *ALL_OF)
# a key that is renamed, removed or means something else gives the next number
CONTRACT, SIMULATION = "turngate.engine-contract/2", "turngate.simulation/2"
GAP = "GAP"  # the value in place of one that nobody has found out yet
NONE = "none"  # the key of a section with evidence that the engine has nothing to list there
MOST_BYTES = 256 * 2**10  # ten times the longest contract; PyYAML takes seconds for as much
# importing importlib.resources would take longer than reading a contract
_FOLDER = Path(__file__).parents[1]


def mistakes(error: Any, tell: Callable[..., ContractError]) -> Iterator[ContractError]:
    """Explain an error of the jsonschema library; several unknown keys in one object give several mistakes.

    `tell` makes an error from path, message and hint; `of_key` says that the key is wrong, not the value at the path.
    """
    path, value, rule = tuple(error.absolute_path), error.validator_value, error.validator
    meaning = error.schema.get("description", "") if isinstance(error.schema, Mapping) else ""
    if rule == "additionalProperties" and value is False:
        for key in error.instance:
            known = error.schema.get("properties", {})
            if key not in known:
                hint = did_you_mean(key, known, f"known keys: {', '.join(sorted(known))}")
                yield tell((*path, key), f"unknown key {key!r}", hint, of_key=True)
    elif rule == "required":
        # the library yields one error per missing key, and names the key only in its message
        key = next(key for key in value if repr(key) == error.message.partition(" is a required")[0])
        known = error.schema.get("properties", {})
        if any(did_you_mean(other, known, "") == f"did you mean {key}?" for other in {*error.instance} - {*known}):
            return  # the mistyped key is told
        expected = known.get(key, {})
        meaning = expected.get("description", "")
        yield tell(path, error.message, meaning or f"add `{key}: {expected.get('const', '...')}`")
    elif rule == "not":
        yield tell(path, f"key {path[-1]!r} conflicts with the other keys", "remove it", of_key=True)
    elif rule == "type":
        types = [value] if isinstance(value, str) else value
        yield tell(path, error.message, meaning or "write " + " or ".join(_TYPES.get(t, t) for t in types))
    elif rule == "format":
        yield tell(path, f"{error.message}: {_broken(error.instance)}", "write a Python regular expression")
    elif rule in {"enum", "const"}:
        allowed = [str(item) for item in value] if rule == "enum" else [str(value).lower()]
        hint = did_you_mean(str(error.instance), allowed, f"write one of: {', '.join(allowed)}")
        yield tell(path, error.message, hint)
    else:
        yield tell(path, error.message, meaning or f"the schema requires {rule}: {str(value)[:200]}")


def _broken(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as broken:
        return str(broken)
    return "not read"


if TYPE_CHECKING:
    from turngate.contract.clauses import Catalogue


class Document(msgspec.Struct, frozen=True):
    """A YAML file as data, with the line and column (from 1) of every path and key in it."""

    file: str
    data: Any
    marks: Mapping[Path_, tuple[int, int]]
    keys: Mapping[Path_, tuple[int, int]]

    def entries(self, *sections: str) -> Iterator[tuple[Path_, dict[str, Any]]]:
        """Yield the entries of sections (without names: all) with their paths; a simulation is a single entry."""
        if self.data.get("schema") == SIMULATION:
            yield from () if sections else [((), self.data)]
            return
        for section in sections or SECTIONS:
            entries = self.data.get(section, ())
            if isinstance(entries, dict):
                yield (section,), entries
            else:
                yield from (((section, i), entry) for i, entry in enumerate(entries))

    def completed(self) -> "Document":
        """Return the document with what a contract says by the sections that it leaves out."""
        return self if self.data.get("schema") == SIMULATION else replace(self, data=completed(self.data))

    def gaps(self) -> list[Path_]:
        """List the paths of the values that are still to be found out."""
        return [*_gaps(self.data, ())]

    def claims(self, *sections: str) -> list[Claim]:
        """List the claims of sections, one for each stretch of releases."""
        return [claim for path, entry in self.entries(*sections) for claim in stretches(entry, path)]

    def meeting(self, section: str, claim: Claim) -> list[Claim]:
        """List the entries of a section whose ranges overlap that of `claim`, without a statement that it has none."""
        return [other for other in self.claims(section) if other.range.overlaps(claim.range) and NONE not in other.data]

    def error(self, path: Path_, message: str, hint: str = "", *, of_key: bool = False) -> ContractError:
        """Return the error that points at `path` (or at its nearest part in the file), or at its key."""
        if of_key and path in self.keys:
            return ContractError(message, self.file, *self.keys[path], dotted(path), hint)
        at = path
        while at not in self.marks and at:
            at = at[:-1]
        line, column = self.marks.get(at, (1, 1))
        return ContractError(message, self.file, line, column, dotted(path), hint)


def _gaps(value: Any, path: Path_) -> Iterator[Path_]:
    if value == GAP:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _gaps(inner, (*path, key))


class Contract(msgspec.Struct, frozen=True):
    """A whole contract file: every claim with its range."""

    document: Document

    @property
    def engine(self) -> str:
        """The engine's name."""
        return str(self.document.data["engine"])

    def at(self, version: str | None = None) -> EngineContract:
        """Resolve the claims for one release (None: the newest); NotCoveredError if one does not cover it."""
        try:
            return convert(self.claims_at(version), EngineContract)
        except msgspec.ValidationError as wrong:
            usual = next(schema_errors(self.document, "engine"), None)
            raise usual or ContractError(str(wrong), self.document.file) from wrong

    def claims_at(self, version: str | None) -> dict[str, Any]:
        """Return the claims for one release (None: the newest) as data; NotCoveredError if one does not cover it."""
        if version is not None:
            self._check(version)
        document = self.document.completed()
        fields, unverified = dict(document.data), list[str]()
        for section in (key for key in SECTIONS if key in fields):
            claims = document.claims(section)
            valid = [claim.data for claim in claims if claim.range.covers(version)]
            unverified += [section] * any("evidence" not in claim for claim in valid)
            if section in ALL_OF:
                fields[section] = [bare(claim) for claim in valid if NONE not in claim]
            elif valid:
                fields[section] = bare(valid[0])
            elif section in OPTIONAL:
                del fields[section]
            else:
                known = ", ".join(str(claim.range) for claim in claims)
                message = f"the contract doesn't cover {self.engine} {version}: `{section}` covers {known}"
                raise NotCoveredError(message, self.document.file, path=f"$.{section}")
        some = {claim.data["clause"] for claim in document.claims("deviations") if NONE not in claim.data}
        some_deviate = sorted(some) if version is None else []
        return fields | {"release": version, "unverified": unverified, "some_deviate": some_deviate}

    def _check(self, version: str) -> None:
        try:
            parse_version(version)
        except ValueError:
            hint = "write the version as published, such as 1.2.3"
            raise NoVersionError(f"{version!r} isn't a version of {self.engine}", hint=hint) from None


def load_contract(engine: str, version: str | None = None) -> EngineContract:
    """Return the contract of an engine for one release (None: the newest).

    ContractError: no contract has that name. NotCoveredError: the contract doesn't cover the release. NoVersionError, a
    subclass: `version` isn't a version number.

    >>> turngate.load_contract("codex", "0.169.0").executable
    'codex'
    """
    return contract(engine).at(version)


def contract(engine: str) -> Contract:
    """Load the whole contract file of an engine, without validation; ContractError if there is none."""
    file = contract_file(engine)
    return Contract(read(file, name_of(file), ours=True))


def contract_file(engine: str) -> Path:
    """Return the contract file of an engine; ContractError if there is none, or it is left out."""
    file = contract_files().get(engine)
    if error := unusable(engine):
        raise error
    if file is None:
        alone = re.split("[@=]", engine, maxsplit=1)[0]
        hint = did_you_mean(engine, engine_names(), f"known engines: {', '.join(engine_names())}")
        if alone in engine_names():
            hint = f"name the engine alone: {alone}"
        raise ContractError(f"no contract for engine {engine!r}", hint=hint)
    return file


def unusable(engine: str) -> ContractError | None:
    """Return the error for an engine whose contract has mistakes or gaps, and is left out for that; else None."""
    file = left_out().get(engine)
    hint = f"`turngate contracts check {file}` lists what to mend or to fill in"
    return ContractError(f"the contract of {engine} can't be used yet", str(file), hint=hint) if file else None


def find_contract(engine: str, version: str | None) -> EngineContract | None:
    """Resolve the packaged contract of an engine for one release (None: the newest); None if it does not cover it."""
    try:
        return load_contract(engine, version)
    except (NotCoveredError, ValueError):
        return None


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines with a contract, in the package or in the folder that overrides it.

    >>> "codex" in turngate.engine_names()
    True
    """
    return tuple(contract_files())


@cache
def catalogue() -> "Catalogue":
    """Load the clause catalogue."""
    from turngate.contract.clauses import Catalogue, Clause  # noqa: PLC0415 - not needed to run an engine

    listed = parse((_FOLDER / "clauses.yaml").read_text("utf-8"), "clauses.yaml").data["clauses"]
    return Catalogue({clause.id: clause for clause in convert(listed, tuple[Clause, ...])})


def schema(name: str) -> dict[str, Any]:
    """Load a packaged JSON Schema by its file name without suffix."""
    return decode((_FOLDER / "schema" / f"{name}.json").read_bytes(), dict[str, Any])


def read(file: Path, name: str = "", *, ours: bool = False) -> Document:
    """Read a contract file, called `name` in errors, as `parse` does; ContractError also if it can't be read."""
    return parse(text_of(file, name), name or str(file), ours=ours)


def text_of(file: Path, name: str = "") -> str:
    """Return the text of a contract file, called `name` in errors.

    ContractError: It can't be read or is too long. OSError: There are too many open files.
    """
    try:
        data = read_regular(file, MOST_BYTES + 1)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):  # which says nothing of this one
            raise
        hint = "a contract is a file that you can read"
        raise ContractError(f"can't be read: {error.strerror}", name or str(file), hint=hint) from error
    text = data.decode("utf-8", "surrogateescape")
    if len(data) > MOST_BYTES:
        raise too_long(text, name or str(file))
    return text


def too_long(start: str, file: str) -> ContractError:
    """Return the error for a file of more than `MOST_BYTES`, whose text begins with `start`."""
    kept = start.encode("utf-8", "surrogatepass")[:MOST_BYTES].decode("utf-8", "ignore")
    line, column = kept.count("\n") + 1, len(kept) - kept.rfind("\n")
    return ContractError(f"longer than {MOST_BYTES // 2**10} KiB", file, line, column, hint="shorten the file")


def schema_errors(document: Document, name: str) -> Iterator[ContractError]:
    """Check a document against a packaged schema, and yield each error with its place and fix."""
    validator = _validator(name)
    errors = list(validator.iter_errors(document.data))
    yield from _explained(errors, document.error)
    for claim in document.claims() if not errors and name in ("engine", "simulation") else ():
        if claim.path != claim.entry:  # an entry with a change applied is also an entry
            entry = validator.schema["properties"][claim.entry[0]] if claim.entry else validator.schema
            changed = validator.evolve(schema=entry.get("else") or entry.get("items") or entry)
            place = claim.at
            yield from _explained(
                changed.iter_errors(claim.data),
                lambda path, *words, place=place, **key: document.error(place(*path), *words, **key),
            )


def _explained(errors: Iterable[Any], tell: Callable[..., ContractError]) -> Iterator[ContractError]:
    import jsonschema  # noqa: PLC0415 - slow to import, and not needed to run an engine

    for error in sorted(errors, key=lambda error: list(map(str, error.absolute_path))):
        yield from mistakes(jsonschema.exceptions.best_match([error]) or error, tell)


def first_error(name: str, data: Any) -> str | None:
    """Check data against a packaged schema; return the first error as `path: what`, or None."""
    import jsonschema  # noqa: PLC0415 - as above

    error = jsonschema.exceptions.best_match(_validator(name).iter_errors(data))
    return f"{dotted(tuple(error.absolute_path))}: {bounded(error.message, 300)}" if error else None


@cache
def _validator(name: str) -> Any:
    import jsonschema  # noqa: PLC0415 - as above

    return jsonschema.Draft202012Validator(schema(name), format_checker=jsonschema.FormatChecker())


def parse(text: str, file: str, *, ours: bool = False) -> Document:
    """Read YAML text; ContractError on a syntax error, a duplicate key, a key that is not text, or too many values.

    So it is for a contract or simulation whose schema has another number: `turngate contracts migrate` moves an older
    one.
    A file of `ours` is read with libyaml if available: ten times as fast, but unsafe against hostile nesting. Any other
    text may have at most `MOST_BYTES`.
    """
    if not ours and len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise too_long(text, file)
    from turngate.contract.yaml_text import read_yaml  # noqa: PLC0415 - slow to import, and not needed with a cache

    document = Document(file, *read_yaml(text, file, ours=ours))
    if error := _other_number(document):
        raise error
    return document


def numbered(schema: object) -> tuple[str, int] | None:
    """Return today's schema for the same files, and the number of this one.

    None: it is the schema of neither contracts nor simulations.
    """
    named = re.fullmatch("(.+/)([1-9][0-9]{0,8})", schema) if isinstance(schema, str) else None
    today = next((each for each in (CONTRACT, SIMULATION) if named and each.startswith(named[1])), None)
    return (today, int(named[2])) if named and today else None


def _other_number(document: Document) -> ContractError | None:
    """Return the error for a file of an earlier or later schema, whose keys may have other names or meanings."""
    schema = document.data.get("schema") if isinstance(document.data, dict) else None
    known = numbered(schema)
    if known is None or schema == known[0]:
        return None
    today, number = known
    is_older = number < int(today.rpartition("/")[2])
    hint = f"run `turngate contracts migrate {document.file}`" if is_older else "upgrade turngate"
    what = "contract" if today == CONTRACT else "simulation"
    return document.error(("schema",), f"the {what} is written for {schema}, and this turngate reads {today}", hint)
