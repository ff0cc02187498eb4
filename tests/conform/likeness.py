"""Drivers on a simulated and on a real engine: what they have in common, and where they differ.

A driver plays a scenario without a fault on both. Compared are, for each call, what kind it is, its exit code, how its
session id relates to those of the calls before it, the kinds of its records, what the model said to it, which shows
what was in its request, whether its session is stored, and whether it prints on stderr; and how the driver ended. A
difference that is known has its reason in likeness.yaml.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from tests.conform.orchestrators import catalogue
from tests.conform.real import ORCHESTRATORS
from tests.probes import engines
from turngate import EngineContract, Stop, read_turn
from turngate.contract import load
from turngate.decoding import convert, decode
from turngate.files import write_atomically
from turngate.process.session_store import session_exists
from turngate_probes.conform.calls import EngineCall
from turngate_probes.conform.catalogue import scenarios
from turngate_probes.conform.judge import Evidence, Ran
from turngate_probes.conform.passthrough import as_lines
from turngate_probes.conform.run import play
from turngate_probes.conform.scenario_model import LOST, QUESTION
from turngate_probes.simulate.arguments import in_chosen_output

REASONS = Path(__file__).with_name("likeness.yaml")
DOCS = Path(__file__).parents[2] / "docs"
PAGE, KEPT = DOCS / "simulated-and-real.md", DOCS / "simulated-and-real.json"
ENGINES = ("codex", "claude", "gemini", "opencode")
SCENARIOS = ("two-turns", "three-turns")
PATIENCE = 120.0  # seconds; no fault is played, so only a slow machine needs them
HEAD = """# Simulated and real engines

See here where a [simulated engine](simulated-engines.md) behaves differently from the real one, so that you know what
your tests can't show. turngate's tests play the scenarios below without a fault on both, with right and wrong
orchestrators. They compare each call of an engine: its exit code, its session id, the kinds of its records, what the
model was asked, whether the session is stored, and whether the engine prints on stderr. A process for several turns
counts as one call, of which the tests compare the kinds of messages, except over HTTP. If a difference has no reason in
the second table, a nightly test fails.

