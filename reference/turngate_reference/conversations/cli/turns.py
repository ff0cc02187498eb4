"""The subcommands that run turns in the user's own environment: `start` and `resume`."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from turngate import Ended, Mode, RefusedError, Stop, Trust, load_contract
from turngate.cli import given_as
from turngate.files import contract_files
from turngate.process.sessions import adopting_orphans
from turngate.process.signals import ending, handling_signals
from turngate_reference.conversations.cli import printing
from turngate_reference.conversations.cli.options import data_dir_option
from turngate_reference.conversations.cli.silence import Silence
from turngate_reference.conversations.conversation import Attempted, Conversations, SentReply, StartRequest
from turngate_reference.data_dir import data_dir
from turngate_reference.handle_record import DEFAULT_TIMEOUT_SEC, HandleRecord
from turngate_reference.trust_options import trust_options

NOT_RUN = 2
OTHER_SESSION, NO_ANSWER, NOT_SAVED = 4, 5, 6
SIGNALLED = 128
TIMED_OUT = 124  # as of timeout(1)
INTERRUPTED = 130
MAX_BYTES = 4 * 2**20

_CODES = """Exits with the engine's exit code (128 + N if signal N killed it), except: 2 the engine was not run,
4 the engine answered in a different session, 5 the engine exited with 0 without a whole answer, 6 the engine ran, but
its result can't be saved, 124 the engine was still running at its time limit, 130 interrupted, 141 the reader of the
output is gone."""

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON: the handle record with the answer.")


_file_marks = click.option(
    "--allow-file-marks",
    is_flag=True,
    help="In mode interactive, let marks in the text, such as @~/notes, make the engine read files anywhere.",
)


# the bounds are those of `session_timeout_sec` in the API
_timeout = partial(click.option, "--timeout", "session_timeout_sec", type=click.IntRange(1, 86400), metavar="SECONDS")


def _text_file(option: str, what: str) -> Callable[[Any], Any]:
    """Return an option that reads a text from a file, since Linux limits an argument to 128 KiB."""
    help_text = f"Read {what} from a file, byte for byte (- for standard input)."
    return click.option(option, "from_file", metavar="FILE", callback=_read, help=help_text)


def _read(_ctx: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with click.open_file(path, "rb") as file:
            data: bytes = file.read(MAX_BYTES + 1)
    except (OSError, RuntimeError) as error:  # RuntimeError: standard input is closed
        raise click.BadParameter(f"it can't be read: {error}") from error
    if len(data) > MAX_BYTES:
        raise click.BadParameter(f"it is longer than {MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"it isn't valid UTF-8 from byte {error.start + 1} on") from error


def _engines(ctx: click.Context, _words: click.Parameter, incomplete: str) -> list[str]:
    """Complete the engine, which is the first word."""
    names = () if ctx.params.get("engine") else contract_files()
    return [name for name in names if name.startswith(incomplete)]


class TurnOptions(Struct, frozen=True, kw_only=True):
    """What `start` and `resume` were both given; the options are described on their help pages."""

    from_file: str | None
    allow_unsafe: tuple[str, ...]
    trust_workspace: tuple[Path, ...]
    allow_file_marks: bool
    asked_dir: Path | None
    as_json: bool
    words: tuple[str, ...]


class StartOptions(TurnOptions, frozen=True, kw_only=True):
    """What `start` was given."""

    engine: str
    mode: str
    model: str | None
    cwd: Path | None
    session_timeout_sec: int


class ResumeOptions(TurnOptions, frozen=True, kw_only=True):
    """What `resume` was given."""

    handle: str
    session_timeout_sec: int | None


class EngineFirst(click.Command):
    """A command that takes the engine first, then options, then the prompt. Only `--` and engine options may follow."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Treat the first word as the engine, so that the options after it are turngate's."""
        if args and not args[0].startswith("-"):
            args = [f"--engine={args[0]}", *args[1:]]
        elif args[:1] not in (["-h"], ["--help"]) and not ctx.resilient_parsing:
            raise click.UsageError("ENGINE must come first: turngate start ENGINE …", ctx)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as unknown:
            hint = "Put a prompt that starts with a dash after `--`."
            raise click.UsageError(f"{unknown.format_message()} {hint}", ctx) from unknown


@click.command(
    cls=EngineFirst,
    options_metavar="ENGINE [OPTIONS]",
    context_settings={"allow_interspersed_args": False},
    epilog=_CODES,
)
@click.option("--engine", required=True, hidden=True)
@click.option(
    "--mode",
    type=click.Choice([m.value for m in Mode]),
    default=Mode.INTERACTIVE.value,
    show_default=True,
    help="In mode auto, the engine acts without asking.",
)
@click.option("--model", help="The model, as the engine names it.")
@click.option(
    "--cwd",
    type=click.Path(file_okay=False, path_type=Path),
    help="Working directory of the engine, also for resumes, such as `.`.  [default: a new, empty one]",
)
@_timeout(default=DEFAULT_TIMEOUT_SEC, show_default=True, help="Time limit in seconds for each turn, also for resumes.")
@_text_file("--prompt-file", "the prompt")
@trust_options
@_file_marks
@data_dir_option
@_as_json
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="[PROMPT] [-- ENGINE_ARGS...]", shell_complete=_engines
)
@given_as(StartOptions)
def start(options: StartOptions) -> int:
    """Start a conversation with an engine and get a handle to continue it.

    The engine runs in your own environment, with your login and your settings. Unless you choose a working directory
    with --cwd, it works in a new, empty one. In mode interactive, it accepts only the engine options that
    `turngate contracts options ENGINE` lists. The answer is printed as it arrives.

    Put a prompt that starts with a dash after `--`, and engine options after a second `--`:

    turngate start codex -- "-v or -q?" -- --add-dir docs
    """
    if not options.words:
        load_contract(options.engine)  # a prompt without an engine looks like an engine without a prompt
    text, args = _prompt_and_options(options.words, options.from_file)
    limit = options.session_timeout_sec
    asked = StartRequest(options.engine, text, Mode(options.mode), options.model, options.cwd, args, limit)
    return _converse(options, lambda conversations: conversations.start(asked))


