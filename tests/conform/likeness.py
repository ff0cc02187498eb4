"""Drivers on a simulated and on a real engine: what they have in common, and where they differ.

A driver plays a scenario without a fault on both. Compared are, for each call, what kind it is, its exit code, how its
session id relates to those of the calls before it, the kinds of its records, what the model said in it, whether its
session is stored, and whether it prints on stderr; and of the whole run how the driver ended, what the model was asked,
and how many sessions are stored. A difference that is known has its reason in likeness.yaml.
"""

import argparse
import json
import re
import resource
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from tests.conform.orchestrators import catalogue
from tests.conform.real import ORCHESTRATORS
from tests.probes import engines
from turngate import EngineContract, Stop, read_turn
from turngate.contract import load
from turngate.contract.launch import SessionStore
from turngate.decoding import convert, decode
from turngate.files import write_atomically
from turngate.process.session_store import session_exists, session_place
from turngate_probes.conform.calls import AskedModel, EngineCall, requests
from turngate_probes.conform.catalogue import scenarios
from turngate_probes.conform.judge import Evidence, Ran
from turngate_probes.conform.passthrough import as_lines
from turngate_probes.conform.plan import Conversation
from turngate_probes.conform.run import play
from turngate_probes.conform.scenario_model import LOST, QUESTION
from turngate_probes.simulate.arguments import in_chosen_output

REASONS = Path(__file__).with_name("likeness.yaml")
DOCS = Path(__file__).parents[2] / "docs"
PAGE, KEPT = DOCS / "simulated-and-real.md", DOCS / "simulated-and-real.json"
ENGINES = ("codex", "claude", "gemini", "opencode")
# each scenario without a fault; the second ones concern the text alone, which only the drivers that change it show
SCENARIOS = ("two-turns", "three-turns", "two-conversations", "prompt-with-dash", "reply-is-a-flag")
OF_TEXT = ("prompt-with-newlines", "prompt-with-emoji", "prompt-200-kb", "workspace-with-spaces")
AT_ONCE = 2
PATIENCE = 120.0  # seconds; no fault is played, so only a slow machine needs them
HEAD = """# Simulated and real engines

This page shows where a [simulated engine](simulated-engines.md) behaves differently from the real one, so that you know
what your tests can't show. turngate's tests play every scenario without a fault on both engines, with right and wrong
orchestrators. These scenarios are about the user's text and directory alone:
{of_text}.
They are played by the right orchestrators and by the wrong ones that fail there. Of the right orchestrators that keep a
process, only one for each protocol plays them.

The tests compare the following:

- **For each orchestrator**, how it ended, what it printed, which requests the model got, and how many sessions are
  stored.
- **For each request**, the model, if the orchestrator asked for one, and which of the user's texts are in it, in order.
  The tests ignore an engine's own instructions and tools, which a simulation doesn't have, and requests beside the
  turn, such as one for a title.
- **For each call**, its exit code, its session ids, the kinds of its records, what the model said, whether its sessions
  are stored, and whether it prints on stderr. A process for several turns counts as one call, and the kinds of its
  messages are compared in any order.
- **For `opencode serve`**, only the requests, the stored sessions and the result, because nothing records what an
  engine sends over HTTP.

If a difference has no reason in the second table, a nightly test fails.

| engine | scenario | measured | CPU time in minutes | alike | different |
|---|---|---|---|---|---|"""
DIFFERENCES = """
| engine | orchestrators | what differs | why |
|---|---|---|---|"""
UNSEEN = "nothing in these runs, by chance"
_NAMES = {
    "ended": "its exit code",
    "printed": "what it prints",
    "requests": "the requests to the model",
    "sessions": "the number of stored sessions",
    "calls": "the number of calls",
    "kind": "the kind of call",
    "exit_code": "the exit code of a call",
    "session": "the session id",
    "records": "the kinds of records",
    "said": "what the model said",
    "stored": "whether the session is stored",
    "complains": "whether it prints on stderr",
}
_KINDS = ("method", "type", "subtype", "sessionUpdate")  # of a record or message, and of what it is about
_ABOUT = ("params", "update", "item", "event", "part")
_ANSWERS = ("error", "result")
_IDS = ("session_id", "sessionId", "threadId")  # of a session in a message
_PARTS = ("params", "result")  # of a message, which may have them
_TURNS = ("prompt", "reply", "second reply")
_ANY = "\N{REPLACEMENT CHARACTER}"  # in place of a session id
_PART = 3  # letters; less of a text than that may be there by chance
_RUN = {"node": "node", "posix-shell": "sh"}


