"""Prints the agent's answer, its question, and how to continue, for a person at a terminal."""

import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, TextIO

import click
from msgspec import to_builtins

from turngate import Ended, Interaction, Repair, Stop
from turngate.process.execution import EXIT_LIMIT
from turngate.process.session_store import session_exists
from turngate.sanitize import last_lines, quoted_lines, visible
from turngate.turn.envelope import BadEnvelope, Envelope, read_envelope
from turngate.turn.read import how_it_ended
from turngate_reference.conversations.conversation import Attempted, SentReply
from turngate_reference.engine.attempt import contract_for, traces
from turngate_reference.handle_record import HandleRecord, as_text

if TYPE_CHECKING:
    from turngate_reference.server.store.events import AskedQuestion

# newlines, tabs, and the joiners of emoji and letters, which are invisible but shape their neighbours
_KEPT = "\n\t\u200c\u200d"
_STDERR_LINES = 10
_SENT_LENGTH = 200
_note = partial(click.echo, err=True)


class PrintedTurn:
    """Prints the agent's texts as they arrive; if printing fails, it sets `failed` and the stop.

    An envelope is held back, and printed as plain text if the turn ends with it. At a terminal, where our own lines
    stand between those of the agent, the agent's are marked.
    """

    def __init__(self, stop: Stop) -> None:
        self.failed: OSError | None = None
        self._stop = stop
        self._held: str | None = None

    def text(self, text: str) -> None:
        """Print a text."""
        self._release()
        envelope = read_envelope(text)
        if isinstance(envelope, Envelope) and envelope.repair is not Repair.EMBEDDED_OBJECT:
            self._held = text
        else:
            self._print(text)

    def end(self, envelope: Envelope | BadEnvelope | None) -> None:
        """Print how the turn ended: its question or its result, in words."""
        if isinstance(envelope, Envelope):
            if envelope.interaction:
                self._echo(question_lines(envelope.interaction))
            else:
                self._print(json.dumps(envelope.final_data, indent=2, ensure_ascii=False))
        else:
            self._release()

    def _release(self) -> None:
        if self._held is not None:
            self._print(self._held)
        self._held = None

    def _print(self, text: str) -> None:
        self._echo(quoted(text) if sys.stdout.isatty() else [visible(text, keep=_KEPT)])

    def _echo(self, lines: list[str]) -> None:
        try:
            click.echo("\n".join(lines))
        except OSError as error:
            self.failed = error
            self._stop.set()


def quoted(text: str, mark: str = "| ", stream: TextIO | None = None) -> list[str]:
    """Return the lines of a text of others for a stream, by default stdout; none can pass for a line of ours."""
    stream = stream or sys.stdout
    return quoted_lines(text, mark, _columns(stream))


def _columns(stream: TextIO) -> int:
    """Return how wide the terminal of a stream is; 0 if it isn't one, or nobody knows."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def question_lines(asked: "Interaction | AskedQuestion") -> list[str]:
    """Return a question, as `turngate start` and `handles` show it."""
    lines = ["", *quoted(asked.prompt, "? ")]
    lines += [line for option in asked.options for line in quoted(option, "  - ")]
    lines += [line for field in asked.required_fields for line in quoted(f"{field}:", "  * ")]
    return lines


def as_json(done: Attempted | SentReply) -> str:
    """Return a record as ASCII JSON, with the agent's answer, the failures, and what was reported beside the answer."""
    if isinstance(done, SentReply):
        return as_text(done.record)
    reading = done.attempt.reading
    said = {"answer": reading.final_text, "failures": reading.failures, "reported": reading.reported}
    return json.dumps(done.record.to_json() | to_builtins(said), indent=2)


def sent(reply: SentReply) -> str:
    """Return that the server took a reply."""
    return "\n".join(quoted(reply.text[:_SENT_LENGTH], f"sent to {reply.record.handle}: "))


def note_quoted(text: str, mark: str) -> None:
    """Print a text of others on stderr."""
    _note("\n".join(quoted(text, mark, sys.stderr)))


