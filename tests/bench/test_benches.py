"""The command that runs the benches; `make night` runs each of them in its short form."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from tests.tools.bench import __main__ as command
from tests.tools.bench import page, saved
from tests.tools.bench.benches import BENCHES, Bench
from tests.tools.bench.form import SHORT_LABEL
from tests.tools.bench.rows import Measured, Row, Target, measured

ROOT = Path(__file__).parents[2]
FIRST, SECOND = Row("first", "The first", "s", target=Target(10)), Row("second", "The second", "s")
THIRD = Row("third", "The third", "s")
Figures: TypeAlias = list[float | BaseException]


def sample(row: Row, figure: float | BaseException) -> Measured:
    """Return a row with this figure, or fail with it."""
    if isinstance(figure, BaseException):
        raise figure
    return measured(row.name, [figure])


def published() -> list[tuple[str, float]]:
    """Return the rows of the published page with their figures."""
    kept = saved.load(Path("speed.json"))
    assert Path("speed.md").read_text("utf-8") == page.rendered((FIRST, SECOND, THIRD), kept)
    return [(row.measured.name, row.measured.figure.median) for row in kept.rows]


@pytest.fixture
def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Figures:
    """Make `one` and `two` the only benches, whose rows have these samples, with a docs folder of their own."""
    samples: Figures = [5.0, 7.0, 9.0]

    def one(*, short: bool) -> Iterator[Measured]:
        yield from map(sample, (FIRST, SECOND), samples)

    def two(*, short: bool) -> Iterator[Measured]:
        yield sample(THIRD, samples[2])

    monkeypatch.chdir(tmp_path)
    benches = {"one": Bench("one bench", (FIRST, SECOND), one), "two": Bench("another", (THIRD,), two)}
    monkeypatch.setattr(command, "BENCHES", benches)
    monkeypatch.setattr(command, "ROWS", (FIRST, SECOND, THIRD))
    monkeypatch.setattr(command, "PAGE", tmp_path / "speed.md")
    monkeypatch.setattr(command, "KEPT", tmp_path / "speed.json")
    return samples


def test_short_figures_are_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    """The short form is labelled as such, and its figures are not judged."""
    assert command.main(["--short", "throughput"]) == 0
    _, title, *shown = capsys.readouterr().out.splitlines()
    assert title.endswith(f"({SHORT_LABEL})")
    assert any("MB/s" in line for line in shown)
    assert "targets missed" not in shown[-1]


def test_only_strict_fails_for_a_missed_target(figures: Figures, capsys: pytest.CaptureFixture[str]) -> None:
    """A missed target is shown, and changes the exit code only if asked."""
    assert command.main(["--strict"]) == 0
    figures[0] = 11
    assert command.main([]) == 0
    assert "targets missed: first" in capsys.readouterr().out
    assert command.main(["--strict"]) == 1


def test_a_bench_that_fails_leaves_the_rows_it_measured(figures: Figures, capsys: pytest.CaptureFixture[str]) -> None:
    """Its other rows are not measured, the traceback is shown, and the exit code is 1."""
    figures[1] = RuntimeError("the second failed")
    assert command.main([]) == 1
    said = capsys.readouterr()
    assert "the second failed" in said.err
    assert "failed: one" in said.err
    assert list(saved.load(command.LAST).measured) == ["first", "third"]


def test_a_run_is_compared_with_an_older_one(figures: Figures, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of the last run can be compared with, even though this run replaces it."""
    assert command.main([]) == 0
    figures[0] = 10
    assert command.main(["--compare", str(command.LAST)]) == 0
    assert "+100%, worse" in capsys.readouterr().out
    assert saved.load(command.LAST).measured["first"].figure.median == 10