class Driver(Struct, frozen=True):
    """An orchestrator of the suite: the arguments that run it, and the engines that it drives.

    fails_in: The scenarios that a wrong one fails, if those are known; None: it is right.
    """

    name: str
    command: tuple[str, ...]
    engines: tuple[str, ...]
    fails_in: tuple[str, ...] | None = None

    def plays(self, scenario: str) -> bool:
        """Whether it plays a scenario, in which it may differ from the others."""
        return scenario not in OF_TEXT or self.fails_in is None or scenario in self.fails_in


class CallFacts(Struct, frozen=True):
    """What is compared of a call; `exit_code` is None if it was killed.

    `session` says of each of its ids whether it is new, or that of an earlier session, and `stored` of each whether its
    session is; `complains` that it prints on stderr.
    """

    kind: str
    exit_code: int | None
    session: tuple[str, ...]
    records: tuple[str, ...]
    said: tuple[str, ...]
    stored: tuple[str, ...]
    complains: bool


class Facts(Struct, frozen=True):
    """What is compared of a run: how each conversation ended, and what it printed; the calls, and what they left.

    requests: The model of each request, and the texts of the user in it. sessions: How many are stored.
    """

    ended: tuple[str, ...]
    printed: tuple[str, ...]
    requests: tuple[str, ...]
    sessions: int | None
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
    """What was found of an engine's release in a scenario, with which drivers, and the CPU time that this took."""

    engine: str
    release: str
    day: str
    scenario: str
    cpu_seconds: int
    drivers: tuple[str, ...]
    differences: tuple[Found, ...]

    def beside(self, rows: Iterable["Row"]) -> "Row":
        """Return this row with the other drivers of an earlier one of its release, and with its day and CPU time."""
        for kept in rows:
            if (kept.engine, kept.release, kept.scenario) == (self.engine, self.release, self.scenario):
                drivers = (*(one for one in kept.drivers if one not in self.drivers), *self.drivers)
                found = (*(one for one in kept.differences if one.driver not in self.drivers), *self.differences)
                return structs.replace(kept, drivers=drivers, differences=found)
        return self


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a difference is none of the simulation: of which engine and what it is (empty: any), and of which drivers.

    scenario: Where alone it is this one; empty: anywhere. by_chance: It does not occur each time.
    """

    engine: str
    what: str
    why: str
    real: str = ""
    drivers: tuple[str, ...] = ()
    scenario: str = ""
    by_chance: bool = False

    def covers(self, row: Row, found: Found) -> bool:
        """Whether a difference is this one."""
        there = row.engine == self.engine and self.scenario in ("", row.scenario)
        same = there and self.what in ("", found.what) and self.real in found.real
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
    listed = tuple(rows)
    lines = [HEAD.format(of_text=", ".join(f"`{name}`" for name in OF_TEXT))]
    for row in listed:
        unlike = {found.driver for found in row.differences}
        counted = f"{row.cpu_seconds / 60:.1f} | {len(row.drivers) - len(unlike)} | {len(unlike)}"
        lines.append(f"| {row.engine} {row.release} | `{row.scenario}` | {row.day} | {counted} |")
    lines.append(DIFFERENCES)
    causes: dict[tuple[str, str], list[Found]] = {(known.engine, known.why): [] for known in reasons()}
    for row in listed:
        for found in row.differences:
            causes.setdefault((row.engine, why(row, found)), []).append(found)
    for (engine, reason), explained in causes.items():
        named = (name for known in reasons() if (known.engine, known.why) == (engine, reason) for name in known.drivers)
        who = dict.fromkeys(f"`{name}`" for name in (*(found.driver for found in explained), *named))
        what = dict.fromkeys(_NAMES[found.what] for found in explained)
        lines.append(
            f"| {engine} | {', '.join(who) or 'any'} | {', '.join(what) or UNSEEN} | {reason or 'not explained'} |"
        )
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
        run = (_RUN.get(changed.of, sys.executable), str(file))
        fails_in = changed.scenarios if isinstance(changed, catalogue.Wrong) else None
        listed.append(Driver(changed.id, run, (changed.engine,), fails_in))
    for protocol, habits in catalogue.OF_PROCESS.items():
        for habit in habits:
            command = (sys.executable, *catalogue.of_process(protocol, habit))
            name = "-".join(filter(None, (protocol.replace("_", "-"), habit)))
            listed.append(Driver(name, command, (catalogue.SPOKEN_BY[protocol],), () if habit else None))
    return tuple(listed)


def _correct() -> Iterator[tuple[str, Path]]:
    yield from catalogue.CORRECT.items()
    yield "text", catalogue.TEXT


def measured(engine: str, scenario: str, folder: Path, names: Sequence[str] = ()) -> Row:
    """Run the drivers of an engine, or those of these names, on both engines."""
    contract, executable = engines.pinned_release(engine)
    folder.mkdir(parents=True, exist_ok=True)
    able = [one for one in drivers(folder) if engine in one.engines and one.plays(scenario)]
    chosen, before = [one for one in able if not names or one.name in names], _cpu_seconds()

    def found_with(driver: Driver) -> list[Found]:
        unlike = compared(driver, contract, scenario, executable, folder / scenario / driver.name)
        return [Found(driver.name, *structs.astuple(difference)) for difference in unlike]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [one for each in pool.map(found_with, chosen) for one in each]
    day, took = datetime.now(UTC).date().isoformat(), round(_cpu_seconds() - before)
    return Row(engine, contract.version or "", day, scenario, took, tuple(one.name for one in chosen), tuple(found))


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of those that have ended below it, which a run gathers."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def compared(
    driver: Driver, contract: EngineContract, scenario: str, executable: Path, folder: Path
) -> tuple[Difference, ...]:
    """Run a driver on both engines in a folder, and return the differences."""
    played, patient = [], structs.replace(scenarios()[scenario], deadline=PATIENCE)
    for name, exe in (("simulated", None), ("real", executable)):
        evidence = play(patient, contract, driver.command, folder / name, Stop(), real=exe)
        home = folder / name / ("home" if exe is None else "sandbox/home")
        asked = requests(folder / name)
        played.append(facts(evidence, asked, contract, {"HOME": str(home)}))
    return tuple(differences(*played))


def facts(
    evidence: Evidence, asked: Iterable[AskedModel], contract: EngineContract, locations: Mapping[str, str | None]
) -> Facts:
    """Return what is compared of a run. Of two conversations at once, what belongs to the first comes first."""
    talks = [ran.conversation for ran in evidence.ran]
    seen: list[str] = []
    made = evidence.calls
    if len(talks) > 1:  # otherwise they stay in order: a call may be refused before it has read whose words they are
        made = tuple(sorted(_asked_once(made), key=lambda call: _owner(talks, [call.text or ""])))
    calls = tuple(_of_call(call, talks, contract, locations, seen) for call in made)
    sent = [word for call in made for word in (*call.started.argv, call.stdin.decode("utf-8", "replace"))]
    words = "\n".join(sent)
    return Facts(
        tuple(str(ran.exit_code) for ran in evidence.ran),
        tuple(_printed(ran) for ran in evidence.ran),
        tuple(
            f"{one.model if one.model in words else 'default'}: {' + '.join(texts_in(one.user_texts, talks))}"
            for one in sorted(asked, key=lambda one: _owner(talks, one.user_texts))
        ),
        stored_sessions(contract.store, locations, talks[0].workspace) if contract.store else None,
        calls,
    )


def _asked_once(calls: Iterable[EngineCall]) -> Iterator[EngineCall]:
    """Leave out questions such as `--version` that were asked before: chance decides which conversation is first."""
    asked = set[tuple[str, ...]]()
    for call in calls:
        if call.started.kind != "query" or call.started.argv not in asked:
            yield call
            asked.add(call.started.argv)


def _printed(ran: Ran) -> str:
    return "answer" if ran.conversation.answer in ran.stdout else "other" if ran.stdout.strip() else "nothing"


def _owner(talks: Sequence[Conversation], texts: Iterable[str]) -> int:
    """Return the number of the conversation whose words are in texts, from 0; that of nobody's words is before it."""
    whole = "\n".join(texts)
    return next((at for at, talk in enumerate(talks) if any(prompt in whole for prompt in talk.prompts)), -1)


