import io
import re
import threading
from unittest.mock import Mock

import pytest
from msgspec import structs
from rich.console import Console

from tests.probes.report import journals as j
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.journal.events import Event, InstallProgress, MatrixPlanned
from turngate_probes.report.progress import HEARTBEAT, LONGEST_LINE, Progress, live

RELEASE = "codex@0.169.0"


class Clock:
    """A clock that only moves when a test sets it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def piped(*events: Event, between: float = 0.0) -> list[str]:
    """Return the lines printed to a pipe during a probe, with events `between` seconds apart."""
    file, clock = io.StringIO(), Clock()
    with live(Console(file=file, width=20), Interrupt(), clock) as listener:
        for event in events:
            clock.now += between
            listener(event)
    return file.getvalue().splitlines()


def drawn(clock: Clock, *events: Event, width: int = 160) -> str:
    """Return the table as it is after some events."""
    table = Progress(clock)
    for event in events:
        table.follow(event)
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_a_pipe_gets_a_line_for_what_matters_alone() -> None:
    """A pipe gets lines for plans, installation, failures and ends; what passes or needs what fails prints nothing."""
    lines = piped(
        j.started(),
        InstallProgress(RELEASE, text="fetching"),
        InstallProgress(RELEASE, text="unpacking"),
        j.planned(),
        j.turn(),
        j.clause("stream.framing"),
        j.clause("handle.present", "fail", detail="no id"),
        j.clause("resume.accepted", "not_run", needs=["handle.present"]),
        j.clause("stdin.open", "not_run", reason="interrupted"),
        j.finished(verdict="broken"),
        j.failed("codex@1"),
        j.ended(),
    )
    assert lines == [
        f"{RELEASE}: fetching",
        f"{RELEASE}: about 3 turns planned (/usr/bin/codex)",
        f"{RELEASE}: fail handle.present: no id",
        f"{RELEASE}: broken after 3 turns in 10.0 s",
        "codex@1: could not be tested: npm is absent",
    ]


def test_the_plan_says_how_long_it_waits() -> None:
    """The second line says how long the probe waits, and what for; the table shows it until the first turn."""
    plan = j.planned(waits="up to 60 s for a later minute")
    expected = [f"{RELEASE}: about 3 turns planned (/usr/bin/codex)", f"{RELEASE}: waits up to 60 s for a later minute"]
    assert piped(plan) == expected
    assert "waits up to 60 s for a later minute" in drawn(Clock(), plan)
    assert "waits" not in drawn(Clock(), plan, j.turn())


def test_a_plan_is_an_estimate_unless_it_has_no_turns() -> None:
    """What a release does can call for further turns, but a probe of its help pages alone has none."""
    plans = {0: "0 turns", 1: "about 1 turn", 2: "about 2 turns"}
    lines = {turns: piped(j.planned(turns=turns)) for turns in plans}
    assert lines == {turns: [f"{RELEASE}: {said} planned (/usr/bin/codex)"] for turns, said in plans.items()}


def test_a_pipe_hears_a_heartbeat_now_and_then() -> None:
    """An event without a line of its own prints a heartbeat if nothing was printed for a while; the plan grows."""
    turns = [j.turn(step=str(number)) for number in range(8)]
    lines = piped(j.planned(turns=7), *turns, between=HEARTBEAT / 2 + 0.1)
    assert lines[1:] == [
        f"{RELEASE}: {done} of about {max(done, 7)} turns, 0 passed, 0 failed (main/{done - 1} done)"
        for done in (2, 4, 6, 8)
    ]
    (_, line) = piped(j.planned(turns=0), j.clause("stream.framing"), between=HEARTBEAT)
    assert line == f"{RELEASE}: 0 of 0 turns, 1 passed, 0 failed"


def test_a_pipe_hears_heartbeats_although_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a turn hangs, the progress is printed again and again, and no longer once the probe has ended."""
    beats = threading.Semaphore(0)

    class Heard(io.StringIO):
        def write(self, text: str) -> int:
            if re.search(r"[01] of about 3 turns, ", text):
                beats.release()
            return super().write(text)

    monkeypatch.setattr("turngate_probes.report.progress.HEARTBEAT", 0.01)
    with live(Console(file=Heard()), Interrupt()) as listener:
        listener(j.planned())
        beats.acquire()
        listener(j.turn())
        for _ in range(3):
            beats.acquire()
    assert "progress" not in {thread.name for thread in threading.enumerate()}


