"""Runs every case on a release, and saves its turns and pages as recordings.

Text that differs from run to run is replaced with stable placeholders, equal text with the same one.
"""

import os
import re
import shutil
import threading
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from turngate import ContractError, Ended, EngineContract, MachineError, UsageError
from turngate.argv.file_slot import SLOT
from turngate.contract.clauses import Reason
from turngate.contract.session_ids import numbered_like
from turngate.process.supplied_files import supplied_folder
from turngate.sanitize import redact
from turngate_probes.harness.cases import Case
from turngate_probes.harness.interrupt import Interrupt, Obstacle
from turngate_probes.harness.observations import CaseEnd, CommandOutput, Observation, Turn
from turngate_probes.harness.resource_usage import Machine, machine
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.harness.sandbox import Sandbox, claimed
from turngate_probes.record.recording import LongPrompt, RecordedPage, Recording
from turngate_probes.record.requests import (
    MAX_SHORT,
    MAX_TEXTS,
    REQUESTS,
    RecordedRequest,
    approval_signs,
    own_texts,
    shortened,
    tool_name,
)
from turngate_probes.releases.source import Release
from turngate_probes.stub_model import Exchange

UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_DAY = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_RUN = re.compile("#+")
Files = dict[str, bytes]


class _Rule(Struct, frozen=True):
    """A description of volatile text; a pattern with an optional group `value`; the placeholder (# is a number)."""

    what: str
    pattern: str
    placeholder: str


_EVERYWHERE = (
    _Rule("UUIDs", UUID, "00000000-0000-7000-8000-############"),
    _Rule("nonces", "tgn-[0-9a-f]{16}", "tgn-################"),
    _Rule("ids of tool calls", "call_[0-9a-f]{24}", "call_########################"),
    _Rule("times", r"(?<!\d)20\d\d-\d\d-\d\d[T ]\d\d[:-]\d\d[:-]\d\d[.,-]\d+(?=Z)", "2000-01-01T00:00:00.000"),
    _Rule("times", r"(?<!\d)20\d\d-\d\d-\d\d[T ]\d\d[:-]\d\d(?:[:-]\d\d(?:[.,]\d+)?)?", "2000-01-01T00:00:00"),
    _Rule("times", r"(?<!\d)20\d\d-\d\d-\d\d(?!\d)", "2000-01-01"),
    _Rule("times", r"(?<![\d.])1[6-9]\d{11}(?![\d.])", "1000000000000"),
    _Rule("times", r"(?<![\d.])1[6-9]\d{8}(?!\d)", "1000000000"),
    _Rule("times", rf"(?:{_DAY}, )?(?:{_MONTH}) \d{{1,2}}, 20\d\d", "Saturday, January 1, 2000"),
    _Rule(
        "times", r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [A-Z][a-z]{2} \d\d 20\d\d(?: \d\d:\d\d:\d\d)?", "Sat Jan 01 2000"
    ),
    _Rule("ports", r"(?<=127\.0\.0\.1:)\d+", "1"),
    _Rule("versions of Node", r"(?<=Node\.js v)\d+\.\d+\.\d+", "0.0.0"),
)


def fixed_ids(text: str) -> set[str]:
    """Return the ids in turngate's own texts, which are the same in every run."""
    return set(re.findall(UUID, text))