| engine | scenario | measured | alike | different |
|---|---|---|---|---|"""
DIFFERENCES = """
| engine | orchestrators | what differs | why |
|---|---|---|---|"""
_NAMES = {
    "ended": "its exit code",
    "printed": "what it prints",
    "calls": "the number of calls",
    "kind": "the kind of call",
    "exit_code": "the exit code of a call",
    "session": "the session id",
    "records": "the kinds of records",
    "said": "what the model was asked",
    "stored": "whether the session is stored",
    "complains": "whether it prints on stderr",
}
_KINDS = ("method", "type", "subtype", "sessionUpdate")  # of a record or message, and of what it is about
_ABOUT = ("params", "update", "item", "event", "part")
_ANSWERS = ("error", "result")
_RUN = {"node": "node", "posix-shell": "sh"}


class Driver(Struct, frozen=True):
    """An orchestrator of the suite: the arguments that run it, and the engines that it drives."""

    name: str
    command: tuple[str, ...]
    engines: tuple[str, ...]


class CallFacts(Struct, frozen=True):
    """What is compared of a call; `exit_code` is None if it was killed, `stored` if nobody can say.

    `session` says whether its id is new, or that of an earlier session; `complains` that it prints on stderr.
    """

    kind: str
    exit_code: int | None
    session: str
    records: tuple[str, ...]
    said: str
    stored: bool | None
    complains: bool


class Facts(Struct, frozen=True):
    """What is compared of a run: how the driver ended, what it printed, and its calls."""

    ended: int | None
    printed: str
    calls: tuple[CallFacts, ...]


class Difference(Struct, frozen=True):
    """Where the engines differ: `call` counts from 1, 0 is the driver itself."""

    call: int
    what: str
    simulated: str
    real: str


class Found(Struct, frozen=True, forbid_unknown_fields=True):
    """A difference, and the driver whose run shows it."""

    driver: str
    call: int
    what: str
    simulated: str
    real: str


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """What was found of an engine's release in a scenario, and with which drivers."""

    engine: str
    release: str
    day: str
    scenario: str
    drivers: tuple[str, ...]
    differences: tuple[Found, ...]

    def beside(self, rows: Iterable["Row"]) -> "Row":
        """Return this row with the other drivers of an earlier one of its release, and with the earlier day."""
        for kept in rows:
            if (kept.engine, kept.release, kept.scenario) == (self.engine, self.release, self.scenario):
                drivers = (*(one for one in kept.drivers if one not in self.drivers), *self.drivers)
                found = (*(one for one in kept.differences if one.driver not in self.drivers), *self.differences)
                return Row(self.engine, self.release, min(kept.day, self.day), self.scenario, drivers, found)
        return self


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a difference is none of the simulation: of which engine and what it is (empty: any), and of which drivers.

    by_chance: It does not occur each time.
    """

    engine: str
    what: str
    why: str
    real: str = ""
    drivers: tuple[str, ...] = ()
    by_chance: bool = False

    def covers(self, row: Row, found: Found) -> bool:
        """Whether a difference is this one."""
        same = row.engine == self.engine and self.what in ("", found.what) and self.real in found.real
        return same and (not self.drivers or found.driver in self.drivers)


def why(row: Row, found: Found) -> str:
    """Return the reason of a difference; empty: it has none."""
    return next((reason.why for reason in reasons() if reason.covers(row, found)), "")


def load_rows() -> tuple[Row, ...]:
    """Read what was measured."""
    return decode(KEPT.read_bytes(), tuple[Row, ...])


def save(rows: Iterable[Row]) -> None:
    """Write what was measured, and the page; a row replaces the one of its engine and scenario."""
    by_key = {(row.engine, row.scenario): row for row in rows}
    ordered = [by_key[key] for key in sorted(by_key)]
    write_atomically(KEPT, msgspec.json.format(msgspec.json.encode(ordered), indent=1).decode() + "\n")
    PAGE.write_text(rendered(ordered), "utf-8")


def rendered(rows: Iterable[Row]) -> str:
    """Return the page as Markdown."""
    listed, lines = tuple(rows), [HEAD]
    for row in listed:
        unlike = {found.driver for found in row.differences}
        alike = len(row.drivers) - len(unlike)
        lines.append(f"| {row.engine} {row.release} | `{row.scenario}` | {row.day} | {alike} | {len(unlike)} |")
    lines.append(DIFFERENCES)
    causes: dict[tuple[str, str], list[Found]] = {}
    for row in listed:
        for found in row.differences:
            causes.setdefault((row.engine, why(row, found)), []).append(found)
    for (engine, reason), explained in causes.items():
        who = dict.fromkeys(f"`{found.driver}`" for found in explained)
        what = dict.fromkeys(_NAMES[found.what] for found in explained)
        lines.append(f"| {engine} | {', '.join(who)} | {', '.join(what)} | {reason or 'not explained'} |")
    return "\n".join(lines) + "\n"


def reasons() -> tuple[Reason, ...]:
    """Read the known differences."""
    data = load.parse(REASONS.read_text("utf-8"), REASONS.name, ours=True).data
    return convert(data, tuple[Reason, ...])


def drivers(folder: Path) -> tuple[Driver, ...]:
    """Write every driver of the suite to a folder, right or wrong."""
    listed = [Driver(name, (_RUN.get(name, sys.executable), str(file)), ("codex",)) for name, file in _correct()]
    listed.append(Driver("stream", (sys.executable, str(catalogue.STREAM)), ("claude", "gemini")))
    listed.append(Driver("opencode", (sys.executable, str(catalogue.OPENCODE)), ("opencode",)))
    listed.append(Driver("turngate-start", ORCHESTRATORS[0].command(folder), ("codex", "claude", "gemini", "opencode")))
    for changed in (*catalogue.right(), *catalogue.wrong()):
        file = folder / f"{changed.id}{changed.base.suffix}"
        file.write_text(changed.source(), "utf-8")
        listed.append(Driver(changed.id, (_RUN.get(changed.of, sys.executable), str(file)), (changed.engine,)))
    for protocol, habits in catalogue.OF_PROCESS.items():
        for habit in habits:
            command = (sys.executable, *catalogue.of_process(protocol, habit))
            name = "-".join(filter(None, (protocol.replace("_", "-"), habit)))
            listed.append(Driver(name, command, (catalogue.SPOKEN_BY[protocol],)))
    return tuple(listed)


def _correct() -> Iterator[tuple[str, Path]]:
    yield from catalogue.CORRECT.items()
    yield "text", catalogue.TEXT


def measured(engine: str, scenario: str, folder: Path, names: Sequence[str] = ()) -> Row:
    """Run the drivers of an engine, or those of these names, on both engines."""
    contract, executable = engines.pinned_release(engine)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [one for one in drivers(folder) if engine in one.engines and (not names or one.name in names)]
    found = [
        Found(driver.name, *structs.astuple(difference))
        for driver in chosen
        for difference in compared(driver, contract, scenario, executable, folder / scenario / driver.name)
    ]
    day = datetime.now(UTC).date().isoformat()
    return Row(engine, contract.version or "", day, scenario, tuple(one.name for one in chosen), tuple(found))


def compared(
    driver: Driver, contract: EngineContract, scenario: str, executable: Path, folder: Path
) -> tuple[Difference, ...]:
    """Run a driver on both engines in a folder, and return the differences."""
    played, patient = [], structs.replace(scenarios()[scenario], deadline=PATIENCE)
    for name, exe in (("simulated", None), ("real", executable)):
        evidence = play(patient, contract, driver.command, folder / name, Stop(), real=exe)
        home = folder / name / ("home" if exe is None else "sandbox/home")
        played.append(facts(evidence, contract, {"HOME": str(home)}))
    return tuple(differences(*played))


def facts(evidence: Evidence, contract: EngineContract, locations: Mapping[str, str | None]) -> Facts:
    """Return what is compared of a run."""
    ran = evidence.ran[0]
    seen: list[str] = []
    calls = tuple(_of_call(call, ran, contract, locations, seen) for call in evidence.calls)
    answer = "answer" if ran.conversation.answer in ran.stdout else "other" if ran.stdout.strip() else ""
    return Facts(ran.exit_code, answer, calls)


def _of_call(
    call: EngineCall, ran: Ran, contract: EngineContract, locations: Mapping[str, str | None], seen: list[str]
) -> CallFacts:
    """Return what is compared of a call; `seen` gets its session id."""
    handle = call.ended.handle if call.ended else call.handle
    relation = "none" if handle is None else f"session {seen.index(handle) + 1}" if handle in seen else "new"
    if handle and handle not in seen:
        seen.append(handle)
    text = call.stdout.decode("utf-8", "replace")
    code = call.ended.exit_code if call.ended else None
    chosen = in_chosen_output(contract, call.started.argv)
    reading = read_turn(chosen, "auto", as_lines(call.stdout), call.stderr.encode(), code)
    words = reading.final_text or text
    texts = {"question": QUESTION, "answer": ran.conversation.answer, "lost": LOST}
    is_turn, is_process = (call.started.kind == kind for kind in ("turn", "process"))
    said = next((name for name, known in texts.items() if is_turn and known in words), "")
    stored = session_exists(contract.store, handle, locations, call.started.cwd) if handle else None
    return CallFacts(
        call.started.kind,
        code,
        relation,
        kinds(text) if is_turn else tuple(sorted(kinds(text))) if is_process else (),
        said,
        stored,
        bool(call.stderr.strip()),
    )


def kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of the records or messages, in the order in which they come first."""
    records: list[Any] = []
    with suppress(ValueError):
        whole = json.loads(text)
        records = whole if isinstance(whole, list) else [whole]
    if not records:
        for line in text.splitlines():
            with suppress(ValueError):
                records.append(json.loads(line))
    named = [_kind(record) for record in records if isinstance(record, dict)]
    return tuple(dict.fromkeys(named)) or (("text",) if text.strip() else ())