def _prompt_and_options(words: tuple[str, ...], from_file: str | None) -> tuple[str, tuple[str, ...]]:
    """Split words into the prompt and the engine's options. click has removed a `--` before the first word."""
    if from_file is not None:
        if words and not words[0].startswith("-"):
            raise click.UsageError("give either a prompt or --prompt-file, not both")
        return from_file, words
    if not words:
        raise click.UsageError("the prompt is missing: give it as an argument or with --prompt-file")
    prompt, *rest = words
    if rest and rest[0].startswith("-") and rest[0] != "--":
        raise click.UsageError(
            f"{rest[0]!r} comes after the prompt: put OPTIONS of turngate before it, and ENGINE_ARGS after --"
        )
    if rest and rest[0] != "--":
        raise click.UsageError(
            "the prompt must be one argument: quote it, and put OPTIONS before it and ENGINE_ARGS after --"
        )
    return prompt, tuple(rest[1:])


@click.command(context_settings={"allow_interspersed_args": False}, epilog=_CODES)
@_timeout(help="Time limit in seconds for this turn and those that follow.  [default: that of the start]")
@_text_file("--message-file", "the message")
@trust_options
@_file_marks
@data_dir_option
@_as_json
@click.argument("handle")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[MESSAGE | -- MESSAGE...]")
@given_as(ResumeOptions)
def resume(options: ResumeOptions) -> int:
    """Continue a conversation by its handle, or reply to a run of `turngate serve` that waits.

    HANDLE may be shortened to an unambiguous prefix. Engine, session, options, mode and directory come from the record.
    If the server keeps the process of the run, it gets the message and runs the turn, and the exit code is 0. Put
    turngate's own options before HANDLE. MESSAGE is one argument, or everything after `--`.
    """
    text = _message(options.words, options.from_file)
    limit = options.session_timeout_sec
    return _converse(options, lambda conversations: conversations.resume(options.handle, text, limit))


def _message(words: tuple[str, ...], from_file: str | None) -> str:
    """Return the message: from the file, the one word after the handle, or all words after `--`."""
    if from_file is not None:
        if words:
            raise click.UsageError("give either MESSAGE or --message-file, not both")
        return from_file
    after_dashes = words[:1] == ("--",)
    message = words[1:] if after_dashes else words
    if not message:
        raise click.UsageError("MESSAGE is missing: give it after HANDLE, or use --message-file before HANDLE")
    if len(message) > 1 and not after_dashes:
        raise click.UsageError(
            "MESSAGE must be one argument: quote it or put `--` before it, and put OPTIONS before HANDLE"
        )
    return " ".join(message)


def _converse(options: TurnOptions, act: Callable[[Conversations], Attempted | SentReply]) -> int:
    """Run an attempt, print its result, and return the exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    data, stop = data_dir(options.asked_dir), Stop()
    data.check_layout()
    trusted = Trust(frozenset(options.allow_unsafe), options.trust_workspace)
    answer, silence = printing.PrintedTurn(stop), Silence()

    def show(text: str) -> None:
        silence.text()
        if not options.as_json:
            answer.text(text)

    # a signal ends the engine's whole tree, so that the record is still written
    with adopting_orphans(), handling_signals(ending(), lambda _: stop.set()), silence.watched():
        try:
            done = act(Conversations(data, show, silence.output, stop, trusted, options.allow_file_marks))
        except RefusedError as refused:
            raise click.UsageError(str(refused)) from refused
    if options.as_json:
        click.echo(printing.as_json(done))
    elif isinstance(done, SentReply):
        click.echo(printing.sent(done))
    else:
        answer.end(done.attempt.envelope)
    if isinstance(done, SentReply):
        return 0
    printing.diagnostics(done)
    if not options.as_json and not done.deleted:
        printing.continuation(done.record, data.command("resume", *_allowed(done.record)))
    if answer.failed:
        raise answer.failed
    return _exit_code(done)


def _allowed(record: HandleRecord) -> Iterator[str]:
    """Yield what a resume must be allowed, too, since it was allowed before."""
    if record.launch.trusted_workspace:
        yield from ("--trust-workspace", str(record.launch.cwd))
    if record.launch.unsafe_allowed:
        yield from ("--allow-unsafe", record.engine)


def _exit_code(done: Attempted) -> int:
    if done.unsaved:
        return NOT_SAVED
    if done.attempt.interrupted:
        return INTERRUPTED
    if done.attempt.ended is Ended.TIMEOUT:
        return TIMED_OUT
    if done.other_session:
        return OTHER_SESSION
    if done.attempt.lingered:
        return 0 if done.attempt.went_well else 1
    code = done.attempt.exit_code
    if code == 0 and not done.attempt.went_well:
        return NO_ANSWER
    return NOT_RUN if code is None else code if code >= 0 else SIGNALLED - code
