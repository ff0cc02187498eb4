"""Writes an annotated contract from what a trial measured; all else is a gap, with how to find it out. Pure.

`gaps.yaml` says how to find out what a gap stands for.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from turngate import Ended
from turngate.contract.load import CONTRACT, GAP, Document, read
from turngate.contract.versions import dotted
from turngate.contract.versions import parse as parse_version
from turngate.sanitize import bounded, visible
from turngate.turn.records import value_at
from turngate_probes.draft import reading
from turngate_probes.draft.reading import OutputReading, Place
from turngate_probes.draft.trial import ARGUMENT, REPLY, Page, Trial, TrialTurn, subcommands

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
NO_UUID = "00000000-0000-7000-8000-000000000000"
MOST_LINES = 16
LONGEST_LINE = 240
WIDTH = 118
HEADER = (
    "A draft of a contract: what turngate measured, and the value GAP for everything that it could not measure. The "
    "comment above a section says how to find that out; `turngate contracts check` lists the gaps that are left. To "
    "measure more, repeat `turngate contracts new` with --start-args, --resume-args, --env or --file. It replaces this "
    "draft, and keeps each old one with ~, ~2 and so on after its name."
)
_HOW_TO = Path(__file__).with_name("gaps.yaml")
_VERSION = re.compile(r"(?<![\d.])\d+\.\d+[0-9A-Za-z.+-]*")
_SANDBOX = re.compile(r"\{(url|home|work|tmp|shared)\}")
_WORD = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*|[a-z][a-z-]+")


class Engine(Struct, frozen=True):
    """The engine's name, executable and packages, its release if a registry named it, and the user's variables."""

    name: str
    executable: str
    published: Mapping[str, Any]
    release: str | None = None
    variables: Sequence[str] = ()


class _Dumper(yaml.SafeDumper):
    """Writes no aliases, and text of several lines as a block."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Return that nothing gets an alias."""
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block)


def draft(engine: Engine, trial: Trial) -> str:
    """Write the draft of an engine's contract."""
    writing = _Draft(engine, trial)
    head = {
        "schema": CONTRACT,
        "contract_version": "0.1",
        "engine": engine.name,
        "title": engine.name,
        "vendor": GAP,
        "lifecycle": {"status": "active"},
        "executable": engine.executable,
        "published": engine.published,
    }
    sections = [*head.items(), *writing.sections()]
    return "\n".join((_prose(HEADER), *(writing.written(name, value) for name, value in sections)))


def reported(trial: Trial) -> Iterator[str]:
    """Return what a trial showed, a line each."""
    if trial.version:
        yield f"version: {trial.version.text.strip()}, from {' '.join(trial.version.argv)} on {trial.version.stream}"
    for turn in (*trial.turns, *trial.resumes):
        yield f"{f'resume of {turn.session}' if turn.session else 'first turn'}, {_way(turn)}: {_came_of(turn)}"
        if not turn.went_well and not turn.is_dashed:
            yield from (bounded(line, LONGEST_LINE) for line in _printed(turn)[-1:])
    if trial.resume and not trial.resumes:
        yield f"resume: {_untried(trial)}"
    if trial.resumes:
        yield f"session id: {trial.session or 'no value that was tried continues the first turn'}"
    if trial.hosts:
        yield f"refused connections: {', '.join(trial.hosts)}"


def _untried(trial: Trial) -> str:
    """Return why no resume was tried, although its arguments were given."""
    return "not tried, since " + (
        "the first turn printed no value that may be its session id" if trial.good else "no first turn worked"
    )


def _way(turn: TrialTurn) -> str:
    tokens = " ".join(turn.channel.tokens).replace("{text}", "PROMPT")
    way = f"{turn.channel.via} {tokens}".strip() if turn.channel != ARGUMENT else "argument"
    return f"prompt by {way}" + (", beginning with a dash" if turn.is_dashed else "")