def _kind(record: Mapping[str, Any]) -> str:
    return " ".join(_words(record)) or next((name for name in _ANSWERS if name in record), "document")


def _words(record: Mapping[str, Any]) -> list[str]:
    about = next((record[name] for name in _ABOUT if isinstance(record.get(name), dict)), None)
    return [*(record[name] for name in _KINDS if isinstance(record.get(name), str)), *(_words(about) if about else ())]


def differences(simulated: Facts, played: Facts) -> Iterator[Difference]:
    """Yield where a real engine did something else than the simulated one."""
    for what in ("ended", "printed"):
        yield from _unlike(0, what, getattr(simulated, what), getattr(played, what))
    yield from _unlike(0, "calls", len(simulated.calls), len(played.calls))
    for number, (one, other) in enumerate(zip(simulated.calls, played.calls, strict=False), 1):
        for field in structs.fields(CallFacts):
            yield from _unlike(number, field.name, getattr(one, field.name), getattr(other, field.name))


def _unlike(call: int, what: str, simulated: object, other: object) -> Iterator[Difference]:
    if simulated != other:
        yield Difference(call, what, _shown(simulated), _shown(other))


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def main(argv: Sequence[str]) -> int:
    """Measure engines (none: all), whose rows replace the ones on the page; return 1 if a difference has no reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.conform.likeness", description=main.__doc__)
    parser.add_argument("engines", nargs="*", metavar="ENGINE")
    parser.add_argument("--driver", action="append", default=[], help="only this one, beside those on the page")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS)
    given, left = parser.parse_args(argv), False
    for engine in given.engines or ENGINES:
        for scenario in given.scenario or SCENARIOS:
            with tempfile.TemporaryDirectory() as folder:
                row = measured(engine, scenario, Path(folder), given.driver)
            save((*load_rows(), row.beside(load_rows()) if given.driver else row))
            for found in row.differences:
                reason = why(row, found)
                left = left or not reason
                sys.stdout.write(f"{engine} {scenario} {found} {reason or 'NOT EXPLAINED'}\n")
            sys.stdout.write(f"{engine} {scenario}: {len(row.drivers)} drivers\n")
            sys.stdout.flush()
    return int(left)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
