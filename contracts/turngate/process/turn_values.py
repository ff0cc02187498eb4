"""One turn as a value in and a value out, so that a queue can carry turns to any host and repeat none by mistake."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from turngate.argv.build import AutoFlagRefusedError
from turngate.argv.environment import engine_environment
from turngate.argv.trust import NO_TRUST, Trust
from turngate.contract.cached import cached_contract
from turngate.contract.load import engine_names
from turngate.decoding import decode
from turngate.errors import (
    ContractError,
    MachineError,
    RefusedError,
    TurngateError,
    UnsafeTurnError,
    UsageError,
)
from turngate.model import AdapterTurnResult, EngineSessionHandle
from turngate.process.converse import ConversationSetup
from turngate.process.executable import find_executable
from turngate.process.execution import ProcessRequest, Stop
from turngate.process.installed_release import version_in_folder
from turngate.process.tree import check_tag
from turngate.process.turn_run import TIMEOUT, run_turn
from turngate.turn.read import TurnReader


class _WorkspaceError(UsageError):
    """The directory of a turn can't be used."""


class _UnknownEngineError(ContractError):
    """No contract describes the engine."""


class _JsonValue(Struct, frozen=True):
    def to_json(self) -> str:
        """Return the value as one line of JSON, which later versions of turngate read, too."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the value that `to_json` wrote; UsageError: it is none. Safe in any thread."""
        try:
            return decode(text, cls)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"this is no {cls.__name__}: {error}") from error


class TurnInput(_JsonValue, frozen=True):
    """All that a host needs to run a turn in mode interactive: a value for a queue or a database.

    `message` is the task, or the user's reply if `session` is set. `workspace` is an absolute path on that host, and
    the same for all turns of a session; `play_turn` refuses another one. `timeout` is in seconds of wall time.

    >>> turn = turngate.TurnInput("codex", "Paint the door", "/work")
    >>> turngate.TurnInput.from_json(turn.to_json()) == turn
    True
    """

    engine: str
    message: str
    workspace: str
    session: EngineSessionHandle | None = None
    options: tuple[str, ...] = ()
    model: str | None = None
    timeout: float = TIMEOUT

    def reply(self, message: str, output: "TurnOutput") -> "TurnInput":
        """Return the turn that resumes the session of this one with the user's reply."""
        return msgspec.structs.replace(self, message=message, session=output.session)


class TurnOutput(_JsonValue, frozen=True):
    """What a turn brought: its result, and the session to resume (None: there is none).

    >>> output = turngate.TurnOutput(turngate.AdapterTurnResult("final", {"colour": "blue"}))
    >>> turngate.TurnOutput.from_json(output.to_json()).result.final_data
    {'colour': 'blue'}
    """

    result: AdapterTurnResult
    session: EngineSessionHandle | None = None


def play_turn(turn: TurnInput, *, stop: Stop | None = None, tag: str = "", trust: Trust = NO_TRUST) -> TurnOutput:
    """Run a turn on this host with the engine on PATH, and return when all of its processes have ended.

    Each turn asks the engine for its version in the workspace, so an upgrade between two turns is noticed. The result
    is an `error` with its reason if the engine fails, if it answers in another session, or if `stop` is set. `tag`
    marks the processes of the turn: give the same one to `end_tagged` if this program was killed meanwhile. It has no
    slash.

    ContractError, RefusedError, UsageError or MachineError: the engine got nothing of this turn, and `not_started` says
    why. So it is if settings of the user or files of the workspace would let it act unasked, and `trust` doesn't allow
    that.

    >>> from pathlib import Path
    >>> turn = turngate.TurnInput("codex", "Paint the door", str(Path.cwd()))
    >>> asked = turngate.play_turn(turn)
    >>> turngate.play_turn(turn.reply("red", asked)).result.final_data
    {'colour': 'red'}
    """
    request, reader = _prepared(turn, trust, stop)
    reading = run_turn(msgspec.structs.replace(request, max_output=0, tag=tag), reader, stop=stop).reading
    return TurnOutput(reading.result, reading.session)


