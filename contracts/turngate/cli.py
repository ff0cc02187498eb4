"""The one `turngate` command. A subcommand is a click command; an int that it returns is the exit code.

Exit codes of every command: 2 for a usage error, an invalid contract, a failed environment or unwritable output; 3 for
a crash of turngate; 130 when interrupted; 141 when the reader of the output is gone. 1 is reserved for "broken".
"""

import errno
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, TypeVar

import click
from click.core import ParameterSource

from turngate.errors import ContractError, TurngateError
from turngate.files import allows_few_files, overlay, use_overlay
from turngate.sanitize import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# our subcommands by task, each with its summary: reading entry points or docstrings would dominate the startup time
TASKS = {
    "Test releases of an engine": {
        "probe": ("turngate_probes.cli.probe:probe", "Test whether engines keep their contracts."),
        "gate": ("turngate_probes.cli.gate:gate", "Compare two releases: can I upgrade, and what must I change?"),
        "init": ("turngate_probes.cli.init:init", "Prepare a project: its settings, and a job for its CI."),
        "doctor": ("turngate_probes.cli.doctor:doctor", "Say which engines are here, and whether they are safe."),
        "matrix": ("turngate_probes.cli.matrix:matrix", "Probe many published releases of an engine."),
        "bisect": ("turngate_probes.cli.matrix:bisect", "Find the release that changed a clause's result."),
        "history": ("turngate_probes.cli.history:history", "Show which release of an engine changed what."),
        "report": ("turngate_probes.cli.report:report", "Render reports from saved JSON reports or journals."),
        "explain": ("turngate_probes.cli.explain:explain", "Explain a clause, or how to run an engine yourself."),
    },
    "Test an orchestrator": {
        "conform": ("turngate_probes.cli.conform:conform", "Test an orchestrator against engines that misbehave."),
        "simulate": ("turngate_probes.cli.simulate:simulate", "Run a simulated engine."),
        "stub": ("turngate_probes.cli.stub:stub", "Run the stub model for a CLI of your own."),
    },
    "Talk to an engine at a terminal": {
        "start": ("turngate_reference.conversations.cli.turns:start", "Begin a conversation with an engine."),
        "resume": ("turngate_reference.conversations.cli.turns:resume", "Continue a conversation, or reply to a run."),
        "handles": (
            "turngate_reference.conversations.cli.handles:handles",
            "List, show and prune conversations and runs.",
        ),
    },
    "Run agents on a server": {
        "serve": ("turngate_reference.server.cli:serve", "Run the reference server."),
    },
    "Add an engine": {
        "contracts": (
            "turngate_probes.cli.contracts:contracts",
            "Draft, validate and migrate contracts, and record releases.",
        ),
        "engines": ("turngate_probes.cli.engines:engines", "List engines, and install their pinned releases."),
    },
}
COMMANDS = {name: command for commands in TASKS.values() for name, command in commands.items()}
FIRST_STEPS = """turngate tests whether a new release of a coding-agent CLI breaks your automation.

  turngate doctor                        which engines are here, and are they safe?
  turngate probe codex                   does the codex on your PATH keep its contract?
  turngate gate codex                    can I upgrade, and what must I change?
  turngate conform -- python driver.py   does my orchestrator survive engines that misbehave?
  turngate start codex "PROMPT"          talk to an engine, then resume by a short handle
  turngate serve                         answer your agents in a browser or over HTTP

turngate --help lists all commands, and turngate COMMAND --help has examples."""
# what does the job of a name that turngate had
REPLACED = {
    "help": "turngate COMMAND --help",
    "install": "turngate engines install",
    "record": "turngate contracts record",
    "reply": "turngate resume",
    "runs": "turngate handles",
    "token": "turngate serve --print-token",
    "verify": "turngate probe --resume",
    "version": "turngate --version",
}
GROUP = "turngate.commands"  # the entry points with which other distributions add commands

