import io
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from tests.probes.report import journals as j
from turngate_probes.journal.events import Event
from turngate_probes.report.build import build
from turngate_probes.report.lines import Detail, print_line
from turngate_probes.report.release_view import view
from turngate_probes.report.text import report_lines

JOURNAL = Path("/runs/journal.ndjson")
# most clauses of a probe; fewer are counted one by one
MOST = len(j.HERMETIC) // 3
ARGV = ["codex", "exec", "--json", "two\nlines"]


def text(*events: Event, width: int = 80, terminal: bool = False, detail: Detail = Detail.NORMAL) -> str:
    """Return the final text of a probe, as printed to a pipe, or to a terminal of this width."""
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, highlight=False, markup=False)
    for depth, line in report_lines(view(build(events)), JOURNAL, detail):
        print_line(console, depth, line)
    return file.getvalue()


def counted(printed: str) -> str:
    """Return a text with counts of most clauses as what they lack to all, so that a new clause changes none.

    Lists of most clauses are shortened.
    """
    every = len(j.HERMETIC)
    printed = re.sub(r"\d+( of \d+ clauses, interrupted: )\S+.*", r"most\1…", printed)
    printed = re.sub(rf"\b{every} clauses", "all clauses", printed)
    counts = r"\b\d+(?= (?:passed|not run))"
    return re.sub(counts, lambda n: f"all but {every - int(n[0])}" if int(n[0]) > MOST else n[0], printed)


def compatible(release: str = "opencode@1.18.33") -> list[Event]:
    """Return a release that passes every clause."""
    return [j.planned(release), j.turn(release), *j.clauses(release), j.finished(release)]


def with_caveats(release: str = "gemini@0.61.0") -> list[Event]:
    """Return a release with a deviation that occurs, a stale one, and a missing non-essential feature."""
    changed = {
        "backend_failure_told": j.clause(
            "backend.failure-told",
            "deviates",
            release,
            detail="retries past 20 s",
        ),
        "stdin_open": j.clause("stdin.open", "pass", release, detail="ended; stale: …", stale=True),
        "auto_flags_accepted": j.clause("auto.flags-accepted", "unsupported", release, detail="no such mode"),
    }
    plan = j.planned(release, note="a preview release")
    return [
        plan,
        *j.clauses(release, **changed),
        j.finished(release, unverified=["store", "sticky"]),
    ]


def broken(release: str = "codex@0.169.0") -> list[Event]:
    """Return a release without a session id, so that many other clauses could not run."""
    needs: dict[str, Any] = {
        "detail": "needs handle.present, which failed",
        "needs": ["handle.present"],
        "evidence": [],
    }
    carried: dict[str, Any] = {"detail": "needs resume.context-carried", "needs": ["resume.accepted"]}
    changed = {
        "handle_present": j.clause("handle.present", "fail", detail="no thread_id in the first event [absent]"),
        "handle_place": j.clause("handle.place", "not_run", **needs),
        "resume_accepted": j.clause("resume.accepted", "not_run", **needs),
        "resume_isolation": j.clause("resume.isolation", "not_run", **carried),
        "stdin_open": j.clause("stdin.open", "fail", detail="hung for 30 s", evidence=["open/first", "gone/first"]),
    }
    hung: dict[str, Any] = {
        "exit_code": None,
        "ended": "timeout",
        "requests": [],
        "stdout": {"bytes": 0, "excerpt": ""},
    }
    stderr = {"bytes": 5000, "excerpt": "Reading\tadditional input\nfrom stdin...\r\n"}
    return [
        j.planned(release),
        j.turn(release, argv=ARGV),
        j.turn(release, case="open", stderr=stderr, **hung),
        *j.clauses(release, **changed),
        j.finished(release, "broken", profile=j.PROFILE | {"kind": "sticky_process"}),
    ]


def test_a_compatible_release_is_one_line(snapshot: SnapshotAssertion) -> None:
    """A compatible release takes one line, after the summary, and a sentence about its guards."""
    assert counted(text(j.started(), *compatible(), j.ended())) == snapshot