def check_turn(turn: TurnInput, *, trust: Trust = NO_TRUST) -> None:
    """Raise the errors with which `play_turn` would refuse a turn now, such as a missing engine or a refused option.

    A server calls it before it accepts a task or a reply. The engine is asked for its version at most, as in
    `play_turn`, which checks the same again.

    >>> from pathlib import Path
    >>> try:
    ...     turngate.check_turn(turngate.TurnInput("codex", "Paint the door", str(Path.cwd()), options=("--yolo",)))
    ... except turngate.RefusedError as refused:
    ...     print(refused.subject)
    --yolo
    """
    _prepared(turn, trust)


def not_started(error: TurngateError | OSError) -> str:
    """Return why `check_turn` or `play_turn` did not start the engine, as `CODE: detail`.

    The codes are those of the HTTP API: `UNKNOWN_ENGINE`, `ENGINE_UNAVAILABLE`, `WORKSPACE_UNAVAILABLE`,
    `ENGINE_UNSAFE` if nothing keeps the engine from acting unasked, `AUTO_FLAG_REFUSED` for an option that would let it
    act so, `OPTION_REFUSED` for another option or the model, and `PROMPT_REFUSED` for a text.

    >>> turngate.not_started(turngate.NotInstalledError("no codex on PATH"))
    'ENGINE_UNAVAILABLE: no codex on PATH'
    """
    code = "ENGINE_UNAVAILABLE"
    if isinstance(error, UnsafeTurnError):
        code = "ENGINE_UNSAFE"
    elif isinstance(error, AutoFlagRefusedError):
        code = "AUTO_FLAG_REFUSED"
    elif isinstance(error, RefusedError):
        code = "PROMPT_REFUSED" if error.subject is None else "OPTION_REFUSED"
    elif isinstance(error, _WorkspaceError):
        code = "WORKSPACE_UNAVAILABLE"
    elif isinstance(error, _UnknownEngineError):
        code = "UNKNOWN_ENGINE"
    return f"{code}: {error}"


def end_tagged(tags: Iterable[str]) -> None:
    """End the processes that turns with these tags left on this host, if the program that ran them was killed.

    It sends SIGTERM and, after 2 seconds, SIGKILL. MachineError names the processes that are left all the same.
    UsageError: `tags` is a single text, or no turn can have one of them.

    >>> turngate.end_tagged(["run-1.2"])
    """
    from turngate.process.family import Noted, end_orphans  # noqa: PLC0415 - psutil is slow to import

    if isinstance(tags, str):  # each of its letters would be taken for a tag
        raise UsageError(f"{tags!r} is no list of tags", f"write end_tagged([{tags!r}])")
    noted = [Noted(tag) for tag in tags]
    for each in noted:
        check_tag(each.tag)
    if Noted("") in noted:
        raise UsageError("an empty tag marks no turn", "give each turn a tag of its own")
    if left := end_orphans(noted):
        raise MachineError(f"processes of a turn can't be ended: {', '.join(map(str, left))}", "end them yourself")


def _prepared(turn: TurnInput, trust: Trust, stop: Stop | None = None) -> tuple[ProcessRequest, TurnReader]:
    """Return the process that runs a turn, and its reader."""
    workspace = Path(turn.workspace)
    if not workspace.is_absolute():
        raise _WorkspaceError(f"the workspace {turn.workspace!r} is not absolute", "pass its whole path on this host")
    if not workspace.is_dir():
        raise _WorkspaceError(f"the workspace {turn.workspace!r} is missing", "all turns of a session run in it")
    if turn.engine not in engine_names():
        known = ", ".join(engine_names())
        raise _UnknownEngineError(f"no contract for engine {turn.engine[:100]!r}", hint=f"known: {known}")
    newest = cached_contract(turn.engine)
    executable = find_executable(newest)
    env = engine_environment(newest, os.environ)
    contract = cached_contract(turn.engine, version_in_folder(newest, executable, workspace, env, stop))
    given = (turn.options, turn.model)
    setup = ConversationSetup(contract, executable, workspace, *given, timeout=turn.timeout, trust=trust)
    return setup.turn(turn.message, turn.session)