def test_the_table_says_how_far_each_release_is() -> None:
    """The table shows state, turns, results, last event, seconds and failed clauses of each release."""
    clock = Clock()
    table = Progress(clock)
    for event in (j.planned(turns=9), j.planned("gemini@0.61.0"), j.turn()):
        table.follow(event)
    clock.now += 42
    for event in (j.clause("stream.framing"), j.clause("handle.present", "fail")):
        table.follow(event)
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as captured:
        console.print(table)
    _, codex, gemini = (line.split() for line in captured.get().splitlines())
    assert codex == [RELEASE, "running", "1/9", "1", "1", "42", "handle.present", "main/first", "done"]
    assert gemini == ["gemini@0.61.0", "waiting", "0/3", "0", "0"]


@pytest.mark.parametrize("width", [80, 120, 160])
def test_no_word_is_cut_without_need(width: int) -> None:
    """Headings, releases, clauses and steps stay whole; only a path that is longer than the line is broken."""
    shared, path = "codex@0.147.0 and codex@0.169.0 in a shared HOME", f"(/opt/{'engines/' * 12}codex)"
    own = f"{RELEASE} {path}"
    step = j.turn(own, case="sticky-own-settings", step="default-permissions-command_call-permission")
    failing = [j.clause(name, "fail", release=shared) for name in ("upgrade.resume", "rollback.touched")]
    shown = drawn(Clock(), j.planned(shared), *failing, j.planned(own), step, width=width)
    words = shown.split()
    assert "…" not in shown
    assert {*shared.split(), "upgrade.resume", "rollback.touched", step.name, "turns", "passed", "failed"} <= {*words}
    assert path[:30] in shown
    assert max(map(len, shown.splitlines())) <= width


def test_the_table_stops_the_clock_of_what_ended() -> None:
    """A finished release keeps its verdict and duration in the table."""
    clock = Clock()
    table = Progress(clock)
    for event in (j.planned(), j.turn(), j.finished()):
        table.follow(event)
    clock.now += 1000
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as captured:
        console.print(table)
    assert captured.get().splitlines()[1].split() == [RELEASE, "compatible", "1/3", "0", "0", "0"]


def test_hostile_text_does_nothing_while_it_runs() -> None:
    """Control characters of engine output reach the terminal neither by the table nor by lines."""
    hostile = "\x1b[2J\0[red]x[/red]"
    events = [
        j.planned(hostile, executable=hostile),
        InstallProgress(hostile, text=hostile),
        structs.replace(j.clause("handle.present", "fail", hostile, detail=hostile), id=hostile),
    ]
    for out in (drawn(Clock(), *events), "".join(piped(*events))):
        assert "\x1b" not in out
        assert "\0" not in out
        assert "[red]x[/red]" in out


def test_a_terminal_gets_a_table_that_goes_away() -> None:
    """The table is shown while the block runs; afterwards it is removed and the cursor restored."""
    file = io.StringIO()
    with live(Console(file=file, width=100, force_terminal=True), Interrupt()) as listener:
        listener(j.planned())
        listener(j.turn())
    out = file.getvalue()
    assert RELEASE in out
    assert out.endswith("\x1b[2K") or "\x1b[1A\x1b[2K" in out


def test_a_dumb_terminal_gets_lines() -> None:
    """A terminal that can't move the cursor gets lines."""
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=True, _environ={"TERM": "dumb"})
    with live(console, Interrupt()) as listener:
        listener(j.planned())
    assert file.getvalue() == f"{RELEASE}: about 3 turns planned (/usr/bin/codex)\n"