def texts_in(texts: Iterable[str], talks: Sequence[Conversation]) -> Iterator[str]:
    """Name the user's texts that are in others, whole or a part; others are the engine's own."""
    known = [
        (_named(name, at), text)
        for at, talk in enumerate(talks)
        for name, text in zip(_TURNS, talk.prompts, strict=False)
    ]
    for text in texts:
        whole = [name for name, prompt in known if prompt in text]
        part = [f"part of the {name}" for name, prompt in known if len(text) > _PART and text.strip() in prompt]
        yield from [" & ".join(whole)] if whole else part[:1]


def _named(name: str, number: int) -> str:
    return f"other {name}" if number else name


def stored_sessions(store: SessionStore, locations: Mapping[str, str | None], cwd: str) -> int:
    """Return how many sessions are in a store; one may have several files."""
    place = session_place(store, _ANY, locations, cwd)
    if store.check.kind == "glob":
        one = re.compile(re.escape(place).replace(r"\*", ".*").replace(re.escape(_ANY), "(.+)"))
        files = glob(place.replace(_ANY, "*"))  # noqa: PTH207 - the pattern is absolute
        return len({match[1] for file in files if (match := one.fullmatch(file))})
    if not Path(place).exists():
        return 0
    with closing(sqlite3.connect(place)) as database:
        counts = re.sub(r"^SELECT 1 (FROM \w+) .*", r"SELECT count(*) \1", store.check.query)
        return int(database.execute(counts).fetchone()[0])


