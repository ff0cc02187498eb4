"""Starts a conversation with an engine, continues it by its handle, and keeps its record up to date."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from turngate import (
    EngineContract,
    Invocation,
    MachineError,
    Mode,
    NotFoundError,
    RefusedError,
    Reported,
    Stop,
    Trust,
    TurngateError,
    TurnReader,
    UsageError,
    first_turn,
    resumed_turn,
    session_locations,
)
from turngate.argv.environment import relocated
from turngate.argv.file_marks import check_file_marks
from turngate.argv.trust import NO_TRUST
from turngate.model import HUNG
from turngate.turn.envelope import Envelope
from turngate.turn.read import session_caveats
from turngate_reference import handle_record
from turngate_reference.data_dir import DataDir, locked
from turngate_reference.engine.attempt import (
    Attempt,
    InstalledEngine,
    OnOutput,
    RunOptions,
    attempt,
    find_engine,
    traces,
)
from turngate_reference.engine.session import ObstacleError, check_stored, seen_after_first_turn
from turngate_reference.handle_record import (
    NO_SESSION,
    DeletedRecordError,
    HandleRecord,
    LaunchSettings,
    SessionReference,
)
from turngate_reference.states import State


class StartRequest(Struct, frozen=True):
    """A conversation that a user asks for; `cwd` None: it works in its run directory. `args` are engine options."""

    engine: str
    prompt: str
    mode: Mode
    model: str | None
    cwd: Path | None
    args: tuple[str, ...]
    session_timeout_sec: int


class Attempted(Struct, frozen=True):
    """An attempt and the record after it.

    `other_session` says that a resume ended in another session than the one asked for, or succeeded without a session
    id; `news` describes the served run after it; `unsaved` says why the result could not be saved, and `deleted` that
    nothing is left with which it could be continued.
    """

    record: HandleRecord
    attempt: Attempt
    other_session: bool
    news: str = ""
    unsaved: str = ""
    deleted: bool = False


class SentReply(Struct, frozen=True):
    """A reply that the server took, as it was sent, and the record since."""

    record: HandleRecord
    text: str


class Conversations(Struct, frozen=True):
    """What starting and continuing share: the data directory, the stop, and the listeners.

    `on_text` gets the agent's texts, `on_output` all that the engine prints.
    """

    data: DataDir
    on_text: Callable[[str], None]
    on_output: OnOutput
    stop: Stop
    trust: Trust = NO_TRUST
    allow_file_marks: bool = False

    def start(self, asked: StartRequest) -> Attempted:
        """Run the first turn in a new run directory; RefusedError, UsageError and MachineError come before that."""
        _check_text("prompt", asked.prompt)
        installed, cwd = find_engine(asked.engine, self.data, self.stop, asked.cwd), asked.cwd
        if cwd is not None and not cwd.is_dir():
            raise NotFoundError(f"directory {cwd} doesn't exist", "create it, or use another --cwd")
        workspace = cwd or self.data.runs / "new"  # it is not made yet
        built = first_turn(
            self.safe(installed.contract, asked.mode, asked.prompt, cwd, workspace, {}),
            asked.prompt,
            asked.mode,
            options=asked.args,
            model=asked.model,
            workspace=workspace,
            allow_file_marks=True,
        )
        with self.data.new_run(asked.engine) as (handle, directory), _naming(self.data, handle):
            launch = LaunchSettings(
                args=asked.args,
                mode=asked.mode,
                model=asked.model,
                cwd=(cwd or directory).absolute(),
                session_timeout_sec=asked.session_timeout_sec,
                locations=session_locations(installed.contract, os.environ),
                trusted_workspace=cwd is not None and self.trust.trusts(cwd),
                unsafe_allowed=asked.engine in self.trust.unsafe_engines,
            )
            record = handle_record.new(directory, asked.engine, launch, asked.prompt, state=State.FAILED, turns=1)
            return self._attempt(record, record, installed, built)

    def resume(self, prefix: str, message: str, session_timeout_sec: int | None) -> Attempted | SentReply:
        """Run the next turn of a conversation, or let the server that keeps its process; TurngateError: it can't be.

        `session_timeout_sec` limits this turn and all that follow (None: the limit stays).
        """
        handle = handle_record.find(self.data, prefix).handle
        with locked(self.data.lock(handle), handle):
            # read again: another attempt may have ended between finding and locking
            record = handle_record.find(self.data, handle)
            self.data.make()
            if record.served:
                from turngate_reference.conversations import served  # noqa: PLC0415 - it needs a database, and takes longer

                with served.opened(self.data, record) as run:
                    if run.waits and session_timeout_sec is not None:
                        what = f"the time limit of {handle} can't be changed: it is a run of turngate serve"
                        raise UsageError(what, "leave --timeout out")
                    if run.is_kept:
                        return SentReply(*run.send(message))
                    if run.waits:
                        record, done, news, unsaved = run.reply(
                            message, self.on_text, self.on_output, self.stop, self.safe
                        )
                        tried = Attempted(record, done, _is_other_session(done, record.session.value), news, unsaved)
                        if self.data.database.exists():
                            return tried
                        why = f"somebody deleted the database {self.data.database} during the turn"
                        return replace(tried, unsaved=why, deleted=True)
                    record = run.record_after(record)
            news = f"run {record.run_id} had already ended and doesn't show this turn" if record.served else ""
            if session_timeout_sec is not None:
                record = replace(record, launch=replace(record.launch, session_timeout_sec=session_timeout_sec))
            tried = self._continue(record, message)
            return replace(tried, news=news or tried.news)

    def safe(
        self,
        contract: EngineContract,
        mode: Mode,
        text: str,
        chosen: Path | None,
        cwd: Path,
        locations: Mapping[str, str | None],
    ) -> EngineContract:
        """Return the contract for a turn in `cwd`, which the user has `chosen`, or which is the run's own (None).

        `locations` are those of the conversation. RefusedError: nothing makes the turn safe, or the text makes the
        engine read a file outside `cwd`.
        """
        self.trust.check(contract, mode, chosen, relocated(os.environ, locations))
        if mode is Mode.INTERACTIVE and not self.allow_file_marks:
            check_file_marks(contract, text, cwd)
        return self.trust.applied(contract, cwd)

    def _continue(self, record: HandleRecord, message: str) -> Attempted:
        """Resume the session that a record names; the caller holds its lock."""
        _check_text("message", message)
        handle, launch = record.handle, record.launch
        for directory in (record.run_directory, launch.cwd):
            if not directory.is_dir():
                hint = f"restore it, or start again: {self._start(record)}"
                raise NotFoundError(f"directory {directory} of {handle} doesn't exist any more", hint)
        caveats: tuple[Reported, ...] = ()
        if record.state is State.RUNNING:  # turngate was killed in the last attempt
            from turngate_reference.conversations import killed  # noqa: PLC0415 - slow to import, and seldom needed

            contract = find_engine(record.engine, self.data, self.stop, launch.cwd).contract
            record, caveats = killed.settled(record, contract), session_caveats(contract, failed=True, killed=True)
        session = self._session(record)
        installed = find_engine(record.engine, self.data, self.stop, launch.cwd)
        try:
            check_stored(installed.contract, session, launch.locations, launch.cwd, seen=record.session.seen)
        except ObstacleError as lost:
            hint = lost.hint or f"restore it, or start again: {self._start(record)}"
            raise UsageError(f"{handle} can't be resumed: {lost.detail}", hint) from lost
        chosen = None if launch.cwd == record.run_directory.absolute() else launch.cwd
        contract = self.safe(installed.contract, launch.mode, message, chosen, launch.cwd, launch.locations)
        built = resumed_turn(
            contract,
            message,
            launch.mode,
            session,
            options=launch.args,
            model=launch.model,
            workspace=launch.cwd,
            allow_file_marks=True,
        )
        with _naming(self.data, handle):
            tried = self._attempt(record, record.updated(turns=record.turns + 1), installed, built)
        return replace(tried, news="; ".join(f"in the last turn, {one.text}" for one in caveats))

    def _session(self, record: HandleRecord) -> str:
        if record.session.value is not None:
            return record.session.value
        killed = "turngate was killed before the engine reported a session id"
        why = killed if record.state is State.RUNNING else "no attempt reported a session id"
        what = f"{record.handle} has no session to resume: {why}"
        raise UsageError(what, f"see {record.run_directory}, then start again: {self._start(record)}")

    def _start(self, record: HandleRecord) -> str:
        return f"{self.data.command(f'start {record.engine}')} …"

    def _attempt(
        self, before: HandleRecord, record: HandleRecord, installed: InstalledEngine, built: Invocation
    ) -> Attempted:
        """Run one attempt; its record says `running` until it has the result, and `before` if the engine can't start.

        If turngate fails during the attempt, the record has the session that the engine has reported.
        """
        path, version = self.data.record(record.handle), installed.version or UNSET
        record = record.updated(state=State.RUNNING, engine_version=version)
        handle_record.write(path, record)
        # read as in mode auto: what the user sees doesn't depend on an envelope, and ids are compared below
        reader = TurnReader(
            installed.contract, Mode.AUTO, turn_index=record.turns, resumed=built.resumed, on_text=self.on_text
        )
        env = relocated(os.environ, record.launch.locations)
        limit = record.launch.session_timeout_sec
        started = list[int]()
        options = RunOptions(
            record.launch.cwd,
            env,
            self.stop,
            timeout=float(limit),
            tag=record.run_id,
            on_start=started.append,
            on_output=self.on_output,
        )
        try:
            done = attempt(installed, built, reader, traces(record.run_directory, record.turns), options)
        except Exception as failed:
            if started:
                from turngate_reference.conversations import killed  # noqa: PLC0415 - slow to import, and seldom needed

                before = killed.with_session(record.updated(state=State.FAILED), installed.contract)
                if isinstance(failed, TurngateError):
                    failed.what += f"; {record.engine} ran, and may have changed files"
            with suppress(MachineError, UsageError):
                handle_record.rewrite(path, before)
            raise
        other_session = _is_other_session(done, built.resumed)
        state = State.FAILED if other_session else _state(done)
        session, seen, launch = built.resumed or _reported(done), record.session.seen, record.launch
        if session and not built.resumed:
            is_failed = state is State.FAILED
            seen = seen_after_first_turn(installed.contract, session, launch.locations, launch.cwd, failed=is_failed)
        record = record.updated(
            session=SessionReference(installed.contract.handle.field, session, seen) if session else NO_SESSION,
            state=state,
        )
        tried = Attempted(record, done, other_session)
        try:
            handle_record.rewrite(path, record)
        except (MachineError, UsageError) as failed:  # the engine's answer is still shown
            return replace(tried, unsaved=str(failed), deleted=isinstance(failed, DeletedRecordError))
        return tried


def _check_text(name: str, text: str) -> None:
    """Refuse a text without a word, whatever the engine would do with it."""
    if not text.strip():
        raise RefusedError(f"the {name} is empty", "write what the agent should do")


@contextmanager
def _naming(data: DataDir, handle: str) -> Iterator[None]:
    """Add the handle of the new conversation to errors from here on."""
    try:
        yield
    except TurngateError as failed:
        hint = f"{failed.hint}; the handle is {handle}" if failed.hint else f"the handle is {handle}"
        failed.hint = f"{hint}: {data.command('handles')} show {handle}"
        raise


def _reported(done: Attempt) -> str | None:
    return done.reading.session.handle_value if done.reading.session else None


def _is_other_session(done: Attempt, resumed: str | None) -> bool:
    reported = _reported(done)
    if resumed is None or resumed == reported:
        return False
    return reported is not None or ((done.exit_code == 0 or done.lingered) and done.ended not in HUNG)


def _state(done: Attempt) -> State:
    if done.ended in HUNG or not done.went_well:
        return State.FAILED
    asks = isinstance(done.envelope, Envelope) and done.envelope.interaction
    return State.WAITING_USER if asks else State.SUCCEEDED
