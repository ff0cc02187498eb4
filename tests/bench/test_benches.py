"""The command that runs the benches; CI runs each of them in its short form."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import __main__ as command
from tests.bench import page, saved
from tests.bench.benches import BENCHES, Bench
from tests.bench.form import SHORT_LABEL
from tests.bench.rows import Measured, Row, Target, measured

HERE = Path(__file__).parent
FIRST, SECOND = Row("first", "The first", "s", target=Target(10)), Row("second", "The second", "s")


@pytest.fixture
def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Make `one` the only bench, whose rows have these samples, with a docs folder of its own."""
    samples = [5.0, 7.0]

    def bench(*, short: bool) -> Iterator[Measured]:
        for row, sample in zip((FIRST, SECOND), samples, strict=False):
            yield measured(row.name, [sample])
        if len(samples) == 1:
            raise RuntimeError("the second failed")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "BENCHES", {"one": Bench("one bench", (FIRST, SECOND), bench)})
    monkeypatch.setattr(command, "ROWS", (FIRST, SECOND))
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


def test_only_strict_fails_for_a_missed_target(figures: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    """A missed target is shown, and changes the exit code only if asked."""
    assert command.main(["--strict"]) == 0
    figures[0] = 11
    assert command.main([]) == 0
    assert "targets missed: first" in capsys.readouterr().out
    assert command.main(["--strict"]) == 1


def test_a_bench_that_fails_leaves_the_rows_it_measured(
    figures: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its other rows are not measured, the traceback is shown, and the exit code is 1."""
    del figures[1]
    assert command.main([]) == 1
    said = capsys.readouterr()
    assert "the second failed" in said.err
    assert "failed: one" in said.err
    assert list(saved.load(command.LAST).measured) == ["first"]


def test_a_run_is_compared_with_an_older_one(figures: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    """The file of the last run can be compared with, even though this run replaces it."""
    assert command.main([]) == 0
    figures[0] = 10
    assert command.main(["--compare", str(command.LAST)]) == 0
    assert "+100%, worse" in capsys.readouterr().out
    assert saved.load(command.LAST).measured["first"].figure.median == 10


@pytest.mark.parametrize("text, why", [
    (None, "can't read old.json: No such file"), ("{", "old.json is not a measurement of make bench: "),
    ("{}", "missing required field"), ('"\xff"', "is not a measurement"),
])  # fmt: skip
def test_a_file_that_is_no_measurement_is_refused(
    figures: list[float], text: str | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused with exit code 2 before anything is measured."""
    if text is not None:
        Path("old.json").write_text(text, "latin-1")
    with pytest.raises(SystemExit, match="2"):
        command.main(["--compare", "old.json"])
    said = capsys.readouterr()
    assert why in said.err
    assert not said.out


@pytest.mark.parametrize("options, why", [
    (["sever"], "no bench 'sever'; there are: one"), (["--short", "--strict"], "--short say nothing"),
    (["--short", "--publish"], "--short say nothing"), (["--short", "--compare", "build/bench.json"], "the full form"),
])  # fmt: skip
def test_options_that_do_not_fit_are_refused(
    figures: list[float], options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are refused with exit code 2 before anything is measured."""
    assert command.main([]) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        command.main(options)
    said = capsys.readouterr()
    assert why in said.err
    assert not said.out


def test_publishing_writes_the_page_and_its_figures(figures: list[float]) -> None:
    """Some benches replace their rows of the page, the others stay; rendering measures nothing."""
    assert command.main(["--publish"]) == 0
    assert "| 5 s " in Path("speed.md").read_text()
    figures[0] = 6
    assert command.main(["--publish", "one"]) == 0
    kept = saved.load(Path("speed.json"))
    assert [row.measured.figure.median for row in kept.rows] == [6, 7]
    written = Path("speed.md").read_text()
    assert written == page.rendered((FIRST, SECOND), kept)
    figures.clear()
    Path("speed.md").unlink()
    assert command.main(["--render"]) == 0
    assert Path("speed.md").read_text() == written


def test_every_bench_is_run_by_ci() -> None:
    """The command includes every bench module, and CI runs the command without names."""
    measuring = {path.stem for path in HERE.glob("*.py") if "\ndef bench(" in path.read_text("utf-8")}
    assert {bench.run.__module__.rpartition(".")[2] for bench in BENCHES.values()} == measuring
    assert "make bench ARGS=--short\n" in (HERE.parents[1] / ".ci/run").read_text("utf-8")