@pytest.mark.parametrize(
    "text, why",
    [
        (None, "can't read old.json: No such file"),
        ("{", "old.json is not a measurement of make bench: "),
        ("{}", "missing required field"),
        ('"\xff"', "is not a measurement"),
    ],
)
def test_a_file_that_is_no_measurement_is_refused(
    figures: Figures, text: str | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused with exit code 2 before anything is measured."""
    if text is not None:
        Path("old.json").write_text(text, "latin-1")
    with pytest.raises(SystemExit, match="2"):
        command.main(["--compare", "old.json"])
    said = capsys.readouterr()
    assert why in said.err
    assert not said.out


@pytest.mark.parametrize(
    "options, why",
    [
        (["sever"], "no bench 'sever'; there are: one, two"),
        (["--short", "--strict"], "--short say nothing"),
        (["--short", "--publish"], "--short say nothing"),
        (["--short", "--compare", "build/bench.json"], "the full form"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    figures: Figures, options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are refused with exit code 2 before anything is measured."""
    assert command.main([]) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        command.main(options)
    said = capsys.readouterr()
    assert why in said.err
    assert not said.out


def test_publishing_writes_the_page_and_its_figures(figures: Figures) -> None:
    """Some benches replace their rows of the page, the others stay; rendering measures nothing."""
    assert command.main(["--publish"]) == 0
    assert "| 5 s " in Path("speed.md").read_text()
    figures[:] = [6, 8, 10]
    assert command.main(["--publish", "one"]) == 0
    assert published() == [("first", 6), ("second", 8), ("third", 9)]
    written = Path("speed.md").read_text()
    figures.clear()
    Path("speed.md").unlink()
    assert command.main(["--render"]) == 0
    assert Path("speed.md").read_text() == written


@pytest.mark.parametrize(
    "why, code, said, third",
    [
        (RuntimeError("no engine"), 1, "failed: one; the rows above that they did not measure keep their earlier", 10),
        (KeyboardInterrupt(), 130, "interrupted: only the rows above with a figure were measured", 9),
    ],
)
def test_what_was_not_measured_keeps_its_published_figures(
    figures: Figures, capsys: pytest.CaptureFixture[str], why: BaseException, code: int, said: str, third: float
) -> None:
    """What was measured before a failure or Ctrl-C is published, and nothing else changes."""
    assert command.main(["--publish"]) == 0
    figures[:] = [6, why, 10]
    assert command.main(["--publish"]) == code
    assert published() == [("first", 6), ("second", 7), ("third", third)]
    assert said in capsys.readouterr().err


def test_a_killed_run_keeps_what_it_measured(figures: Figures) -> None:
    """Each row is written before the next one is measured."""
    figures[1] = SystemExit(9)
    with pytest.raises(SystemExit):
        command.main(["--publish"])
    assert published() == [("first", 5)]
    assert list(saved.load(command.LAST).measured) == ["first"]


def test_figures_of_another_machine_stay_and_are_named(figures: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says which rows are from another machine, until they are measured again."""
    machines = [saved.host(), msgspec.structs.replace(saved.host(), cpu="Fast 9000")]
    monkeypatch.setattr(saved, "host", lambda: machines[-1])
    assert command.main(["--publish"]) == 0
    del machines[-1]
    for benches, elsewhere in ((["one"], ["The third"]), (["two"], [])):
        assert command.main(["--publish", *benches]) == 0
        assert len(published()) == 3
        reported = Path("speed.md").read_text("utf-8")
        assert f"on {machines[0].text}." in reported
        assert re.findall(r"On another machine, .*Fast 9000.*: (.*)\.", reported) == elsewhere


def test_every_bench_is_run_at_night() -> None:
    """The command includes every bench module, and `make night` runs the command without names."""
    measuring = {
        path.stem for path in (ROOT / "tests/tools/bench").glob("*.py") if "\ndef bench(" in path.read_text("utf-8")
    }
    assert {bench.run.__module__.rpartition(".")[2] for bench in BENCHES.values()} == measuring
    assert re.search(r"^step bench make bench ARGS=--short$", (ROOT / ".ci/night").read_text("utf-8"), re.MULTILINE)