def _came_of(turn: TrialTurn) -> str:
    """Return whether a turn's prompt reached the model, and how the turn ended."""
    others = dict.fromkeys(f"{request.method} {request.path}" for request in turn.requests)
    if not turn.asked:
        reached = "it asked the model for no answer" + (f", only {', '.join(others)}" if others else "")
    elif not any(turn.nonce in request.nonces for request in turn.requests):
        reached = "it asked the model for an answer, but without the prompt"
    else:
        reached = f"the prompt reached the model{'' if turn.arrived else ' with changes'}"
    return f"{reached}; " + (
        f"exit code {turn.outcome.exit_code}" if turn.outcome.ended is Ended.EXIT else "it did not exit, and was ended"
    )


class _Draft(Struct, frozen=True):
    """Turns a trial into sections. `remarks` are paths in `gaps.yaml` of what is to be said although it is no gap.

    `notes` are lines about a gap or a remark, by its path.
    """

    engine: Engine
    trial: Trial
    remarks: list[str] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def sections(self) -> Iterator[tuple[str, Any]]:
        """Return the sections that depend on the trial."""
        yield "version", self._version()
        yield "help", self._help()
        yield "launch", self._launch()
        yield "options", GAP
        yield "auto_flags", GAP
        if self._outputs():
            yield from self._output()
        else:
            yield from ((name, GAP) for name in ("streams", "events", "handle", "end", "final"))
        yield from self._surroundings()

    def written(self, name: str, value: Any) -> str:
        """Return a section as YAML, below a comment on its gaps."""
        paths = map(dotted, Document("", {name: value}, {}, {}).gaps())
        gaps = [re.sub(r"\[[0-9]+\]", "", path.removeprefix("$.")) for path in paths]
        lines = [_prose(f"{path}: {_how_to()[path]['how']}", *self._hints(path)) for path in gaps]
        remarks = [path for path in self.remarks if path.partition(".")[0] == name]
        lines += [_prose(_how_to()[path]["how"], *self.notes.get(path, ())) for path in remarks]
        style: Any = False if isinstance(value, str) else None  # None: only what holds no collection is on one line
        more = {"sort_keys": False, "width": WIDTH, "allow_unicode": True, "default_flow_style": style}
        body = yaml.dump({name: value}, Dumper=_Dumper, **more)
        return "\n".join((*lines, body)) if lines else body

    def _hints(self, path: str) -> Iterator[str]:
        """Return what is known about a gap: the lines of the help that may say it, and what was seen."""
        if words := _how_to()[path].get("look_for"):
            lines = (line for page in self.trial.pages for line in page.text.splitlines() if re.search(words, line))
            helped = _quoted(lines)
            yield from ("Its help says:", *helped) if helped else ("Its help says nothing about it.",)
        yield from self.notes.get(path, ())

    def _observed(self, what: str) -> dict[str, Any]:
        """Return the evidence for a claim; without a release that evidence can name, none."""
        release = self.engine.release or self._release()
        return {"evidence": [{"observed": what, "releases": [release]}]} if release else {"unverified": True}

    def _release(self) -> str | None:
        """Return the only version in the output of the version's command."""
        found: list[str] = _VERSION.findall(self.trial.version.text) if self.trial.version else []
        try:
            (release,) = found
            parse_version(release)
        except ValueError:
            return None
        return release

    def _version(self) -> dict[str, Any]:
        page = self.trial.version
        if page is None:
            return {"argv": GAP, "pattern": GAP, "unverified": True}
        pattern = self._pattern(page.text.strip())
        if pattern == GAP:
            self.notes["version.pattern"] = ["It printed:", *_quoted([page.text])]
        basis = {"unverified": True} if pattern == GAP else {"evidence": [{"clause": "version.readable"}]}
        return {"argv": list(page.argv), "pattern": pattern, **_stream(page), **basis}

    def _pattern(self, text: str) -> str:
        """Return a pattern for the output of the version, unless there is more in it that may change."""
        release = self._release()
        if release is None or self.engine.release not in (None, release) or "\n" in text:
            return GAP
        around = text.split(release)
        return GAP if re.search(r"\d", "".join(around)) else r"(?P<version>\S+)".join(map(_literal, around))

    def _help(self) -> dict[str, Any]:
        pages_of = {page.argv[:-1]: page for page in self.trial.pages}
        named = {page.argv: dict[str, None]() for page in self.trial.pages}
        for template in (self.trial.start, self.trial.resume):
            path = subcommands(template)
            places = [path[:depth] for depth in range(len(path), -1, -1)]
            options = [(word.partition("=")[0], places) for word in template if word.startswith("-")]
            # the page of the innermost subcommand says what its options are; the pages above may only mention them
            for word, where in [(word, [path[:depth]]) for depth, word in enumerate(path)] + options:
                known = (pages_of[place] for place in where if place in pages_of)
                if _WORD.fullmatch(word) and (page := next((page for page in known if _has(page.text, word)), None)):
                    named[page.argv][word] = None
        found = [(page, [*named[page.argv]]) for page in self.trial.pages]
        useful = [(page, names) for page, names in found if names] or found[:1]
        pages = [{"argv": list(page.argv), "names": names or GAP, **_stream(page)} for page, names in useful]
        if any(names for _, names in useful):
            self.remarks.append("help")
            return {"pages": pages, "evidence": [{"clause": "help.surface"}]}
        return {"pages": pages or GAP, "unverified": True}

    def _launch(self) -> dict[str, Any]:
        trial = self.trial
        worked = [turn for turn in trial.turns if turn.went_well and trial.start]
        self.notes["launch.start"] = _tried(self.engine.executable, trial.turns)
        self.notes["launch.resume"] = _tried(self.engine.executable, trial.resumes)
        arrived = [turn for turn in worked if turn.arrived]
        dashed = [turn for turn in arrived if turn.is_dashed]
        if arrived and not dashed:
            self.remarks.append("launch.prompt.not-a-flag")
        prompt = [{"via": c.via, "tokens": list(c.tokens)} for c in dict.fromkeys(t.channel for t in dashed or arrived)]
        return {
            "start": _general(trial.start)[0] if worked else GAP,
            "resume": _general(self._resume())[0] or GAP,
            "prompt": prompt or GAP,
            "auto": GAP,
            "model": GAP,
            "unverified": True,
        }

    def _resume(self) -> tuple[str, ...]:
        """Return the arguments of a resume that were given, unless each value that may be an id failed with them."""
        return self.trial.resume if self.trial.session or not self.trial.resumes else ()

    def _outputs(self) -> list[OutputReading]:
        """Return the output of each good turn, where the arguments are known that print it."""
        return [turn.output for turn in self.trial.good] if self.trial.start else []

    def _output(self) -> Iterator[tuple[str, Any]]:
        outputs = self._outputs()
        turns = "a turn" if len(outputs) == 1 else f"{len(outputs)} turns"
        observed, unseen = self._observed(f"{turns} against the stub model"), {"unverified": True}
        framings = {output.framing for output in outputs}
        stdout: dict[str, Any] = {"framing": framings.pop() if len(framings) == 1 else GAP}
        if noise := [line for output in outputs for line in output.noise]:
            stdout["noise"] = GAP
            self.notes["streams.stdout.noise"] = ["It printed:", *_quoted(noise)]
        yield (
            "streams",
            {"stdout": stdout, "stderr": {"framing": "text"}, **(unseen if GAP in stdout.values() else observed)},
        )
        fields = reading.kind_fields(outputs)
        kind = fields[0] if len(fields) == 1 else None
        names = reading.kinds(outputs, kind) if kind else []
        keys = [] if fields else reading.kinds(outputs, None)
        self.notes["events.names"] = ["The keys of its records were:", *_quoted(keys)] if keys else []
        self.notes["events.field"] = [f"It may be one of: {', '.join(fields)}"]
        named = {"field": kind} if kind else {"field": GAP} if fields else {}
        if names:
            self.remarks.append("events.others")
        yield "events", {"stream": "stdout", **named, "names": names or GAP, **unseen}
        yield "handle", self._handle(kind)
        end, lasts = reading.end(outputs, kind), [str(output.records[-1]) for output in outputs if output.records]
        self.notes["end.match"] = ["The last records were:", *_quoted(lasts)] if lasts else []
        yield "end", {"stream": "stdout", **(_match(end) | observed if end else {"match": GAP, **unseen})}
        final = self._final(outputs, kind)
        yield "final", {"stream": "stdout", **final, **(unseen if GAP in final.values() else observed)}

    def _final(self, outputs: Sequence[OutputReading], kind: str | None) -> dict[str, Any]:
        if all(output.framing == "text" for output in outputs):
            printed = {turn.outcome.stdout.decode("utf-8", "replace").strip() for turn in self.trial.good}
            self.notes["final.match"] = ["It printed the model's answer among these lines:", *_quoted(printed)]
            return {} if printed == {REPLY} else {"match": GAP, "field": GAP}
        places = reading.text_places(outputs, REPLY, kind)
        if len(places) != 1:
            reported = ["The model's whole answer is in:", *_quoted(map(_described, places))]
            self.notes["final.match"] = reported if places else ["No value was the model's whole answer."]
            return {"match": GAP, "field": GAP}
        return {**_match(places[0]), "field": places[0].path}

    def _handle(self, kind: str | None) -> dict[str, Any]:
        trial, first = self.trial, self.trial.good[0]
        basis = {"handle_type": "session_id", "stream": "stdout"}
        ids = [trial.session] if trial.session else reading.id_values(first.output)
        found = [(value, place) for value in ids for place in reading.id_places([(first.output, value)], kind)]
        if trial.session:
            both = [(first.output, trial.session), (trial.good[-1].output, trial.session)]
            found = [(trial.session, place) for place in reading.id_places(both, kind)] or found
        repeat = ["To have each value that may be it tried, repeat the command with --resume-args."]
        untried = [] if trial.resumes else [f"A resume was {_untried(trial)}."]
        self.notes["handle.record"] = untried if trial.resume else repeat
        candidates = [f"{_described(place)}: {value}" for value, place in found]
        text = ["No value of its records looks like an id. It printed these lines:", *_quoted(_lines(first))]
        self.notes["handle.field"] = ["It may be in:", *_quoted(candidates)] if candidates else text
        if not trial.session or len(found) != 1:
            return {
                **basis,
                "record": GAP,
                "field": GAP,
                **self._shape(ids if trial.session else []),
                "unverified": True,
            }
        ((_, place),) = found
        others = [value_at(record, place.path) for turn in trial.good for record in turn.output.records]
        printed = list(dict.fromkeys([trial.session, *(value for value in others if isinstance(value, str))]))
        observed = self._observed("a resume with it sends the model the prompt of the first turn")
        where = {"record": place.record, **_match(place), "field": place.path}
        return {**basis, **where, **self._shape(printed), **observed}

    def _shape(self, ids: Sequence[str]) -> dict[str, str]:
        if ids and all(re.fullmatch(UUID, value) for value in ids):
            return {"shape": UUID, "nonexistent_id": NO_UUID}
        self.notes["handle.shape"] = ["It printed:", *_quoted(ids)] if ids else []
        return {"shape": GAP, "nonexistent_id": GAP}

    def _surroundings(self) -> Iterator[tuple[str, Any]]:
        trial, hermetic = self.trial, self.trial.hermetic
        reached = any(turn.asked for turn in trial.turns)
        known = reached and not trial.is_guess
        self.remarks.extend(("environment", "sticky"))
        names = list(self.engine.variables) or (list(hermetic.env) if known else [])
        yield "environment", {"pass": names, "locations": [], "unverified": True}
        basis = self._observed("its sessions are in files there") if trial.stored else {"unverified": True}
        yield "resume_probe", {"directory": trial.stored or "{HOME}", **basis}
        tried = [f"{name}={value}" for name, value in hermetic.env.items()]
        came_of = "no turn asked the model for an answer"
        if reached:
            came_of = "a turn asked it, but did not exit with 0, so it was not tried which of them are needed"
        self.notes["hermetic.env"] = [f"With these {came_of}:", *_quoted(tried)]
        if trial.hosts:
            self.remarks.append("hermetic.egress")
            self.notes["hermetic.egress"] = _quoted(trial.hosts)
        files = [{"path": file.path, "content": file.content} for file in hermetic.files]
        observed = self._observed("a turn with these asks the stub model") if known else {"unverified": True}
        env = dict(hermetic.env) if known else GAP
        tools = dict.fromkeys(tool for turn in trial.turns for request in turn.requests for tool in request.tools)
        offered = ["It offers the model these tools:", *_quoted(tools)] if tools else ["It offers the model no tool."]
        self.notes["hermetic.tool_call"] = offered if reached else []
        options = dict.fromkeys(_general(trial.start)[1] + _general(self._resume())[1])
        more = {"options": [word for option in options for word in option]} if options else {}
        yield "hermetic", {"env": env, "files": files, "model": hermetic.model, **more, "tool_call": GAP, **observed}
        yield "sticky", {"transport": "none", "unverified": True}


