"""The one `turngate` command, which finds its subcommands through the entry-point group `turngate.commands`.

A subcommand is a click command; an int that it returns is the exit code. Its module is imported only when it
is asked for. Exit codes of all: 2 for usage, a wrong contract or a failed environment; 3 for a crash of ours;
130 when interrupted; 141 when the reader of our output went away. 1 is left to the verdict "broken".
"""

import gc
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import click

from turngate.errors import ContractError, EnvironmentFailed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "turngate.commands"

UNANSWERED = 2
CRASHED = 3
INTERRUPTED = 130
READER_GONE = 141


class EntryPointGroup(click.Group):
    """A group whose commands are the entry points of `GROUP`, each imported when it is first asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name every registered command, sorted."""
        return sorted(_registered())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Import one command; raises click.UsageError naming the nearest when there is none of that name."""
        target = _target(cmd_name)
        if target is None:
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=_registered(), ctx=ctx)
        module, _, attribute = target.partition(":")
        command = getattr(import_module(module), attribute)
        gc.enable()
        if not isinstance(command, click.Command):
            raise TypeError(f"{target} is not a click command")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; when nobody reads the output any more, end with a code other than click's 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # what is still buffered must not be written at the end of the interpreter
            sys.stdout = sys.stderr = StringIO()
            return READER_GONE

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List each command with its summary, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(entry)) for name, entry in sorted(_registered().items())])


def summary(entry: "EntryPoint") -> str:
    """Return the first line of the docstring of the function behind `entry`, empty if it is not to be had."""
    return _docstrings(entry.module).get(entry.attr, "").partition("\n")[0]


@cache
def _docstrings(module: str) -> dict[str, str]:
    """Read the docstrings of a module's functions from its source, since importing it for help is slow."""
    try:
        spec = find_spec(module)
    except ImportError:  # the package around it is missing
        return {}
    import ast  # noqa: PLC0415 - help alone needs it

    tree = ast.parse(Path(spec.origin).read_text("utf-8") if spec and spec.origin else "")
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {each.name: ast.get_docstring(each) or "" for each in functions}


def _registered() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - as slow to import as click; help can wait for it

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _target(name: str) -> str | None:
    """Find what a command is registered as, `module:attribute`: by the plain files of installed distributions."""
    # ours first, which nearly always has it
    for pattern in ("turngate-*.dist-info", "*.dist-info"):
        for file in chain.from_iterable(Path(folder).glob(f"{pattern}/entry_points.txt") for folder in sys.path):
            section = file.read_text("utf-8", "replace").partition(f"[{GROUP}]\n")[2].partition("\n[")[0]
            for line in section.splitlines():
                key, _, target = line.partition("=")
                if key.strip() == name:
                    return target.strip()
    entry = _registered().get(name)
    return entry.value if entry else None


def _print_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 - as above

        click.echo(f"turngate {version('turngate')}")
        ctx.exit()


def _lay_over(ctx: click.Context, _option: click.Parameter, folder: Path | None) -> None:
    if folder is None:
        return
    from turngate.contract.lint import lay_over  # noqa: PLC0415 - slow to import, and asked for by few

    if mistakes := lay_over(folder):
        for mistake in mistakes:
            click.echo(f"{click.style('Error:', fg='red', bold=True)} {mistake}", err=True)
        ctx.exit(UNANSWERED)


@click.group(cls=EntryPointGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@click.option(
    "--contracts", envvar="TURNGATE_CONTRACTS", show_envvar=True, expose_value=False, callback=_lay_over,
    type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="Have the contracts in DIR/engines, and the pins in DIR/pins, go before ours.",
)  # fmt: skip
def turngate() -> None:
    """Ask whether a release of a coding-agent CLI still keeps what an orchestrator relies on."""


def run(args: Sequence[str]) -> int:
    """Run the arguments `args` of the command line and return the exit code; a crash propagates."""
    try:
        code = turngate.main(args=list(args), prog_name="turngate", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return UNANSWERED
    except click.Abort:
        return INTERRUPTED
    except (ContractError, EnvironmentFailed) as error:
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {explain(error)}", err=True)
        return UNANSWERED
    return code if isinstance(code, int) else 0


def explain(error: ContractError | EnvironmentFailed) -> str:
    """Say in one paragraph what is wrong, where, and what to do about it."""
    if isinstance(error, ContractError):
        return str(error)
    return "\n".join(part for part in (error.what, error.hint) if part)


def main() -> Never:
    """Run the command line of this process and exit."""
    gc.disable()  # until the command is imported, since all that an import makes is kept
    try:
        code = run(sys.argv[1:])
    except Exception:  # noqa: BLE001 - whatever it was, it must not end as a verdict
        sys.excepthook(*sys.exc_info())
        code = CRASHED
    # else the interpreter, while it ends, looks through all that was ever imported once more
    gc.freeze()
    sys.exit(code)
