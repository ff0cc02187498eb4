"""Writes a draft contract from what a trial saw. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from semver import Version

from turngate import ContractError
from turngate.contract import lint, load
from turngate.contract.hermetic import Hermetic
from turngate_probes.draft.arguments import KNOWN_VARIABLES, has, variables
from turngate_probes.draft.reading import Candidate, Spot, end, final_text, shape
from turngate_probes.draft.trial import FIRST, Page, Trial

SCHEMA = "turngate.engine-contract/1"
_SECRET = re.compile(r"KEY|TOKEN")
_UNSEEN = {"unverified": True}


@dataclass(frozen=True, slots=True)
class Engine:
    """The name of the engine, its executable, and where it is published, as in a contract."""

    name: str
    executable: str
    published: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Draft:
    """The text of a draft, what was seen or guessed, and what a human must fill in."""

    text: str
    version: str
    seen: tuple[str, ...]
    missing: tuple[str, ...]


class _Dumper(yaml.SafeDumper):
    """Writes no aliases, and text of several lines as a block."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Return that nothing gets an alias."""
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block)


def draft(engine: Engine, trial: Trial, hermetic: Hermetic) -> Draft:
    """Write the contract of an engine, with `unverified` where it is a guess."""
    known = set(KNOWN_VARIABLES["openai"]) | set(KNOWN_VARIABLES["anthropic"]) | set(KNOWN_VARIABLES["gemini"])
    used = variables({request.protocol or "" for request in trial.first.requests})
    env = {name: value for name, value in hermetic.env.items() if name not in known or name in used}
    sections = {
        "schema": SCHEMA,
        "contract_version": "0.1",
        "engine": engine.name,
        "title": engine.name,
        "vendor": "unknown",
        "lifecycle": {"status": "active"},
        "executable": engine.executable,
        "published": engine.published,
        **_surface(trial),
        **_launch(trial),
        **_output(trial),
        "environment": {"pass": [name for name in env if _SECRET.search(name)], "locations": [], **_UNSEEN},
        "resume_probe": {"directory": "{HOME}", **_UNSEEN},
        "hermetic": {
            "env": env,
            "files": [{"path": file.path, "content": file.content} for file in hermetic.files],
            "model": hermetic.model,
            **({"egress": list(trial.hosts)} if trial.hosts else {}),
            **_seen(trial),
        },
        "sticky": {"transport": "none", **_UNSEEN},
    }
    body = yaml.dump(sections, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True, default_flow_style=None)
    seen = tuple(_told(trial))
    header = "# A draft: check each line, above all those that are unverified.\n"
    text = header + "".join(f"# {line}\n" for line in seen) + body
    return Draft(text, _version(trial.version)[1], seen, tuple(_missing(text, engine.name)))


def _seen(trial: Trial) -> dict[str, Any]:
    """Return the evidence of what both turns showed; without a version that evidence can name, none."""
    version = _version(trial.version)[1]
    if trial.session is None or not Version.is_valid(version):
        return dict(_UNSEEN)
    return {"evidence": [{"observed": "two turns against the stub model", "releases": [version]}]}


def _version(page: Page) -> tuple[str, str]:
    """Return the pattern of a version page, and the version."""
    text = page.text.strip()
    version = re.search(r"\d+\.\d+[0-9A-Za-z.+-]*", text)
    assert version  # noqa: S101 - the page was chosen because it has one
    before, after = text[: version.start()], text[version.end() :]
    return f"{_literal(before)}(?P<version>\\S+){_literal(after)}", version[0]


def _literal(text: str) -> str:
    """Return a pattern that matches a text, and is easy to read."""
    return re.sub(r"[.^$*+?{}\[\]\\|()]", r"\\\g<0>", text)


def _surface(trial: Trial) -> dict[str, Any]:
    tokens = dict.fromkeys((*trial.arguments.start, *trial.arguments.resume, *trial.arguments.auto))
    named = [token for token in tokens if re.fullmatch(r"-{0,2}[a-z][a-z-]+", token)]
    version = {"argv": list(trial.version.argv), "pattern": _version(trial.version)[0], **_stream(trial.version)}
    pages = [
        {"argv": list(page.argv), "names": [name for name in named if has(page.text, name)], **_stream(page)}
        for page in trial.pages
    ]
    return {
        "version": {**version, "evidence": [{"clause": "version.readable"}]},
        "help": {"pages": [page for page in pages if page["names"]], "evidence": [{"clause": "help.surface"}]},
    }


