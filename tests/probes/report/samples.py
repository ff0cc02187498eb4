"""Reports for the tests of what is rendered from them."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from msgspec import structs

from tests.probes.report import journals as j
from turngate.contract.verdict import decode_hook
from turngate.decoding import convert
from turngate_probes.journal.events import ClauseEvent, Event
from turngate_probes.report.build import build
from turngate_probes.report.publish import checked, json_text
from turngate_probes.report.reports import ProbeReport

HOSTILE = (
    "</script><script>window.hacked = 1</script><img src=x onerror=\"window.hacked=1\"><a href='javascript:hacked=1'>"
    "\x1b[31m\x00\ud800\ufffe\u202e]]> <!-- `x` ```\n| a | b |\n@all ![i](https://example.com/i) {{ 7 * 7 }} {% x %}"
    "\r\n::error file=a::b\n##[error]c"
)

# how many clauses a probe without a server checks
EVERY = len(j.HERMETIC)
FEW = ("version.readable", "resume.accepted", "stdin.open")


def whole(*changed: Event, verdict: str = "compatible", release: str = "codex@0.169.0", **plan: Any) -> list[Event]:
    """Return the events of one release whose clauses all pass, except the given ones."""
    clauses = [structs.replace(event, release=release) for event in changed if isinstance(event, ClauseEvent)]
    named = {event.id.replace(".", "_").replace("-", "_"): event for event in clauses}
    events = [j.planned(release, **plan), j.turn(release), *j.clauses(release, **named)]
    return [*events, j.finished(release, verdict)]


def of(*releases: list[Event], **fields: Any) -> ProbeReport:
    """Return the report on these releases, checked against its schema."""
    report = build([j.started(**fields), *(event for events in releases for event in events), j.ended()])
    checked(report)
    return report


def mixed() -> ProbeReport:
    """A report with every result."""
    return of(
        whole(
            j.clause("resume.accepted", "fail", detail="the resume was refused"),
            j.clause("help.surface", "fail", detail="--json is gone", evidence=[]),
            verdict="broken",
        ),
        whole(
            j.clause("resume.other-cwd", "deviates", detail="tied", action="stay in the directory of the first turn"),
            j.clause("stdin.open", "unsupported", detail="it takes no input"),
            j.clause("prompt.large", "pass", detail="as expected; stale: gone", stale=True),
            release="gemini@0.61.0",
        ),
        whole(release="gemini@0.62.0"),
        [j.planned("opencode@1.0.0"), j.failed("opencode@1.0.0", what="npm is absent", hint="install Node.js")],
    )


@cache
def hostile() -> ProbeReport:
    """Return a valid report in which every text is hostile."""
    call = {"call": "x", "method": "GET", "path": "/", "status": 200, "sent": "{}", "answer": "{}"}
    report = plain(
        of(
            whole(j.clause("resume.accepted", "fail"), j.clause("stdin.open", "deviates"), verdict="broken"),
            [j.planned("opencode@1.0.0"), j.failed("opencode@1.0.0")],
        )
    )
    for release in report["releases"]:
        release["clauses"] = [item for item in release["clauses"] if item["id"] in FEW]
    report["releases"][0]["clauses"][0] |= {"result": "fail", "evidence": [call, "a"]}
    report["releases"][0] |= {"note": "a", "unverified": ["a"]}
    for holder, key in list(_texts(report)):
        usual = holder[key]
        holder[key] = HOSTILE
        try:
            read(report)
        except ValueError:
            holder[key] = usual
        if holder is report and key == "started_at":
            holder[key] = usual
    return read(report)


def many(count: int, text: str = "x") -> ProbeReport:
    """Return a report of many broken releases, with long evidence for each."""
    output = {"bytes": 3000, "excerpt": text * 3000}
    usual = plain(of(whole(j.clause("resume.accepted", "fail", detail="refused"), verdict="broken")))
    (release,) = usual["releases"]
    for clause in release["clauses"]:
        for evidence in clause["evidence"]:
            if isinstance(evidence, dict):
                evidence |= {"stdout": output, "stderr": output}
    named = [{"version": f"0.{number}.0", "release": f"codex@0.{number}.0"} for number in range(count)]
    return read(usual | {"releases": [release | item for item in named]})


def plain(report: ProbeReport) -> Any:
    """Return the report as JSON values."""
    return json.loads(json_text(report))


def read(report: Any) -> ProbeReport:
    """Read a report, as from a file."""
    return convert(report, ProbeReport, dec_hook=decode_hook)


def _texts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return the path of every text in the report."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(item, str):
            yield value, key
        elif isinstance(item, (dict, list)):
            yield from _texts(item)
