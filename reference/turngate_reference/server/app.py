"""Builds a server on one data directory: store, engines, queue, and commands.

Its threads, beside those that serve HTTP: `turngate-owner` owns the runs that hold a slot, and ends their turns. A
thread with the handle of a run does for it what takes long: it prepares a turn, reads its engine to the end, or judges
its answer. `turngate-kept` reads all kept processes; two workers start them, and two end them. `turngate-collect` and
`turngate-look-ENGINE` examine engines. `turngate-terminals` ends the turns of dead terminals, when there are any.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryFile

from msgspec import Struct, field

from turngate import EngineContract, MachineError, Stop, Trust, UsageError, engine_environment, session_locations
from turngate.argv.trust import NO_TRUST
from turngate_reference.data_dir import DataDir, RunningServer, locked
from turngate_reference.server.orchestrator.commands import Admission, Commands
from turngate_reference.server.orchestrator.engines import Engines
from turngate_reference.server.orchestrator.owner import Owner
from turngate_reference.server.orchestrator.profiles import Profiles
from turngate_reference.server.orchestrator.recovery import TerminalWatch, recover
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.orchestrator.turns import ServerTurns
from turngate_reference.server.orchestrator.verification import Verifier, Verify
from turngate_reference.server.output_schema.checker import DATA_SECONDS, SCHEMA_SECONDS, SchemaChecker
from turngate_reference.server.store.database import DatabaseGoneError, Store
from turngate_reference.server.transports.host import ProcessHost

SLOTS = 4
SCHEMA_PLACES = 8  # requests that may wait for a check of their schema, far fewer than there are threads
ROOM = 64 * 2**10  # bytes that must fit into the data directory


class ServerSettings(Struct, frozen=True):
    """The settings of a server; `env` is the environment that engines get parts of, `pass_env` names extra variables.

    `observe` gets engine, outcome and seconds of each turn. `verify` says when engines are verified, `reached`
    how terminal commands reach the server. `trust` is what the operator allows although turngate can't make it safe.
    """

    data: DataDir
    slots: int = SLOTS
    workspace_root: Path | None = None
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    pass_env: tuple[str, ...] = ()
    observe: Callable[[str, str, float], None] = lambda _engine, _outcome, _seconds: None
    verify: Verify = Verify.OFF
    reached: RunningServer | None = None
    trust: Trust = NO_TRUST

    def environment(self, contract: EngineContract) -> dict[str, str]:
        """Return the engine's environment for a run that starts now."""
        return engine_environment(contract, self.env, session_locations(contract, self.env), self.pass_env)


class Server:
    """A running orchestrator; `close` ends it and every process that it started."""

    def __init__(self, settings: ServerSettings) -> None:
        """Lock the data directory and recover what an earlier server left; TurngateError if it can't be used."""
        self._stop = Stop()
        self._started, self._verify = False, settings.verify
        self._records = Records(settings.data)
        self._root = root = settings.data.root
        with ExitStack() as opened:
            try:
                str(root).encode()
                settings.data.make()
                # lock the directory too, since anybody may remove the lock file
                opened.enter_context(locked(settings.data.server_lock, str(root), also=root, server=settings.reached))
                self.store = opened.enter_context(closing(Store(settings.data.database)))
                recover(self.store, self._records)
            except UnicodeEncodeError as odd:
                what = f"the path of the data directory {str(root)!r} isn't valid UTF-8"
                raise UsageError(what, "use another --data-dir") from odd
            except sqlite3.Error as error:
                what = f"the database {settings.data.database} can't be used: {error}"
                raise MachineError(what, "retry later, or free some disk space") from error
            except OSError as error:
                hint = "use another directory: --data-dir or TURNGATE_DATA_DIR"
                raise MachineError(f"{root} can't be used: {error.strerror}", hint) from error
            self._opened = opened.pop_all()
        verifier = Verifier(settings.verify, root, self._stop)
        profiles = Profiles(verifier, settings.environment, self._stop)
        self.engines = Engines(
            settings.data,
            self._stop,
            profiles,
            settings.environment,
            lambda: self.owner.kick(),  # noqa: PLW0108 - it comes later
        )
        # two, so that requests do not hold up turns
        self.schemas = SchemaChecker(SCHEMA_SECONDS, SCHEMA_PLACES)
        self.results = SchemaChecker(DATA_SECONDS)
        self.host = ProcessHost()
        self._watch = TerminalWatch(self.store, self._records)
        self.owner = Owner(
            self.store,
            self._records,
            ServerTurns(
                self.results.data_flaw,
                engines=self.engines,
                profiles=profiles,
                server_env=settings.env,
                pass_env=settings.pass_env,
                trust=settings.trust,
            ),
            self.host,
            settings.slots,
            unsettled=self.engines.unsettled,
            observe=settings.observe,
            chore=self._watch.look,
        )
        admission = Admission(
            self.engines, self.schemas, settings.data.runs, settings.workspace_root, settings.env, settings.trust
        )
        self.commands = Commands(self.store, self._records, admission, self.owner)

    def start(self) -> None:
        """Start the queue, and look for engines; with `Verify.WAIT` examine them first."""
        if self._verify is Verify.WAIT:
            self.engines.collect()
            if self._stop.is_set():
                return
        else:
            threading.Thread(target=self.engines.collect, name="turngate-collect", daemon=True).start()
        self.owner.start()
        self._started = True

    def stop(self) -> None:
        """Stop examining engines, and unblock a start that waits for it; safe in signal handlers."""
        self._stop.set()

    def obstacle(self) -> str:
        """Return why the server can't accept or work on runs now; empty if it can."""
        if not self.ready:
            return "the server is starting or stopping"
        try:
            with TemporaryFile(dir=self._root) as file:
                file.write(bytes(ROOM))
                file.flush()
                os.fsync(file.fileno())
            self.store.require_file()
        except OSError as error:
            return f"the data directory can't be written: {error.strerror}"
        except DatabaseGoneError as gone:
            return str(gone)
        return ""

    @property
    def ready(self) -> bool:
        """Whether the server accepts and works on runs."""
        return self._started and self.owner.works

    def close(self) -> None:
        """End everything that runs, save the results, and unlock the data directory."""
        self._started = False
        self._stop.set()
        self.schemas.close()
        self.results.close()
        self.owner.close()
        self.host.close()
        self._watch.close()
        self.engines.close()
        self.store.wake()
        self._opened.close()