def _stream(page: Page) -> dict[str, str]:
    return {} if page.stream == "stdout" else {"stream": page.stream}


def _launch(trial: Trial) -> dict[str, Any]:
    arguments = trial.arguments
    channel = {"via": "argument", "tokens": ["{text}"]}
    launch = {
        "start": list(arguments.start),
        **({"resume": list(arguments.resume)} if trial.session else {}),
        "prompt": [channel],
        "auto": list(arguments.auto),
        "model": list(arguments.model),
        **_UNSEEN,
    }
    model = [{"flag": flag, "value": "required", **_UNSEEN} for flag in arguments.model[:1]]
    auto = [{"flag": flag, "value": "none", **_UNSEEN} for flag in arguments.auto]
    return {
        "launch": launch,
        "options": [*model, *auto],
        **({"auto_flags": [{"flag": flag, **_UNSEEN} for flag in arguments.auto]} if auto else {}),
    }


def _output(trial: Trial) -> dict[str, Any]:
    turns = [turn.output for turn in (trial.first, trial.second) if turn]
    first, seen = turns[0], _seen(trial)
    noise = sorted({_literal(line) for output in turns for line in output.noise})
    stdout = {"framing": first.framing, **({"noise": noise} if noise else {})}
    sections: dict[str, Any] = {"streams": {"stdout": stdout, "stderr": {"framing": "text"}, **seen}}
    if not first.records:
        return {**sections, "final": {"stream": "stdout", **seen}}
    names = list(dict.fromkeys(kind for output in turns for kind in output.kinds))
    kind = {"field": first.kind} if first.kind else {}
    sections["events"] = {"stream": "stdout", **kind, "names": names, **_UNSEEN}
    if session := trial.session or next(iter(trial.tried), None):
        sections["handle"] = _handle(session, seen if trial.session else _UNSEEN)
    for name, spot in (("end", end(first)), ("final", final_text(first, FIRST))):
        if spot:
            sections[name] = {"stream": "stdout", **_place(spot), **seen}
    return sections


def _handle(session: Candidate, seen: Mapping[str, Any]) -> dict[str, Any]:
    pattern, nonexistent = shape(session.value)
    match = {"match": dict(session.match)} if session.match else {}
    return {
        "handle_type": "session_id",
        "stream": "stdout",
        "record": session.record,
        **match,
        "field": session.path,
        "shape": pattern,
        "nonexistent_id": nonexistent,
        **seen,
    }


def _place(spot: Spot) -> dict[str, Any]:
    return {**({"match": dict(spot.match)} if spot.match else {}), **({"field": spot.path} if spot.path else {})}


def _told(trial: Trial) -> Iterator[str]:
    """Return what was seen, for the head of the draft and the terminal."""
    protocols = sorted({str(request.protocol) for request in trial.first.requests})
    yield f"version {_version(trial.version)[1]}, from {' '.join(trial.version.argv)} on {trial.version.stream}"
    yield f"model: {len(trial.first.requests)} requests in the first turn, {', '.join(protocols)}"
    if trial.session:
        yield f"session id: {trial.session.path} ({trial.session.record}), with which the second turn continued"
    elif not trial.arguments.resume:
        yield "session id: no turn was resumed, since the help names no option for it: pass --resume-args"
    else:
        yield "session id: no value that was tried continues the first turn: check --resume-args"
    if others := [f"{other.path} ({other.record})" for other in trial.tried if other != trial.session]:
        yield f"other candidates for the session id: {', '.join(others)}"
    yield f"event kinds: {', '.join(trial.first.output.kinds) or 'none, standard output is text'}"
    if trial.first.output.records:
        last = final_text(trial.first.output, FIRST)
        yield f"final text: {last.path if last else 'the reply is in no record as a whole'}"
        terminal = end(trial.first.output)
        yield f"terminal record: {(dict(terminal.match) or 'the only one') if terminal else 'unclear'}"
    if trial.hosts:
        yield f"refused connections to: {', '.join(trial.hosts)}"


def _missing(text: str, engine: str) -> Iterator[str]:
    """Return what `contracts check` will say about the draft, without the places."""
    try:
        problems: list[ContractError] = list(lint.problems(load.parse(text, f"{engine}.yaml")))
    except ContractError as unreadable:
        problems = [unreadable]
    for problem in problems:
        yield str(problem)