UNANSWERED = 2
_VARIABLE = "TURNGATE_CONTRACTS"  # in place of --contracts
CRASHED = 3
INTERRUPTED = 130
READER_GONE = 141

Options = TypeVar("Options")

_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class OutputFailedError(Exception):
    """Output failed. Its cause is the error of the stream."""

    def __init__(self, error: OSError) -> None:
        self.reader_gone = error.errno == errno.EPIPE
        super().__init__(f"can't write the output: {error.strerror}")


def given_as(options: type[Options]) -> Callable[[Callable[[Options], int]], Callable[..., int]]:
    """Pass a command its options and arguments as one struct, whose fields have the names of its parameters."""

    def taking(command: Callable[[Options], int]) -> Callable[..., int]:
        @wraps(command)
        def taken(**given: Any) -> int:
            return command(options(**given))

        return taken

    return taking


@contextmanager
def _output_errors() -> Iterator[None]:
    """Convert output errors to one that click doesn't handle, since click exits with 1 for a closed pipe."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS or error.filename:  # the output has no name
            raise
        raise OutputFailedError(error) from error


class EntryPointGroup(click.Group):
    """A group of `COMMANDS` and of commands that other distributions register, each imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return every registered name, sorted."""
        return sorted(_registered())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Import one command; an unknown name raises click.UsageError, which suggests the nearest one."""
        target = COMMANDS[cmd_name][0] if cmd_name in COMMANDS else _registered().get(cmd_name)
        if target is None:
            if cmd_name in REPLACED:
                message = f"No such command {cmd_name!r}. Use `{REPLACED[cmd_name]}`."
                raise click.exceptions.NoSuchCommand(cmd_name, message, ctx=ctx)
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=_registered(), ctx=ctx)
        module, _, attribute = target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{target} is not a click command")
        return command

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Parse the command line, and print the help page if requested."""
        with _output_errors():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _output_errors():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete the name of a command without importing any, or complete an option."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only completion needs it

        named = [CompletionItem(name, help=what) for name, what in _rows() if name.startswith(incomplete)]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands by task, then those of other distributions, without importing any."""
        others = {name: ("", target) for name, target in _registered().items() if name not in COMMANDS}
        for task, commands in (*TASKS.items(), ("Commands of other packages", others)):
            if commands:
                with formatter.section(task):
                    formatter.write_dl([(name, what) for name, (_, what) in commands.items()], col_max=12)


def _rows() -> list[tuple[str, str]]:
    """Return each command with its summary or, if it isn't ours, the distribution that registers it."""
    return [(name, COMMANDS.get(name, ("", target))[1]) for name, target in sorted(_registered().items())]


def _registered() -> dict[str, str]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - as slow to import as click; only help needs it

    ours = {name: target for name, (target, _) in COMMANDS.items()}
    return {entry.name: entry.value for entry in entry_points(group=GROUP)} | ours


def use_contracts(ctx: click.Context, _option: click.Parameter, folder: Path | None) -> None:
    """Use the contracts in a folder, the value of an option, and warn of those that can't be used."""
    if folder is None:
        return
    is_absent = not folder.exists()
    if is_absent and ctx.parent and not ctx.resilient_parsing:
        raise _no_contracts(folder)
    if is_absent or ctx.resilient_parsing:  # a shell completes a word, or the command may make the folder
        use_overlay(folder)
        return
    from turngate.contract.lint import override  # noqa: PLC0415 - slow to import, and asked for by few

    for message in override(folder):
        click.echo(click.style("Warning:", fg="yellow", bold=True) + " " + visible(message, keep="\n\t"), err=True)


def needs_contracts() -> None:
    """click.BadParameter if the folder of --contracts does not exist: only `contracts new` makes it."""
    if (folder := overlay()) and not folder.exists():
        raise _no_contracts(folder)


