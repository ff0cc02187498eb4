"""The content of `recording.yaml`: one turn of a real release, or one page such as its help.

`schema/recording.json` and `schema/recorded-page.json` are generated from these structs.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from turngate import Ended, Mode
from turngate.contract.values import NOT_EMPTY, Strings, Text

_CaseStep = Annotated[str, Meta(pattern="^[a-z0-9-]+/[a-z0-9-]+$")]
_Argument = Annotated[int, Meta(ge=0)]
_Count = Annotated[int, Meta(ge=1)]


class LongPrompt(Struct, frozen=True):
    """A long prompt: `characters` of `repeated` text between `before` and `after`."""

    before: str
    repeated: Text
    characters: _Count
    after: str


class Recording(Struct, frozen=True, kw_only=True, tag_field="schema", tag="turngate.recording/1"):
    """One turn of a real release, as run.

    Its streams and, if the backend received them, its requests are files in the same folder.

    turn: The case and step of the probe.
    argv: The command as run; the first is the executable's name.
    prompt_at: Which arguments after the executable hold the prompt.
    stdin: What standard input was: empty, a pipe without data, or the prompt.
    cwd: The name of the working directory.
    env: Names of the variables that were set, in addition to those of the machine.
    resumed: The session id that the turn resumes.
    nonce: A unique word in the prompt.
    answer: The model backend's reply.
    signal: The signal that the process group was sent at the first request.
    ended: What ended the process; `lingered`: it did not exit after its terminal event.
    leftovers: Commands of processes that were left running.
    replaced: Descriptions of removed or replaced text.
    """

    turn: _CaseStep
    argv: Annotated[Strings, NOT_EMPTY]
    prompt_at: tuple[_Argument, ...]
    stdin: Literal["closed", "open", "prompt"]
    mode: Mode
    cwd: str
    env: Strings
    turn_index: _Count
    resumed: str | None
    prompt: str | LongPrompt
    nonce: str
    answer: str
    signal: str | None
    exit_code: int | None
    ended: Ended
    leftovers: tuple[Strings, ...]
    replaced: Strings


class RecordedPage(Struct, frozen=True, kw_only=True, tag_field="schema", tag="turngate.recorded-page/1"):
    """The output of a plain command of a real release, such as its help; its streams are files in the same folder.

    page: The case and step of the probe.
    argv: The command as run; the first is the executable's name.
    replaced: Descriptions of removed or replaced text.
    """

    page: _CaseStep
    argv: Annotated[Strings, NOT_EMPTY]
    exit_code: int | None
    ended: Ended
    replaced: Strings