def _of_call(
    call: EngineCall,
    talks: Sequence[Conversation],
    contract: EngineContract,
    locations: Mapping[str, str | None],
    seen: list[str],
) -> CallFacts:
    """Return what is compared of a call; `seen` gets its session ids."""
    text, code = call.stdout.decode("utf-8", "replace"), call.ended.exit_code if call.ended else None
    is_turn, is_process = (call.started.kind == kind for kind in ("turn", "process"))
    handle = call.ended.handle if call.ended else call.handle
    handles = handles_in(text) if is_process else (handle,) if handle else ()
    relations = tuple(f"session {seen.index(one) + 1}" if one in seen else "new" for one in handles)
    seen += [one for one in handles if one not in seen]
    words = ""
    if is_process:
        words = "".join(_texts(records(text)))
    elif is_turn:
        chosen = in_chosen_output(contract, call.started.argv)
        words = read_turn(chosen, "auto", as_lines(call.stdout), call.stderr.encode(), code).final_text or text
    answers = {talk.answer: _named("answer", at) for at, talk in enumerate(talks)}
    said = {words.find(known): name for known, name in ({QUESTION: "question", LOST: "lost"} | answers).items()}
    exist = [session_exists(contract.store, one, locations, call.started.cwd) for one in handles]
    return CallFacts(
        call.started.kind,
        code,
        relations,
        kinds(text) if is_turn else tuple(sorted(kinds(text))) if is_process else (),
        tuple(said[at] for at in sorted(said) if at >= 0),
        tuple(map(str, exist)),
        bool(call.stderr.strip()),
    )


def handles_in(text: str) -> tuple[str, ...]:
    """Return the ids of the sessions that the messages name, in the order in which they come first."""
    parts = [part for record in records(text) for part in (record, *map(record.get, _PARTS)) if isinstance(part, dict)]
    named = [part.get(name) for part in parts for name in _IDS]
    opened = [part["thread"].get("id") for part in parts if isinstance(part.get("thread"), dict)]
    return tuple(dict.fromkeys(one for one in (*opened, *named) if isinstance(one, str)))


def _texts(value: object) -> Iterator[str]:
    """Yield what is called a text, anywhere in messages: a stream has pieces of it."""
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from [item] if name == "text" and isinstance(item, str) else _texts(item)


def records(text: str) -> list[dict[str, Any]]:
    """Return the records or messages in an output: one list, one record, or a line each."""
    found: list[Any] = []
    with suppress(ValueError):
        whole = json.loads(text)
        found = whole if isinstance(whole, list) else [whole]
    if not found:
        for line in text.splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
    return [record for record in found if isinstance(record, dict)]


def kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of the records or messages, in the order in which they come first."""
    named = [_kind(record) for record in records(text)]
    return tuple(dict.fromkeys(named)) or (("text",) if text.strip() else ())


def _kind(record: Mapping[str, Any]) -> str:
    return " ".join(_words(record)) or next((name for name in _ANSWERS if name in record), "document")


def _words(record: Mapping[str, Any]) -> list[str]:
    about = next((record[name] for name in _ABOUT if isinstance(record.get(name), dict)), None)
    return [*(record[name] for name in _KINDS if isinstance(record.get(name), str)), *(_words(about) if about else ())]


def differences(simulated: Facts, played: Facts) -> Iterator[Difference]:
    """Yield where a real engine did something else than the simulated one."""
    for what in ("ended", "printed", "requests", "sessions"):
        yield from _unlike(0, what, getattr(simulated, what), getattr(played, what))
    yield from _unlike(0, "calls", len(simulated.calls), len(played.calls))
    for number, (one, other) in enumerate(zip(simulated.calls, played.calls, strict=False), 1):
        for field in structs.fields(CallFacts):
            yield from _unlike(number, field.name, getattr(one, field.name), getattr(other, field.name))


def _unlike(call: int, what: str, simulated: object, other: object) -> Iterator[Difference]:
    if simulated != other:
        yield Difference(call, what, _shown(simulated), _shown(other))


def _shown(value: object) -> str:
    return ", ".join(value) or "none" if isinstance(value, tuple) else str(value)


def main(argv: Sequence[str]) -> int:
    """Measure engines (none: all), whose rows replace the ones on the page; return 1 if a difference has no reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.conform.likeness", description=main.__doc__)
    parser.add_argument("engines", nargs="*", metavar="ENGINE")
    parser.add_argument("--driver", action="append", default=[], help="only this one, beside those on the page")
    parser.add_argument("--scenario", action="append", choices=(*SCENARIOS, *OF_TEXT))
    given, left = parser.parse_args(argv), False
    for engine in given.engines or ENGINES:
        for scenario in given.scenario or (*SCENARIOS, *OF_TEXT):
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
