"""What a person at a terminal reads: the agent's words, its question, and how to go on."""

import json
import shlex
from collections.abc import Callable

import click

from turngate.envelope import Envelope, read_envelope
from turngate.model import Interaction
from turngate.plain import visible
from turngate_reference.conversation import Done
from turngate_reference.handle_record import HandleRecord


def agent_text(text: str) -> None:
    """Print a text of the agent as it comes, save an envelope, which is told in words at the end."""
    if not isinstance(read_envelope(text), Envelope):
        click.echo(visible(text, keep="\n\t"))


def ending(done: Done, command: str, *, quiet: bool) -> None:
    """Print the question or the result (unless `quiet`); on stderr diagnostics, handle and how to continue."""
    found = done.attempt.envelope
    if isinstance(found, Envelope) and not quiet:
        click.echo(_question(found.interaction) if found.interaction else _final(found))
    note: Callable[[str], None] = lambda text: click.echo(text, err=True)  # noqa: E731 - a name for one use
    record, reading = done.record, done.attempt.reading
    for failure in reading.failures[-1:]:
        note(f"{record.engine} failed: {visible(failure)}")
    if done.attempt.interrupted:
        note("interrupted")
    elif done.attempt.exit_code != 0:
        note(f"{record.engine} exited with {done.attempt.exit_code}; see {record.run_directory}")
    elif not reading.ended:
        note(f"{record.engine} exited with 0, but nothing proves that its turn ended; see {record.run_directory}")
    if done.other_session:
        note(f"asked for session {record.session_value}, but {visible(done.other_session)} came back:")
        note("the engine did not know what was said before. The record keeps the session that was asked for.")
    if record.session_value is None:
        note(f"no session id was found: {visible(reading.handle.detail)}")
        note(f"handle {record.handle} (it can't be resumed)")
    else:
        note(f"handle {record.handle}; to continue: {command} {record.handle} MESSAGE")


def row(record: HandleRecord) -> str:
    """Give one line of the list of handles."""
    when = record.updated_at[:16].replace("T", " ")
    return f"{record.handle}  {when}  {record.engine:10} {record.state:9} {visible(record.prompt[:60])}"


def resume_command(data_dir: str | None) -> str:
    """Give the command that continues, as it must be typed."""
    return "turngate resume" + (f" --data-dir {shlex.quote(data_dir)}" if data_dir else "")


def _question(asked: Interaction) -> str:
    lines = ["", f"? {visible(asked.prompt, keep=chr(10))}"]
    lines += [f"  - {visible(option)}" for option in asked.options]
    lines += [f"  {visible(field)}:" for field in asked.required_fields]
    return "\n".join(lines)


def _final(found: Envelope) -> str:
    return visible(json.dumps(found.final_data, indent=2, ensure_ascii=False), keep="\n")
