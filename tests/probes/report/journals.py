"""Journal events, as a probe writes them, for tests of reports."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turngate.contract.clauses import Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import decode_hook
from turngate.decoding import convert
from turngate_probes.journal.events import Event
from turngate_probes.journal.journal import Journal

MACHINE = {
    "system": "Linux",
    "release": "6.1",
    "arch": "x86_64",
    "cores": 2,
    "memory_gb": 7.8,
    "python": "3.11.7",
    "node": None,
}
CLAUSE_SET = "2026-12"
HERMETIC = catalogue().of_set(CLAUSE_SET).at_level("static", "hermetic")
# of a verdict from recordings that answer all of them
RECORDED_SET = catalogue().set_of_recordings((clause.id, Result.PASS) for clause in HERMETIC)
PROFILE = {"kind": "resumable", "reason": "resumed by handle", "session_timeout_sec": 1200}
CAPABILITY = {"supported": True, "probe_method": "command", "detail": "resumed by handle"}
HANDLE = {"engine": "codex", "handle_type": "session_id", "handle_value": "0199-aa", "created_at_turn": 1}
REQUEST = {
    "method": "POST",
    "path": "/v1/responses",
    "protocol": "openai.responses",
    "model": "stub-1",
    "nonces": ["tgn-0011223344556677"],
    "tools": ["shell"],
    "last_user_text": "say tgn-0011223344556677",
    "bytes": 812,
    "reply": "text",
}


def started(**fields: Any) -> Any:
    """The first event of a probe."""
    usual = {
        "schema": "turngate.probe-events/2",
        "turngate": "0.1.0",
        "machine": MACHINE,
        "level": "hermetic",
        "clause_set": CLAUSE_SET,
    }
    return _event("probe.started", usual | {"fail_on": "broken", "cores": 2} | fields)


def planned(release: str = "codex@0.169.0", **fields: Any) -> Any:
    """The event that announces one release."""
    engine, _, version = release.partition("@")
    usual = {
        "release": release,
        "engine": engine,
        "version": version,
        "executable": f"/usr/bin/{engine}",
        "source": "path",
        "contract_version": "1",
        "turns": 3,
        "note": None,
    }
    return _event("release.planned", usual | fields)


def turn(release: str = "codex@0.169.0", **fields: Any) -> Any:
    """A turn of the case `main`, successful by default."""
    output = b'{"type":"thread.started"}\n'.decode()
    usual = {
        "release": release,
        "case": "main",
        "step": "first",
        "argv": ["codex", "exec", "--json", "say 'hello'"],
        "cwd": "/sandbox/work",
        "exit_code": 0,
        "ended": "exit",
        "seconds": 1.5,
        "cpu_seconds": 1.25,
        "stdout": {"bytes": len(output), "excerpt": output},
        "stderr": {"bytes": 0, "excerpt": ""},
        "requests": [REQUEST],
        "handle": None,
        "outcome": "final",
        "failure_reason": None,
        "leftovers": [],
    }
    return _event("turn", usual | fields)


def call(release: str = "codex@0.169.0", **fields: Any) -> Any:
    """One request to the reference server, in the case `loop`."""
    usual = {
        "release": release,
        "case": "loop",
        "step": "asked",
        "method": "GET",
        "path": "/v1/runs/1",
        "status": 200,
        "sent": None,
        "answer": '{"state": "failed"}',
    }
    return _event("call", usual | fields)


def clause(clause_id: str, result: str = "pass", release: str = "codex@0.169.0", **fields: Any) -> Any:
    """The result of one clause of the catalogue, with `main/first` as evidence."""
    known = catalogue()[clause_id]
    usual = {"release": release, "id": clause_id, "level": known.level, "severity": known.severity.value}
    observed = {"result": result, "detail": "as expected", "stale": False, "evidence": ["main/first"]}
    observed |= {"needs": [], "reason": None, "action": "bound each turn" if result == "deviates" else ""}
    return _event("clause", usual | observed | fields)


def clauses(release: str = "codex@0.169.0", **changed: Event) -> list[Event]:
    """Return a pass for each hermetic clause, except those in `changed` (ids with dots and dashes as underscores)."""
    names = {known.id: known.id.replace(".", "_").replace("-", "_") for known in HERMETIC}
    return [changed.get(name) or clause(clause_id, release=release) for clause_id, name in names.items()]


def finished(release: str = "codex@0.169.0", verdict: str | None = "compatible", **fields: Any) -> Any:
    """The end of one release."""
    usual: dict[str, Any] = {
        "release": release,
        "verdict": verdict,
        "profile": PROFILE,
        "capability": CAPABILITY,
        "handle": HANDLE,
        "seconds": 10.0,
        "engine_seconds": 8.0,
        "turns": 3,
        "unverified": [],
    }
    return _event("release.finished", usual | fields)


def failed(release: str = "codex@0.169.0", **fields: Any) -> Any:
    """The end of a release that could not be probed."""
    why = {"reason": "no_executable", "what": "npm is absent", "hint": "install Node.js"}
    return _event("release.failed", {"release": release} | why | fields)


def ended(**fields: Any) -> Any:
    """The last event of a probe."""
    return _event("probe.finished", {"seconds": 12.0, "engine_seconds": 20.0, "interrupted": False} | fields)


def written(path: Path, *events: Event) -> Path:
    """Write events to a journal file and return its path."""
    journal = Journal(path)
    for event in events:
        journal.add(event)
    journal.close()
    return path


def _event(kind: str, fields: Mapping[str, Any]) -> Any:
    return read({"event": kind, "at": "2026-11-21T10:00:00.000+00:00", **fields})


def read(event: Any) -> Any:
    """Read an event as if from a journal."""
    return convert(event, Event, dec_hook=decode_hook)