def _no_contracts(folder: Path) -> click.BadParameter:
    made = "turngate --contracts DIR contracts new ENGINE makes it"
    source = click.get_current_context().find_root().get_parameter_source("contracts")
    named = _VARIABLE if source is ParameterSource.ENVIRONMENT else "--contracts"
    return click.BadParameter(f"Directory {str(folder)!r} does not exist; {made}.", param_hint=f"'{named}'")


@click.group(cls=EntryPointGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turngate", message="turngate %(version)s", help="Print the version.")
@click.option(
    "--contracts",
    envvar=_VARIABLE,
    show_envvar=True,
    expose_value=False,
    callback=use_contracts,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Contracts and pins in DIR override the bundled ones. Only `contracts new` creates DIR.",
)
@click.pass_context
def turngate(ctx: click.Context) -> int:
    """Test whether a new release of a coding-agent CLI breaks your automation."""
    if ctx.invoked_subcommand != "contracts":
        needs_contracts()
    if ctx.invoked_subcommand is None:
        click.echo(FIRST_STEPS)
        return UNANSWERED  # a script whose command is empty has tested nothing
    return 0


def run(args: Sequence[str]) -> int:
    """Run the arguments `args` of the command line and return the exit code; a crash propagates."""
    try:
        with _output_errors():
            return _run(args)
    except OutputFailedError as failed:
        # prevents the interpreter from writing buffered output at exit
        sys.stdout = StringIO()
        if failed.reader_gone:
            sys.stderr = StringIO()
            return READER_GONE
        try:
            _print_error(str(failed))
        except OSError:
            sys.stderr = StringIO()
        return UNANSWERED


def _run(args: Sequence[str]) -> int:
    try:
        code = turngate.main(args=list(args), prog_name="turngate", standalone_mode=False)
    except click.ClickException as error:
        _placed(error).show()
        return UNANSWERED
    except click.Abort:
        return INTERRUPTED
    except TurngateError as error:
        print_error(error)
        return UNANSWERED
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _print_error(f"the disk is full: {error.filename} can't be written\nfree some space on it")
        elif error.errno in (errno.EMFILE, errno.ENFILE):
            _print_error(f"{error.strerror}; raise the limit (ulimit -n)")
        else:
            raise
        return UNANSWERED
    except ImportError:
        # without a free descriptor the interpreter can't list a folder, and takes what is in it for missing
        if not allows_few_files():
            raise
        _print_error("Too many open files; raise the limit (ulimit -n)")
        return UNANSWERED
    return code if isinstance(code, int) else 0


def _placed(error: click.ClickException) -> click.ClickException:
    """Return an error that says where an option stands if it was given after a command of its group, or the same."""
    command = error.ctx if isinstance(error, click.NoSuchOption) else None
    while command and (group := command.parent):
        for option in group.command.params:
            if isinstance(error, click.NoSuchOption) and error.option_name in option.opts:
                form = f"{group.command_path} {error.option_name} {option.make_metavar(group)} {command.info_name} …"
                return click.UsageError(f"{error.option_name} stands before the command: `{form}`.", error.ctx)
        command = group
    return error


def print_error(error: TurngateError, about: str = "") -> None:
    """Print an error on stderr; `about` names which of several things it is about."""
    parts = (str(error),) if isinstance(error, ContractError) else (error.what, error.hint)
    _print_error(about + "\n".join(filter(None, parts)))


def _print_error(text: str) -> None:
    click.echo(click.style("Error:", fg="red", bold=True) + " " + visible(text, keep="\n\t"), err=True)


def main() -> Never:
    """Run the command line of this process and exit."""
    try:
        code = run(sys.argv[1:])
    except Exception:  # noqa: BLE001 - whatever it was, it must not end as a verdict
        sys.excepthook(*sys.exc_info())
        code = CRASHED
    gc.freeze()  # otherwise the interpreter traverses all imports at exit: 15 of 105 ms for --version
    sys.exit(code)