def test_a_release_with_caveats_says_what_to_do(snapshot: SnapshotAssertion) -> None:
    """Known caveats are listed with what to do; stale ones and missing features are listed too."""
    assert counted(text(j.started(fail_on="degraded"), *with_caveats(), j.ended())) == snapshot


def test_a_broken_release_shows_its_evidence(snapshot: SnapshotAssertion) -> None:
    """A failure is shown with why it matters, the turn, and the observed request."""
    assert counted(text(j.started(), *broken(), *compatible(), j.ended())) == snapshot


def test_what_an_interruption_left_out_is_one_line() -> None:
    """Neither the turns that were not run are named, nor what the clauses need, which may come later."""
    cut = [
        j.clause(name, "not_run", detail=detail, reason=reason, needs=needs, evidence=[])
        for name, detail, reason, needs in (
            ("resume.accepted", "main/again was not observed: interrupted", "interrupted", []),
            ("prompt.whole", "needs answer.whole, which was not run", None, ["answer.whole"]),
            ("answer.whole", "needs resume.accepted, which was not run", None, ["resume.accepted"]),
        )
    ]
    clauses = ("resume.accepted", "prompt.whole", "answer.whole")
    printed = text(j.started(clauses=clauses), j.planned(), *cut, j.ended(interrupted=True))
    assert "\n  unanswered 3 of 3 clauses, interrupted\n" in printed
    assert "was not observed" not in printed


def test_an_interrupted_probe_shows_what_is_known(snapshot: SnapshotAssertion) -> None:
    """Releases that were interrupted or never probed are shown with what is known; each clause is accounted for."""
    absent = j.planned("iflow", version=None, executable=None, source="recordings")
    events = [j.planned(), absent, j.failed("iflow"), j.turn(), j.clause("version.readable")]
    printed = text(j.started(), *events)
    assert counted(printed) == snapshot
    listed = [name for names in re.findall(r"clauses, interrupted: (.*)", printed) for name in names.split(", ")]
    assert sorted(["version.readable", *listed]) == sorted(clause.id for clause in j.HERMETIC)


def test_quiet_text_is_verdicts_and_problems(snapshot: SnapshotAssertion) -> None:
    """`--quiet` prints verdicts and problems, but no caveats, evidence or summary."""
    events = (*broken(), *with_caveats(), *compatible())
    assert counted(text(j.started(), *events, j.ended(), detail=Detail.QUIET)) == snapshot


def test_verbose_text_adds_caveats_turns_and_cpu(snapshot: SnapshotAssertion) -> None:
    """`--verbose` adds the details of known caveats, and wall time compared with CPU time per core."""
    assert counted(text(j.started(), *with_caveats(), j.ended(), detail=Detail.VERBOSE)) == snapshot


def test_the_models_are_named_with_what_they_depend_on() -> None:
    """Where the contract names no model that the release takes by itself, the report says so, and why if it knows."""
    planned = structs.replace(j.planned(), asked_model="stub")
    assert "was tested with stub: the contract names no model that it takes by itself" in text(
        j.started(), planned, j.turn(), j.ended()
    )
    known = structs.replace(planned, no_default_model="an own provider needs one")
    assert "with stub: it takes none by itself: an own provider needs one\n" in text(
        j.started(), known, j.turn(), j.ended()
    )
    planned = structs.replace(planned, default_model="the login")
    assert (
        "which it takes by itself (the choice depends on the login), and with stub, which turns ask for by name\n"
        in text(j.started(), planned, j.turn(), j.ended())
    )
    unnamed = text(j.started(), planned, j.turn(requests=[]), j.ended())
    assert "the model that it takes by itself, which no request named (the choice depends on the login)" in unnamed


