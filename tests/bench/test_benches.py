"""The command that runs the benches; CI runs each of them in its short form."""

from pathlib import Path

import pytest

from tests.bench import __main__ as command
from tests.bench.benches import BENCHES
from tests.bench.form import SHORT_LABEL

HERE = Path(__file__).parent


def test_short_figures_are_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    """The short form is labelled as such in its output, the full form is not."""
    assert command.main(["--short", "throughput"]) == 0
    _, title, *figures = capsys.readouterr().out.splitlines()
    assert title.endswith(f"({SHORT_LABEL})")
    assert any("MB/s" in line for line in figures)


def test_unknown_bench_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown name is rejected with the known names and exit code 2, before anything is measured."""
    with pytest.raises(SystemExit, match="2"):
        command.main(["sever", "help"])
    said = capsys.readouterr()
    assert "no bench 'sever'; there are: help, " in said.err
    assert not said.out


def test_every_bench_is_run_by_ci() -> None:
    """The command includes every bench module, and CI runs the command without names."""
    measuring = {path.stem for path in HERE.glob("*.py") if "\ndef bench(" in path.read_text("utf-8")}
    assert {bench.run.__module__.rpartition(".")[2] for bench in BENCHES.values()} == measuring
    assert "make bench ARGS=--short\n" in (HERE.parents[1] / ".ci/run").read_text("utf-8")
