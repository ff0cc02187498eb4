"""Checks of a contract that a schema can't express: ranges, patterns, evidence, and names that must agree.

`problems` runs the schema first, then each check on the sections that the schema accepts.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from turngate.contract.lint.approval import (
    absence_errors,
    artifact_errors,
    flag_errors,
    guard_errors,
    interactive_errors,
    launch_errors,
)
from turngate.contract.lint.claims import claim_errors, deviation_errors
from turngate.contract.lint.places import copied_settings_errors, environment_errors, path_errors, store_errors
from turngate.contract.lint.records import handle_errors, output_errors, record_errors, version_errors
from turngate.contract.lint.sticky import sticky_errors, transport_errors
from turngate.contract.load import OPTIONAL, SIMULATION, Document, read, schema_errors
from turngate.contract.versions import Claim, dotted
from turngate.errors import ContractError
from turngate.files import use_overlay

IS_GAP = "is a gap"
# a check, the section that it reports on, then those that it needs
_CHECKS: tuple[tuple[Callable[[Document, Claim], Iterator[ContractError]], str, *tuple[str, ...]], ...] = (
    (deviation_errors, "deviations"),
    (version_errors, "version"),
    (flag_errors, "launch", "options"),
    (flag_errors, "guards", "options"),
    (guard_errors, "guards", "auto_flags", "options"),
    (flag_errors, "artifacts", "options"),
    (artifact_errors, "artifacts", "auto_flags", "options"),
    (interactive_errors, "options", "auto_flags"),
    (launch_errors, "launch", "options", "auto_flags"),
    (handle_errors, "handle"),
    (output_errors, "outputs", "launch", "auto_flags", "options"),
    *((record_errors, section, "streams") for section in ("events", "handle", "end", "failures", "reports", "final")),
    (sticky_errors, "sticky", "options"),
    (transport_errors, "sticky", "launch"),
    (store_errors, "store"),
    (environment_errors, "environment", "store"),
    *((path_errors, section, "store") for section in ("resume_probe", "instruction_files", "unsafe_settings")),
    (copied_settings_errors, "copied_settings", "store", "environment"),
)


def problems(document: Document) -> Iterator[ContractError]:
    """Find every mistake in a contract or simulation: schema violations, and semantic errors in valid sections."""
    if not isinstance(document.data, dict):
        yield from schema_errors(document, "engine")
        return
    is_simulation = document.data.get("schema") == SIMULATION
    yield from _name_errors(document)
    gaps = document.gaps()
    yield from (document.error(path, IS_GAP, "the comment above its section says how to find out") for path in gaps)
    open_paths = tuple(map(dotted, gaps))
    wrong = [
        e for e in schema_errors(document, "simulation" if is_simulation else "engine") if e.path not in open_paths
    ]
    refused = {path[2:].partition(".")[0].partition("[")[0] for path in (*open_paths, *(e.path for e in wrong))}
    sound = {key: value for key, value in document.data.items() if key not in refused}
    reported = set[str]()
    for error in (*wrong, *_meaning_errors(replace(document, data=sound), refused, is_simulation=is_simulation)):
        # a change is checked together with the values that it keeps
        if str(error) not in reported:
            reported.add(str(error))
            yield error


def override(folder: Path) -> list[str]:
    """Make the contracts in a folder override the packaged ones from now on, without those that have mistakes or gaps.

    The engine of such a file is left out. Return a message for each, and one if the folder holds them in a wrong place.
    """
    wrong = dict[Path, list[ContractError]]()
    for file in sorted([*folder.glob("engines/*.yaml"), *folder.glob("simulations/*.yaml")]):
        try:
            wrong[file] = list(problems(read(file)))
        except ContractError as unreadable:
            wrong[file] = [unreadable]
    use_overlay(folder, without=[file for file, mistakes in wrong.items() if mistakes])
    misplaced = not wrong and any(folder.glob("*.yaml"))
    where = [f"{folder} has no contracts: they are read from {folder}/engines"] if misplaced else []
    return where + [_left_out(file, mistakes) for file, mistakes in wrong.items() if mistakes]


def _left_out(file: Path, mistakes: Sequence[ContractError]) -> str:
    """Return which engine a file leaves out, and why: its gaps, or the first mistake."""
    of = "the simulation of " if file.parent.name == "simulations" else ""
    gaps = [mistake.path for mistake in mistakes if mistake.what == IS_GAP]
    others = [mistake for mistake in mistakes if mistake.what != IS_GAP]
    why = [f"{file}: {len(gaps)} gap{'s' * (len(gaps) > 1)}: {', '.join(gaps)}"] if gaps else []
    why += [str(others[0])] if others else []
    more = f"\n{len(others) - 1} more: turngate contracts check {file}" if len(others) > 1 else ""
    return f"{of}{file.stem} is left out: " + "\n".join(why) + more


def _meaning_errors(document: Document, refused: set[str], *, is_simulation: bool) -> Iterator[ContractError]:
    """Find semantic errors; skip checks that need a section that is missing or was `refused`."""
    if is_simulation and refused:
        return
    if "engine" in document.data:
        yield from claim_errors(document)
    whole = document.completed().data
    document = replace(document, data={key: value for key, value in whole.items() if key not in refused})
    yield from absence_errors(document, refused)
    for check, section, *needed in _CHECKS:
        if all(key in document.data or (key in (*OPTIONAL, "options") and key not in refused) for key in needed):
            for claim in document.claims(section):
                yield from check(document, claim)


def _name_errors(document: Document) -> Iterator[ContractError]:
    """Find a file that is named after another engine, by which commands would not find it."""
    engine, name = document.data.get("engine"), Path(document.file)
    if isinstance(engine, str) and name.suffix == ".yaml" and name.stem != engine:
        message = f"the file is called {name.name}, but its engine is {engine}"
        yield document.error(("engine",), message, f"rename it to {engine}.yaml, or correct `engine`")
