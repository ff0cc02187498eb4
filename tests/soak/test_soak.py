"""Tests of the soak: its verdict, its figures, and a few seconds of load on a real server."""

import argparse
from dataclasses import replace
from typing import Any

import pytest

from tests.tools.bench.served import Served
from tests.tools.soak import __main__ as command
from tests.tools.soak import soak as module
from tests.tools.soak.figures import Figures, percentile
from tests.tools.soak.flatness import Sample, growths
from tests.tools.soak.soak import Load, Outcome, soak

FLAT = [Sample(100_000_000 + number % 3 * 1_000_000, 50 + number % 5, 530) for number in range(40)]


@pytest.mark.parametrize("member, step", [("memory", 2_000_000), ("files", 1), ("threads", 2)])
def test_what_grows_all_the_time_is_not_flat(member: str, step: int) -> None:
    """A value that keeps growing is reported, and no other."""
    grown = [sample._replace(**{member: getattr(sample, member) + step * i}) for i, sample in enumerate(FLAT)]
    assert [growth.flat for growth in growths(FLAT)] == [True] * 3
    judged = {growth.name.partition(",")[0].split()[-1]: growth.flat for growth in growths(grown)}
    wrong = {"memory": "memory", "files": "descriptors", "threads": "threads"}[member]
    assert judged == {name: name != wrong for name in ("memory", "descriptors", "threads")}


def test_warming_up_and_single_peaks_are_flat() -> None:
    """The first quarter is ignored, and medians hide peaks; too few samples raise an error."""
    peaked = [Sample(10_000_000, 5, 20)] * 10 + FLAT[10:30] + [FLAT[30]._replace(files=900), *FLAT[31:]]
    assert all(growth.flat for growth in growths(peaked))
    with pytest.raises(ValueError, match="7 samples are too few"):
        growths(FLAT[:7])


def test_percentiles_are_values_that_were_measured() -> None:
    """Percentiles use the nearest rank, whatever the order of the values."""
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, share) for share in (50, 95, 99)] == [50, 95, 99]
    assert percentile([7.0], 99) == 7


def test_nothing_is_counted_once_the_server_is_ended() -> None:
    """Errors that clients get during shutdown are not counted."""
    figures = Figures()
    figures.error("before")
    figures.close()
    figures.error("after")
    figures.run_finished()
    with figures.timed("after"):
        pass
    assert (figures.errors, figures.runs, figures.seconds) == ({"before": 1}, 0, {})


def outcome() -> Outcome:
    """Return the measurements of a successful soak."""
    good = Outcome(samples=list(FLAT))
    with good.figures.timed("reply"):
        pass
    return good


def test_the_exit_code_says_whether_it_was_flat_and_without_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors, growth and leftovers exit with 1; an interrupt exits with 130 and prints the figures so far."""
    assert command.report(outcome()) == 0
    failed = outcome()
    failed.figures.error("list runs: 503")
    growing = [sample._replace(files=number * 9) for number, sample in enumerate(FLAT)]
    for bad in (failed, replace(outcome(), left="1 slots"), replace(outcome(), samples=growing)):
        assert command.report(bad) == 1
    assert command.report(replace(outcome(), interrupted=True, samples=[])) == 130
    said = capsys.readouterr().out
    assert all(text in said for text in ("1 x list runs: 503", "NOT FLAT", "1 slots", "not judged"))
    assert said.count("p50 ms") == 5


@pytest.mark.parametrize("args", [("--minutes", "0.5"), ("--clients", "0"), ("--clients", "501"), ("--minutes", "inf")])
def test_what_could_not_be_judged_is_refused(args: tuple[str, ...]) -> None:
    """A duration or number of clients out of range is rejected with exit code 2 before anything starts."""
    with pytest.raises(SystemExit, match="2"):
        command.main(args)
    with pytest.raises(argparse.ArgumentTypeError):
        command._minutes("nan")


@pytest.mark.long
@pytest.mark.nightly
def test_clients_finish_runs_of_both_profiles_without_errors() -> None:
    """After all clients have finished, the server holds nothing of their runs."""
    shown: list[float] = []
    loaded = soak(Load(8, 4, seed=1), lambda passed, _outcome: shown.append(passed))
    assert (dict(loaded.figures.errors), loaded.left, loaded.interrupted) == ({}, "", False)
    assert loaded.figures.runs
    assert {f"first turn, {profile}" for profile in ("resumable", "sticky_process")} <= set(loaded.figures.seconds)
    assert len(shown) == len(loaded.samples)


@pytest.mark.long
@pytest.mark.nightly
def test_a_server_that_dies_is_an_error_and_an_interrupt_keeps_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead server fails the soak; an interrupt ends it with the figures so far."""

    def interrupted(_passed: float, loaded: Outcome) -> None:
        if loaded.figures.seconds:
            raise KeyboardInterrupt

    cut = soak(Load(60, 2, seed=1), interrupted)
    assert (cut.interrupted, bool(cut.figures.seconds), dict(cut.figures.errors)) == (True, True, {})
    killed = []
    watch = module._watch

    def killing(served: Served, *more: Any) -> None:
        served.process.kill()
        served.process.wait()
        killed.append(served)
        watch(served, *more)

    monkeypatch.setattr(module, "_watch", killing)
    dead = soak(Load(60, 2, seed=1), lambda *_: None)
    assert killed
    assert dead.figures.errors["the server ended with exit code -9"] == 1
