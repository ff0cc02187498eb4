"""The turngate command: its list of commands, its imports, and the exit code of each ending."""

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from tests.tables import each
from turngate import cli

COMMANDS = '''
import click
from turngate.errors import ContractError, MachineError

@click.command()
@click.option("--as", "kind", default="nothing")
def ending(kind):
    """End in the way that is asked for."""
    match kind:
        case "one":
            return 1
        case "exit":
            click.get_current_context().exit(1)
        case "contract":
            raise ContractError("no such key", "codex.yaml", 3, 7, "$.launch", "remove it")
        case "environment":
            raise MachineError("the disk is full", "make room")
        case "click":
            raise click.ClickException("cannot open it")
        case "interrupt":
            raise KeyboardInterrupt
        case "crash":
            raise RuntimeError("our mistake")
        case "files":
            raise OSError(24, "Too many open files")
        case "disk":
            raise OSError(28, "No space left on device", "/full/file")
        case "hidden":
            raise ModuleNotFoundError("No package metadata was found for turngate")
        case "talk":
            click.echo("hello " * 1000)

def undocumented(): ...
not_a_command = 1
'''

ENTRY_POINTS = """
[turngate.commands]
ending = played_commands:ending
undocumented = played_commands:undocumented
nowhere = played_missing:command
nowhere-deep = played_missing.deep:command
wrong = played_commands:not_a_command
"""


@pytest.fixture(name="played", autouse=True)
def _played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install another distribution with its own commands."""
    info = tmp_path / "played-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: played\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "played_commands.py").write_text(COMMANDS)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("played_commands", None)


def test_help_lists_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Help describes our commands and names the distribution of a plugin's command, without importing either."""
    assert cli.run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"Commands of other packages:\n(?:  .*\n)*  ending +played_commands:ending", shown)
    assert re.search(r"Talk to an engine at a terminal:\n(?:  .*\n)*  resume +Continue a conversation", shown)
    assert "played_commands" not in sys.modules


def test_without_a_command_it_says_what_to_do_first(capsys: pytest.CaptureFixture[str]) -> None:
    """The bare command names first steps that exist, in ten lines; its exit code says that nothing was tested."""
    assert cli.run([]) == 2
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 10
    assert set(re.findall(r"^  turngate (\w+)", shown, re.MULTILINE)) < set(cli.COMMANDS)


def test_help_of_the_real_commands_stays_light() -> None:
    """`turngate --help` imports no slow module, and nothing of the probes but empty packages."""
    code = (
        "import sys; from turngate.cli import run; run(['--help']);"
        "print(*(name + '.' * hasattr(module, '__path__') for name, module in sys.modules.items()), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stderr.split())
    modules = [name for name in loaded if not name.endswith(".")]
    loaded = {name.rstrip(".") for name in loaded}
    assert not {"rich", "yaml", "jsonschema", "flask", "subprocess", "turngate.process"} & loaded
    assert not [name for name in modules if name.startswith(("turngate_probes.", "turngate_reference."))]


@each("name", cli.COMMANDS)
def test_each_command_has_a_help_page_that_keeps_the_lines_of_its_examples(name: str) -> None:
    """The marker that keeps an example's lines separate is not printed."""
    command = cli.turngate.get_command(click.Context(cli.turngate), name)
    printed = command.get_help(click.Context(command, info_name=name))
    assert "\\b" not in printed
    assert not [line for line in printed.splitlines() if line.count(f"turngate {name} ") > 1]


def test_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints the name and the installed version."""
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"turngate {version('turngate')}\n"


def test_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped command is a usage error with a suggestion."""
    assert cli.run(["undocumentd"]) == 2
    assert "Did you mean 'undocumented'?" in capsys.readouterr().err


@each(
    "args, form",
    [
        (["probe", "--contracts", "my", "codex"], "turngate --contracts DIR probe …"),
        (["handles", "show", "--data-dir", "x", "h"], "turngate handles --data-dir DIRECTORY show …"),
        (["handles", "show", "--contracts", "x", "h"], "turngate --contracts DIR handles …"),
    ],
)
def test_an_option_after_its_command_says_where_it_stands(
    args: list[str], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option of a group is none of its commands'."""
    assert cli.run(args) == 2
    assert f"{args[-3]} stands before the command: `{form}`." in " ".join(capsys.readouterr().err.split())


@each("name", cli.REPLACED)
def test_a_name_that_turngate_had_names_what_does_its_job(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is unknown like any other, and no alias; the command that is named instead has a help page."""
    assert cli.run([name]) == 2
    assert f"No such command '{name}'. Use `{cli.REPLACED[name]}`." in capsys.readouterr().err
    words = cli.REPLACED[name].split()[1:]
    assert cli.run([*(word for word in words if word.islower() and word != "…"), "--help"]) == 0


@each(
    "args, code",
    [
        (["ending"], 0),
        (["ending", "--as", "one"], 1),
        (["ending", "--as", "exit"], 1),
        (["ending", "--as", "click"], 2),
        (["ending", "--as", "interrupt"], 130),
        (["ending", "--help"], 0),
        (["ending", "--bad-option"], 2),
        (["--bad-option"], 2),
        ([], 2),
    ],
)
def test_exit_code(args: list[str], code: int) -> None:
    """A command's return value is the exit code; usage errors exit with 2, an interrupt with 130."""
    assert cli.run(args) == code


def test_contract_error_says_what_where_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid contract is reported in one paragraph, without a traceback."""
    assert cli.run(["ending", "--as", "contract"]) == 2
    assert capsys.readouterr().err == "Error: codex.yaml:3:7: $.launch: no such key (remove it)\n"


def test_environment_error_says_what_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """An environment error is reported with its hint on a separate line, without a traceback."""
    assert cli.run(["ending", "--as", "environment"]) == 2
    assert capsys.readouterr().err == "Error: the disk is full\nmake room\n"


def test_too_few_files_are_an_error_of_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    """If no file descriptor is free, wherever that shows, the error is one line that says what to do."""
    assert cli.run(["ending", "--as", "files"]) == 2
    assert capsys.readouterr().err == "Error: Too many open files; raise the limit (ulimit -n)\n"


def test_a_full_disk_is_an_error_of_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that can't be written for want of space is named, and not taken for the output."""
    assert cli.run(["ending", "--as", "disk"]) == 2
    assert capsys.readouterr().err == "Error: the disk is full: /full/file can't be written\nfree some space on it\n"


def test_what_is_missing_for_lack_of_files_is_the_same_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The interpreter takes a module for missing if it can't list its folder; with enough files it is a crash."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (6, 6))
    assert cli.run(["ending", "--as", "hidden"]) == 2
    assert capsys.readouterr().err == "Error: Too many open files; raise the limit (ulimit -n)\n"
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    with pytest.raises(ModuleNotFoundError):
        cli.run(["ending", "--as", "hidden"])


@pytest.mark.parametrize("args", [["ending", "--as", "crash"], ["nowhere"], ["wrong"]])
def test_crash_is_never_a_verdict(
    args: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An internal error exits with 3 and a traceback, also while loading a command."""
    monkeypatch.setattr(sys, "argv", ["turngate", *args])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == 3
    assert capsys.readouterr().err.startswith("Traceback")


def test_reader_that_went_away_is_not_broken(played: Path) -> None:
    """A closed output pipe exits with 141, not with 1, which means "broken"."""
    reader, writer = os.pipe()
    os.close(reader)
    code = "from turngate.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "ending", "--as", "talk"],
        stdout=writer,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(played)},
        check=False,
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (141, b"")