def diagnostics(done: Attempted) -> None:
    """Print on stderr what went wrong in an attempt, and where to look."""
    record, reading, code = done.record, done.attempt.reading, done.attempt.exit_code
    folder = traces(record.run_directory, record.turns)
    for failure in reading.failures[-1:]:
        note_quoted(failure, f"{record.engine} failed: ")
    is_unexplained = not done.attempt.lingered and (not done.attempt.went_well or done.other_session)
    if is_unexplained and (lines := last_lines(reading.result.stderr, _STDERR_LINES)):
        note_quoted("\n".join(lines), "  | ")
    if done.attempt.interrupted:
        _note(f"interrupted; see {folder}")
    elif done.attempt.ended is Ended.TIMEOUT:
        limit = f"its time limit of {record.launch.session_timeout_sec} s"
        _note(f"{record.engine} was still running at {limit}, and was stopped; it may have changed files; see {folder}")
        if record.session.value is not None:
            _note("to give each turn more time, resume with --timeout SECONDS")
    elif code != 0:
        silent = ", without an answer; it may have changed files" if done.attempt.is_silent else ""
        _note(f"{record.engine} {_ended(done)}{silent}; see {folder}")
    elif not reading.ended:
        _note(f"{record.engine} exited with 0, but did not report the end of its turn; see {folder}")
    elif reading.final_text is None:
        answer = "no answer that can be read" if reading.framing else "no answer"
        _note(f"{record.engine} exited with 0, but returned {answer}; it may have changed files; see {folder}")
    _session_notes(done)
    _tell_what_is_saved(done)


def _session_notes(done: Attempted) -> None:
    """Print on stderr what is odd about the session id of an attempt."""
    record, reading = done.record, done.attempt.reading
    if done.other_session:
        back = f"got {reading.session.handle_value}" if reading.session else "got no session id"
        note_quoted(f"{record.session.value}, but {back}: {reading.handle.detail}", "requested session ")
        _note("this turn may lack the earlier conversation; the record keeps the requested session")
    if reading.handle.unfamiliar:
        note_quoted(reading.handle.unfamiliar, "the session id has an unfamiliar shape, but is used: ")
    if record.session.value is None:
        note_quoted(reading.handle.detail, "no session id: ")
    for one in reading.reported:
        if one.kind == "session":
            _note(one.text)


def _tell_what_is_saved(done: Attempted) -> None:
    record, session = done.record, done.record.session.value
    if done.unsaved:
        note_quoted(done.unsaved, "the result of this turn could not be saved: ")
    elif done.news:
        note_quoted(done.news, "")
    if done.deleted:
        left = f"; {record.engine} itself has it as session {session}" if session else ""
        note_quoted(left, f"turngate can't resume handle {record.handle}")


def _ended(done: Attempted) -> str:
    """Return how a process ended, unless it exited with 0."""
    if done.attempt.lingered:
        return f"was stopped: it was still running {EXIT_LIMIT:.0f} s after its turn"
    if (code := done.attempt.exit_code) is None:
        return "could not be run"
    return how_it_ended(code)


def continuation(record: HandleRecord, command: str) -> None:
    """Print on stderr what the operator allowed, the handle, and how to continue if that is possible."""
    if record.launch.trusted_workspace:
        _note(f"files in {record.launch.cwd} could configure {record.engine}, because you trust that directory")
    if record.launch.unsafe_allowed:
        _note(f"{record.engine} was allowed whatever its contract says about its safety")
    if record.session.value is None:
        _note(f"handle {record.handle} (it can't be resumed)")
    elif _is_missing(record, record.session.value):
        elsewhere = f": {record.engine} can resume it only if it keeps sessions in another place"
        lost = elsewhere if record.session.seen is False else ", so it can't be resumed"
        _note(f"handle {record.handle} (its session is not in the session store of {record.engine}{lost})")
    else:
        _note(f"handle {record.handle}; to continue: {command} {record.handle} MESSAGE")


def _is_missing(record: HandleRecord, session: str) -> bool:
    """Whether the engine's session store doesn't hold a session: it was never stored, or is lost."""
    store = contract_for(record.engine, record.engine_version or None).store
    return session_exists(store, session, record.launch.locations, record.launch.cwd) is False


def row(record: HandleRecord) -> str:
    """Return one line of the list of handles."""
    when = record.updated_at[:16].replace("T", " ")
    return visible(f"{record.handle}  {when}  {record.engine:10} {record.state.label:15}  {record.prompt[:54]}")