def _general(template: Sequence[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return a template without the options that name a place of the sandbox, and those, each with its value."""
    general: list[str] = []
    options: list[tuple[str, ...]] = []
    for token in template:
        if not _SANDBOX.search(token):
            general.append(token)
        elif not token.startswith("-") and general and general[-1].startswith("-"):
            options.append((general.pop(), token))
        else:
            options.append((token,))
    return general, options


@cache
def _how_to() -> dict[str, dict[str, str]]:
    data: dict[str, dict[str, str]] = read(_HOW_TO, ours=True).data
    return data


def _tried(executable: str, turns: Iterable[TrialTurn]) -> list[str]:
    """Return the command of each turn, what came of it, and of one that failed the end of what it printed."""
    lines: list[str] = []
    for turn in turns:
        command = " ".join((executable, *(token or "''" for token in turn.argv)))
        lines += _quoted([f"tried: {command}", f"  {_way(turn)}: {_came_of(turn)}"])
        lines += [] if turn.went_well else _quoted(_printed(turn))
    return lines


def _printed(turn: TrialTurn) -> list[str]:
    """Return the ends of both streams."""
    streams = (("stdout", turn.outcome.stdout), ("stderr", turn.outcome.stderr))
    return [
        f"    {name}: {line}"
        for name, data in streams
        for line in [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()][-4:]
    ]


def _described(place: Place) -> str:
    """Return a place in a few words."""
    record = {"": "a record", "every": "each record"}.get(place.record, f"the {place.record} record")
    match = ", ".join(f"{path}: {value}" for path, value in place.match)
    return f"{place.path} of {record}" + (f" with {{{match}}}" if match else "")


def _match(place: Place) -> dict[str, Any]:
    return {"match": dict(place.match)} if place.match else {}


def _stream(page: Page) -> dict[str, str]:
    return {} if page.stream == "stdout" else {"stream": page.stream}


def _has(page: str, name: str) -> bool:
    """Whether a help page has a name as a whole word."""
    return bool(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", page))


def _literal(text: str) -> str:
    """Return a pattern that matches a text, and is easy to read."""
    return re.sub(r"[.^$*+?{}\[\]\\|()]", r"\\\g<0>", text)


def _lines(turn: TrialTurn) -> list[str]:
    """Return what a turn printed on both streams, with the name of the stream."""
    streams = {"stdout": turn.outcome.stdout, "stderr": turn.outcome.stderr}
    return [
        f"{name}: {line}"
        for name, data in streams.items()
        for line in data.decode("utf-8", "replace").splitlines()
        if line
    ]


def _quoted(lines: Iterable[str]) -> list[str]:
    """Return lines of others so that they can't pass for ours, the first of many."""
    split = [part.rstrip() for line in lines for part in line.splitlines() if part.strip()]
    quoted = [f"  | {bounded(visible(line.expandtabs(4)), LONGEST_LINE)}" for line in dict.fromkeys(split)]
    return (
        quoted if len(quoted) <= MOST_LINES else [*quoted[:MOST_LINES], f"  and {len(quoted) - MOST_LINES} more lines"]
    )


def _prose(text: str, *lines: str) -> str:
    """Return a paragraph and lines as a comment."""
    return "\n".join(f"# {line}" for line in (*textwrap.wrap(text, WIDTH, break_on_hyphens=False), *lines))
