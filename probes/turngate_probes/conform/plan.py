"""What an engine plays in one run, as values."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct


class Play(Struct, frozen=True, forbid_unknown_fields=True):
    """What the engine does in one turn apart from answering.

    turn: The turn in which it does so, from 1. Absent: every turn.
    delay: Seconds before its first output.
    pause: Seconds between its first record and the next.
    together: It waits until every conversation of the scenario has come as far.
    stderr_bytes: How much it prints on stderr before its first line on stdout.
    waits_for_stdin: It starts when its standard input has ended.
    hang: It never ends: before its output, in the middle of it, or after it.
    ignores: Signals that it ignores.
    child: `works`: the executable starts the process that does the work, as a launcher does. `stays`: it leaves a
        process running that holds its streams.
    banner: Text that it prints before everything else on stdout.
    bom, crlf: How its text is encoded.
    unknown: It prints records of kinds that nobody knows.
    padding: The length of a text in one such record, in bytes.
    chunk: It writes this many bytes of stdout at a time.
    session_id: Where the session id is printed: nowhere, in the last record, or on stderr.
    omits_end: It doesn't print the record that proves the end of the turn.
    omits_answer: The turn ends properly, but its text is missing.
    crash: It dies in the middle of its output.
    exit_code: Replaces its exit code.
    session: On a resume, the session is lost (it says so), is replaced by a fresh one (it doesn't say so), or gets
        another id.
    says: What the model says before its question or answer: an imitation of records, or of an envelope, or characters
        of several bytes.
    backend: The HTTP status with which the model backend fails.
    release: The executable becomes the next release: `after` the turn, or `during` it.
    """

    turn: int | None = None
    delay: float = 0.0
    pause: float = 0.0
    together: bool = False
    stderr_bytes: int = 0
    waits_for_stdin: bool = False
    hang: Literal["before", "during", "after"] | None = None
    ignores: tuple[Literal["SIGTERM", "SIGINT"], ...] = ()
    child: Literal["works", "stays"] | None = None
    banner: str = ""
    bom: bool = False
    crlf: bool = False
    unknown: bool = False
    padding: int = 0
    chunk: int = 0
    session_id: Literal["absent", "last", "stderr"] | None = None
    omits_end: bool = False
    omits_answer: bool = False
    crash: bool = False
    exit_code: int | None = None
    session: Literal["lost", "fresh", "renamed"] | None = None
    says: Literal["records", "envelope", "unicode"] | None = None
    backend: int | None = None
    release: Literal["after", "during"] | None = None


class Conversation(Struct, frozen=True):
    """One conversation: its name, what the user says in each turn, and the word that only the right answer contains."""

    name: str
    prompts: tuple[str, ...]
    answer: str


class Plan(Struct, frozen=True):
    """What an executable needs to play its part: `folder` also gets its records.

    real: The real CLI that it runs instead of the simulated one, with these variables; empty: none.
    """

    folder: str
    engine: str
    version: str
    conversations: tuple[Conversation, ...]
    plays: tuple[Play, ...] = ()
    turns: int = 2
    real: str = ""
    real_env: Mapping[str, str] = {}