def test_a_probe_ends_whose_lines_nobody_reads() -> None:
    """If progress can't be written, the probe is interrupted at once and the error raised after it has ended."""
    full, interrupt = Mock(wraps=io.StringIO(), **{"write.side_effect": OSError(28, "full")}), Interrupt()
    received = []
    with pytest.raises(OSError, match="full"), live(Console(file=full), interrupt) as listener:  # noqa: PT012
        for _ in range(2):
            listener(j.planned())
            received.append(interrupt.is_set())
    assert received == [True, True]


def of_matrix(releases: int, kept: int = 0) -> Event:
    """The announcement of a matrix."""
    return MatrixPlanned(releases=releases, kept=kept)


def test_a_matrix_says_what_is_done_what_runs_what_is_left_and_how_long() -> None:
    """Each finished release prints the totals; the estimate is based on finished releases."""
    ended = [j.planned("codex@1", turns=0), j.finished("codex@1")]
    lines = piped(of_matrix(5, kept=1), *ended, j.planned("codex@2", turns=4), j.failed("codex@2"), between=4)
    assert lines[1:3] == [
        "codex@1: compatible after 3 turns in 10.0 s",
        "2 of 5 releases done, 1 of them earlier, 0 running, 3 left, about 24 s more",
    ]
    assert lines[-1] == "3 of 5 releases done, 1 of them earlier, 0 running, 2 left, about 16 s more"


def test_the_heartbeat_of_a_matrix_counts_half_probed_releases() -> None:
    """Before a first release has ended there is no estimate, since its first turns are no measure of the others."""
    turns = [j.turn("codex@1", step=str(number)) for number in range(2)]
    lines = piped(of_matrix(2), j.planned("codex@1", turns=4), *turns, between=HEARTBEAT * 4)
    assert lines[-1].startswith("0 of 2 releases done, 1 running, 1 left, no estimate yet; codex@1: 2 of 4 turns")
    installing = InstallProgress("codex@2", text="fetching")
    lines = piped(of_matrix(2), installing, j.planned("codex@1", turns=4), j.turn("codex@1"), between=HEARTBEAT * 4)
    assert lines[-1].endswith("; codex@2: installing; codex@1: 1 of 4 turns")
    assert "no estimate yet" in drawn(Clock(), of_matrix(2))


def test_the_table_of_a_matrix_holds_what_runs_alone() -> None:
    """The table lists running releases and installations, but not finished or waiting releases."""
    shown = drawn(
        Clock(),
        of_matrix(9),
        j.planned("codex@1"),
        j.finished("codex@1"),
        InstallProgress("codex@2", text="fetching"),
    )
    assert "codex@1" not in shown
    assert "codex@2" in shown
    assert "1 of 9 releases done, 1 running, 7 left" in shown


def test_a_search_says_that_fewer_may_be_enough() -> None:
    """Each step replaces what was planned before."""
    most = [MatrixPlanned(releases=count, kept=0, at_most=True) for count in (9, 5)]
    ended = [j.planned("codex@1", turns=0), j.finished("codex@1")]
    assert "(1 of at most 5 releases done, 0 running, 4 left" in piped(*most, *ended, between=4)[-1]


def after(seconds: float, *events: Event) -> str:
    """Return the total shown `seconds` after a matrix of 3 was planned, where a release takes 10 s."""
    clock = Clock()
    progress = Progress(clock)
    progress.follow(of_matrix(3))
    clock.now += seconds
    for event in (j.planned("codex@1"), j.turn("codex@1")):
        progress.follow(event)
    clock.now += 10
    for event in (j.finished("codex@1"), *events):
        progress.follow(event)
    return progress.overall()


def test_the_estimate_is_no_more_than_what_is_left_can_take() -> None:
    """The estimate is at most the longest release so far times the releases left, however long nothing ran."""
    assert after(0).endswith("1 of 3 releases done, 0 running, 2 left, about 20 s more")
    assert after(90).endswith("2 left, about 20 s more")
    begun = j.planned("codex@2", turns=2), j.turn("codex@2")
    assert after(90, *begun).endswith("1 running, 1 left, about 10 s more")
    assert after(90, *begun, j.failed("codex@2"), j.failed("codex@3")).endswith(
        "3 of 3 releases done, 0 running, 0 left, almost done"
    )