def test_a_verdict_on_a_simulated_engine_is_qualified() -> None:
    """What the note of a release adds to how it was chosen is told, also if nothing fails."""
    note = "found on PATH; simulated, so this says nothing about the real engine"
    planned, rest = structs.replace(j.planned(), note=note), (*j.clauses(), j.finished(), j.ended())
    said = "codex@0.169.0: simulated, so this says nothing about the real engine"
    assert said in text(j.started(), planned, *rest).splitlines()
    assert "codex@0.169.0: " not in text(j.started(), structs.replace(planned, note="found on PATH"), *rest)


def test_a_release_that_does_not_exist_is_not_called_one_that_passed() -> None:
    """Its line says why it was not tested, and that of selected clauses ends with what they showed."""
    failed = structs.replace(j.failed("codex@9.9.9"), what="codex has no version 9.9.9")
    planned = structs.replace(j.planned("codex@9.9.9"), version="9.9.9")
    lines = text(j.started(), planned, failed, j.ended()).splitlines()
    assert "codex  9.9.9  unanswered  codex has no version 9.9.9  0.0 s" in lines
    selected = j.started(clauses=("version.readable",))
    lines = text(selected, j.planned(), j.clause("version.readable"), j.ended()).splitlines()
    (line,) = [line for line in lines if line.startswith("codex  0.169.0")]
    assert line.endswith("1 clause: 1 passed, 0 known caveats, 0 failed, 0 not run  0.0 s")


def test_a_probe_of_nothing_says_so() -> None:
    """A probe without releases says so."""
    assert "exit code 2: nothing was probed" in text(j.started(), j.ended(engine_seconds=0))


def test_a_pipe_gets_neither_colours_nor_cuts() -> None:
    """In a pipe, lines are neither coloured nor cut, whatever width rich assumes."""
    out = text(j.started(), *broken(), *with_caveats(), j.ended(), width=20)
    assert "\x1b" not in out
    assert "…" not in out.replace("stale: …", "")
    assert "A first turn prints the session id under the field that the contract names." in out


HOSTILE = "\x1b]0;title\x07\x1b[2J\x1b[31mred\0 [red]markup[/red] :smile: \u202egnp.exe\x9b31m\r\x08"


@pytest.mark.parametrize("terminal", [False, True])
def test_hostile_text_is_shown_and_does_nothing(*, terminal: bool) -> None:
    """Escape sequences, control characters and markup in engine output are printed as text."""
    output = {"bytes": 9, "excerpt": HOSTILE}
    request = j.REQUEST | {"path": HOSTILE, "last_user_text": HOSTILE, "model": HOSTILE, "nonces": [HOSTILE]}
    turn = j.turn(argv=["codex", HOSTILE], stdout=output, stderr=output, requests=[request])
    events = [
        j.planned(version=HOSTILE, executable=HOSTILE, note=HOSTILE),
        turn,
        j.clause("handle.present", "fail", detail=HOSTILE),
        j.clause("resume.accepted", "not_run", detail=HOSTILE, evidence=[]),
        j.clause("resume.repeated", "not_run", detail=HOSTILE, evidence=[]),
        j.failed(what=HOSTILE, hint=HOSTILE),
        j.finished(unverified=[HOSTILE]),
    ]
    out = text(j.started(), *events, j.ended(), width=4000, terminal=terminal)
    assert not {"\0", "\x07", "\x08", "\r", "\x9b", "\u202e", "\x1b]"} & set(out)
    assert "\x1b[2J" not in out
    assert "[red]markup[/red] :smile:" in out
    assert "\\x1b[31mred\\x00" in out


def test_a_flood_is_bounded() -> None:
    """Long excerpts, long argv and many requests are cut, so that the text stays readable."""
    flood = {"bytes": 10**9, "excerpt": "y" * 10**5}
    turn = j.turn(stdout=flood, argv=["x" * 10**5] * 100, requests=[j.REQUEST] * 500)
    out = text(j.started(), j.planned(), turn, j.clause("handle.present", "fail"), j.ended())
    assert len(out) < 9000
    assert "and 496 more requests" in out
    assert "1000000000 bytes" in out