class Replacer:
    """Replaces volatile text through one case; the texts of the case must come in the same order each time.

    Session ids count up from a number that is unique to the case, so that those of two cases differ. Those that the
    contract calls unique only in their home stay: they are the same in every run, and equal in several cases. `places`
    maps strings of this machine (paths, addresses) to their placeholders; `kept` are ids that are the same in every
    run and stay. Replacing text a second time changes nothing.
    """

    def __init__(
        self, contract: EngineContract, case: str, places: Mapping[str, str], kept: Iterable[str] = ()
    ) -> None:
        """Start without replacements; ContractError if the contract's nonexistent id can't hold a number."""
        dead = contract.handle.nonexistent_id
        largest = numbered_like(dead, 9_000_000)
        if largest is None:
            raise ContractError(f"the nonexistent id {dead!r} of {contract.engine} has no room for a number")
        self._dead = dead
        self._known = {text: text for text in (dead, *kept)} | dict(places)
        known = "|".join(re.escape(text) for text in sorted(self._known, key=len, reverse=True) if text)
        self._rules = (
            _Rule("paths and addresses", known, ""),
            *(_Rule("what the contract calls volatile", text.pattern, text.placeholder) for text in contract.volatile),
            *(() if _repeat(contract) else (_Rule("session ids", contract.handle.shape, ""),)),
            *_EVERYWHERE,
        )
        parts = (f"(?P<r{i}>{rule.pattern.replace('(?P<value>', f'(?P<v{i}>')})" for i, rule in enumerate(self._rules))
        self._pattern = re.compile("|".join(parts))
        self._groups = self._pattern.groupindex
        self._given: dict[tuple[str, str], str] = {}
        # six zeros have no room for seven digits, and no case has a hundred sessions
        self._counts = Counter({dead: first_number(case) // (10 if len(largest) > len(dead) else 1)})
        self._used = set[str]()

    @property
    def used(self) -> list[str]:
        """Descriptions of the replacements so far."""
        return sorted(self._used)

    def __call__(self, text: str) -> str:
        """Replace volatile text, and remove text that looks like a secret or a registry."""
        return redact(self._pattern.sub(self._replaced, text))

    def bytes(self, data: bytes) -> bytes:
        """Replace volatile text in a stream of any bytes."""
        return self(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _replaced(self, match: re.Match[str]) -> str:
        whole = match.group()
        index = next(i for i in range(len(self._rules)) if match[f"r{i}"] is not None)
        rule, inner = self._rules[index], f"v{index}"
        if index == 0:
            given = self._known[whole]
            if given != whole:
                self._used.add(rule.what)
            return given
        self._used.add(rule.what)
        if inner not in self._groups or match[inner] is None:
            return self._placeholder(rule, whole)
        start, end = (place - match.start() for place in match.span(inner))
        return whole[:start] + self._placeholder(rule, match[inner]) + whole[end:]

    def _placeholder(self, rule: _Rule, value: str) -> str:
        """Return the placeholder of a value, numbered among those of its form."""
        form = rule.placeholder or self._dead
        if rule.placeholder and "#" not in rule.placeholder:
            return rule.placeholder
        if (form, value) not in self._given:
            self._counts[form] += 1
            number = self._counts[form]
            self._given[form, value] = (
                _RUN.sub(lambda run: f"{number:0{len(run.group())}d}", form)
                if rule.placeholder
                else numbered_like(form, number) or form
            )
        return self._given[form, value]


def _repeat(contract: EngineContract) -> bool:
    """Whether the session ids of one home occur in others, too."""
    return any(deviation.clause == "handle.unique" for deviation in contract.deviations)


def first_number(case: str) -> int:
    """Return the number from which the session ids of a case count."""
    return zlib.crc32(case.encode()) % 9000 * 1000


class _Case(Struct, frozen=True):
    """What the turns of one case share: the replacement of volatile text, the sent prompts, and the contract.

    A separate replacer measures bodies, so that text that occurs only in them takes no number.
    """

    replacer: Replacer
    measure: Replacer
    prompts: frozenset[str]
    contract: EngineContract


def rendered(
    contract: EngineContract, case: str, observed: Iterable[Turn | CommandOutput], places: Mapping[str, str]
) -> Iterator[tuple[str, Files]]:
    """Return the folder name and the files of each turn and page of one case, without the provenance."""
    observed = tuple(observed)
    turns = [item for item in observed if isinstance(item, Turn)]
    kept = {fixed for turn in turns for fixed in fixed_ids(turn.scripted)}
    replacer, measure = (Replacer(contract, case, places, kept) for _ in range(2))
    shared = _Case(replacer, measure, frozenset(turn.prompt for turn in turns), contract)
    for item in observed:
        files = _files(item, shared) if isinstance(item, Turn) else _page_files(item, replacer)
        yield item.name.replace("/", "-"), files


def to_yaml(data: Mapping[str, Any]) -> bytes:
    """Write YAML in the given order of keys."""
    return yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=120).encode()


def _files(turn: Turn, case: _Case) -> Files:
    # the order of replacement determines the numbers of placeholders
    replacer = case.replacer
    recording = _recording(turn, replacer)
    streams = {"stdout": replacer.bytes(turn.stdout), "stderr": replacer.bytes(turn.stderr)}
    requests = None if turn.requests is None else _requests(turn.requests, case)
    leftovers = tuple(tuple(replacer(token) for token in left.argv) for left in turn.leftovers)
    recording = replace(recording, leftovers=leftovers, replaced=tuple(replacer.used))
    files = {"recording.yaml": to_yaml(msgspec.to_builtins(recording)), **streams}
    if requests is not None:
        files[REQUESTS] = msgspec.json.Encoder().encode_lines(requests)
    return files


def _page_files(page: CommandOutput, replacer: Replacer) -> Files:
    argv = tuple(replacer(token) for token in page.argv)
    streams = {"stdout": replacer.bytes(page.stdout), "stderr": replacer.bytes(page.stderr)}
    recorded = RecordedPage(
        page=page.name, argv=argv, exit_code=page.exit_code, ended=page.ended, replaced=tuple(replacer.used)
    )
    return {"recording.yaml": to_yaml(msgspec.to_builtins(recorded)), **streams}


def _recording(turn: Turn, replacer: Replacer) -> Recording:
    """Describe a turn, without its leftovers."""
    own = [replacer(token) for token in turn.own_arguments]
    prompt_at = []
    for i, token in enumerate(turn.argv[1:]):
        if own and replacer(token) == own[0]:
            own.pop(0)
        else:
            prompt_at.append(i)
    return Recording(
        turn=turn.name,
        argv=tuple(replacer(token) for token in turn.argv),
        prompt_at=tuple(prompt_at),
        stdin=turn.stdin,
        mode=turn.mode,
        cwd=replacer(turn.cwd),
        env=turn.env,
        turn_index=turn.turn_index,
        resumed=turn.resumed and replacer(turn.resumed),
        prompt=_prompt(turn.prompt, replacer),
        nonce=replacer(turn.nonce),
        answer=replacer(turn.scripted),
        signal=turn.signal,
        exit_code=turn.exit_code,
        ended=turn.ended,
        leftovers=(),
        replaced=(),
    )


def _prompt(prompt: str, replacer: Replacer) -> str | LongPrompt:
    short = shortened(prompt)
    if isinstance(short, str):
        return replacer(short)
    # in this order, which determines the numbers of placeholders
    before, repeated, after = (replacer(text) for text in (short.before, short.repeated, short.after))
    return LongPrompt(before, repeated, short.characters, after)


def _requests(exchanges: Iterable[Exchange], case: _Case) -> list[RecordedRequest]:
    """Describe the requests, the agent's main ones first; those that differ only in size are listed once."""
    kept: dict[RecordedRequest, RecordedRequest] = {}
    for exchange in sorted(exchanges, key=lambda sent: (not sent.tools, sent.method, sent.protocol or "")):
        request = _request(exchange, case)
        first = kept.get(request)
        size = len(case.measure.bytes(exchange.body)) if first is None else first.size
        kept[request] = replace(request, size=size, repeated=first is not None)
    return list(kept.values())


def _request(exchange: Exchange, case: _Case) -> RecordedRequest:
    replacer = case.replacer
    return RecordedRequest(
        method=exchange.method,
        path=replacer(exchange.path)[:MAX_SHORT],
        protocol=exchange.protocol,
        model=exchange.model and exchange.model[:MAX_SHORT],
        nonces=tuple(map(replacer, exchange.nonces)),
        tools=tuple(map(tool_name, exchange.tools)),
        user_texts=tuple(map(replacer, [*own_texts(exchange.user_texts, case.prompts)][-MAX_TEXTS:])),
        reply=exchange.reply,
        signs=approval_signs(exchange.body.decode("utf-8", "replace"), case.contract),
    )


class RecordingSummary(Struct, frozen=True):
    """The number of recorded turns and pages, the cases that ended early, and the folder.

    `early` maps the name of a case to the reason. `repeated` are the cases that were recorded again, because a turn
    had reached its deadline.
    """

    written: int
    early: dict[str, str]
    folder: Path
    repeated: tuple[str, ...] = ()


class _Recorder(Struct):
    """Collects observations, and writes each case when it has ended."""

    release: Release
    into: Path
    note: str = ""
    observed: dict[str, list[Turn | CommandOutput]] = field(default_factory=lambda: defaultdict(list))
    early: dict[str, str] = field(default_factory=dict)
    written: int = 0
    unfit: Obstacle | None = None
    _places: dict[str, dict[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _machine: Machine = field(default_factory=machine)

    def saw(self, item: Observation, box: Sandbox) -> None:
        with self._lock:
            # a page without a command was read from the engine's files, and not printed
            if isinstance(item, Turn) or (isinstance(item, CommandOutput) and item.argv):
                self.observed[item.case].append(item)
                self._places[item.case] = places(self.release, box)

    def ended(self, end: CaseEnd) -> None:
        with self._lock:
            if end.why_early is not None:
                self.early[end.case] = end.why_early.text
                self.unfit = end.why_early if end.why_early.reason is Reason.WRAPPER else self.unfit
            observed, known = self.observed[end.case], self._places.get(end.case, {})
        for item, (name, files) in zip(
            observed, rendered(self.release.contract, end.case, observed, known), strict=True
        ):
            folder = self.into / name
            folder.mkdir(parents=True)
            for file, content in (files | {"provenance.yaml": to_yaml(self._provenance(item))}).items():
                (folder / file).write_bytes(content)
        with self._lock:
            self.written += len(observed)

    def late(self, case: Case) -> bool:
        """Whether a turn reached its deadline that only a busy machine or an engine that hangs lets it reach."""
        turns = [item for item in self.observed[case.name] if isinstance(item, Turn) and item.stdin != "open"]
        return not case.backend_away and any(turn.ended is Ended.TIMEOUT for turn in turns)

    def forget(self, case: Case) -> None:
        """Remove what was recorded of a case."""
        self.written -= len(self.observed.pop(case.name, ()))
        self.early.pop(case.name, None)
        for folder in self.into.glob(f"{case.name}-*"):
            shutil.rmtree(folder)

    def _provenance(self, item: Turn | CommandOutput) -> dict[str, Any]:
        at, timed = time.time(), dict[str, float]()
        if isinstance(item, Turn):  # its duration, and how long its engine ran after it
            at, timed = item.finished_at, {"seconds": round(item.seconds, 3)}
            timed |= {} if item.exit_seconds is None else {"exit_seconds": round(item.exit_seconds, 3)}
        return {
            "release": f"{self.release.engine} {self.release.version}",
            "how": "the real release in a sandbox, against the stub model backend",
            **({"note": self.note} if self.note else {}),
            "recorded": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)),
            **timed,
            "cpu_seconds": round(item.cpu_seconds, 3),
            "machine": to_builtins(self._machine),
            "contract_version": self.release.contract.contract_version,
            "turngate": metadata.version("turngate"),
        }


def record(
    release: Release, cases: Sequence[Case], runner: CaseRunner, fixtures: Path, interrupt: Interrupt, note: str = ""
) -> RecordingSummary:
    """Record a release into `fixtures/<engine>/<version>`, and replace existing recordings of these cases.

    Those of an output mode other than the default one are in a folder there with its name.

    `note` is saved in the provenance of each recording.
    Cases with a turn that reached its deadline are recorded again, one after the other.
    Nothing there is touched before all cases have ended. Raises TurngateError if the release has no
    executable or no version, if the recording was interrupted, if the machine is too busy, or if no turn could be run.
    """
    if release.executable is None:
        raise UsageError(f"{release.name} can't be recorded", "choose a release that has an executable")
    if release.version is None:
        hint = "check its contract: `turngate probe` with `--clause version.readable` shows what it prints"
        raise UsageError(f"{release.name} can't be recorded without a version ({release.note})", hint)
    folder = fixtures / release.engine / release.version / (release.output or "")
    with claimed(runner.sandboxes, "recording-") as unfinished:
        recorder = _Recorder(release, unfinished, note)
        runner.play(release.contract, release.executable, cases, recorder)
        late = [case for case in cases if recorder.late(case)]
        for case in late:
            recorder.forget(case)
            runner.play(release.contract, release.executable, [case], recorder)
        if interrupt.is_set():
            raise MachineError("the recording was interrupted", "nothing was changed; run it again")
        if busy() and (again := ", ".join(case.name for case in late if recorder.late(case))):
            what = f"turns of {again} reached their deadline twice, and the machine is busy"
            raise MachineError(what, "nothing was changed; run it again when the machine is idle")
        if recorder.unfit:
            raise UsageError(recorder.unfit.text, recorder.unfit.hint)
        if recorder.early and not recorder.written:
            what = f"no turn of {release.name} could be recorded: {next(iter(recorder.early.values()))}"
            raise MachineError(what, "earlier recordings stay; remove the cause, then run it again")
        put_in_place(folder, unfinished, [case.name for case in cases])
    return RecordingSummary(recorder.written, recorder.early, folder, tuple(case.name for case in late))


def busy() -> bool:
    """Whether more processes want to run than there are cores; a single engine alone does not reach that."""
    return os.getloadavg()[0] > (os.cpu_count() or 1)


def places(release: Release, box: Sandbox) -> dict[str, str]:
    """Return the placeholders in recordings for paths and addresses of this machine."""
    executable = release.executable or Path()
    modules = [path.parent for path in executable.parents if path.name == "node_modules"]
    installed = {str(modules[-1]): "<installed>"} if modules else {str(executable.parent): "<installed>"}
    known = {**installed, str(executable): release.contract.executable, f"{Path.home()}/": "<home>/"}
    known |= {str(executable.resolve()): release.contract.executable}
    if files := release.contract.guards.files:
        known[str(supplied_folder(files))] = SLOT
    for url in (box.backend.url, box.model_url):
        known[url.removeprefix("http://")] = "127.0.0.1:1"
    return known | {str(box.root): "<sandbox>", str(box.shared): "<shared>"}


def put_in_place(folder: Path, new: Path, cases: Sequence[str]) -> None:
    """Move the turns in `new` to the recordings in `folder`, and replace those of these cases."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name.startswith(tuple(f"{case}-" for case in cases)):
            shutil.rmtree(old)
    for turn in new.iterdir():
        shutil.move(turn, folder / turn.name)