def test_the_installation_for_a_gate_does_not_count_in_its_estimate() -> None:
    """It can take longer than all turns, and comes once."""
    clock = Clock()
    progress = Progress(clock)
    progress.follow(MatrixPlanned(releases=2, kept=0, unit="parts"))
    progress.follow(InstallProgress("codex@1", text="fetching"))
    clock.now += 100
    progress.follow(j.planned("codex@1", turns=50))
    for number in range(10):
        clock.now += 1
        progress.follow(j.turn("codex@1", step=str(number)))
    assert progress.overall().endswith("about 90 s more")


def test_turns_that_are_known_give_an_estimate_before_a_first_release_has_ended() -> None:
    """After a few turns a gate says how long it takes; its last part counts as the few turns that it has."""
    clock = Clock()
    progress = Progress(clock)
    progress.follow(MatrixPlanned(releases=3, kept=0, unit="parts", last_turns=5))
    for event in (j.planned("codex@1", turns=50), j.planned("codex@2", turns=50)):
        progress.follow(event)
    for number in range(10):
        clock.now += 1
        for release in ("codex@1", "codex@2"):
            progress.follow(j.turn(release, step=str(number)))
    # 20 of 105 turns took 10 s
    assert progress.overall() == "0 of 3 parts done, 2 running, 1 left, about 42 s more"
    for release in ("codex@1", "codex@2"):
        progress.follow(j.finished(release))
    assert progress.overall() == "2 of 3 parts done, 0 running, 1 left, about 1 s more"


def test_a_line_of_the_progress_is_no_longer_than_a_log_is_wide() -> None:
    """What has no room is counted or gets a line of its own, and what is longer than a line is cut."""
    names = [f"codex@0.{number}.0" for number in range(9)]
    plans, turns = [j.planned(name) for name in names], [j.turn(name) for name in names]
    *_, line = piped(of_matrix(9), *plans, *turns, between=HEARTBEAT / 8.5)
    assert len(line) <= LONGEST_LINE
    assert re.fullmatch(r"0 of 9 releases done, .*; codex@0.0.0: 1 of 3 turns(; .*)?; [1-8] more running", line)
    *_, line = piped(j.planned(long := f"codex (/{'engines/' * 30})"), j.turn(long), between=HEARTBEAT)
    assert re.fullmatch(r"codex \(/engines.*….*/engines/\): 1 of about 3 turns, 0 passed, 0 failed \(.* done\)", line)
    place = f"/home/me/{'engines/' * 15}codex"
    lines = piped(
        of_matrix(1000, kept=900),
        j.planned(executable=place),
        j.clause("handle.present", "fail", detail="no id " * 20),
        j.finished("codex@0.147.0 and codex@0.169.0 in a shared HOME"),
        between=9,
    )
    assert max(map(len, lines)) <= LONGEST_LINE
    assert re.fullmatch(rf"{RELEASE}: about 3 turns planned \(…(/engines){{9,}}/codex\)", lines[0])
    assert re.fullmatch(rf"{RELEASE}: fail handle.present: (no id )+no …", lines[1])
    assert lines[2].endswith("shared HOME: compatible after 3 turns in 10.0 s")
    assert lines[3].startswith("901 of 1000 releases done, 900 of them earlier, 1 running")


def test_turns_are_counted_for_each_build() -> None:
    """Two executables of one version have separate rows."""
    one, two = f"{RELEASE} (/one/codex)", f"{RELEASE} (/two/codex)"
    shown = drawn(Clock(), j.planned(one), j.planned(two), j.turn(one), j.turn(two), j.turn(two, step="again"))
    _, first, second = shown.splitlines()
    assert first.startswith(one)
    assert second.startswith(two)
    assert " 1/3 " in first
    assert " 2/3 " in second
