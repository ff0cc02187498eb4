"""The files of a run: where its engine works, and its handle record.

An engine works in the run's own directory, or in the workspace that the caller named below the configured root.
"""

import errno
import logging
import shutil
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from turngate import MachineError, UsageError
from turngate.files import make_new_private, make_private, real_path
from turngate_reference import handle_record
from turngate_reference.data_dir import DataDir, locked
from turngate_reference.engine.attempt import contract_for
from turngate_reference.handle_record import NO_SESSION, HandleRecord, LaunchSettings, SessionReference
from turngate_reference.server.requests import RunLaunch
from turngate_reference.server.store.runs import Run, RunSession, own_cwd
from turngate_reference.states import State

log = logging.getLogger(__name__)


class Records(Struct, frozen=True):
    """Writes the records of served runs into a data directory."""

    data: DataDir

    @contextmanager
    def created(self, launch: RunLaunch, workspace: Path | None) -> Iterator[tuple[str, Path]]:
        """Make the directory and the record of a run; return its handle and directory. An error leaves neither.

        MachineError if they can't be made.
        """
        with self.data.new_run(launch.engine) as (handle, directory):
            try:
                record = _new(directory, launch, workspace or own_cwd(directory))
                handle_record.write(self.data.record(handle), record)
                yield handle, directory
            except BaseException:
                self.discard(handle, directory)
                raise

    def discard(self, handle: str, directory: Path) -> None:
        """Remove what `created` made."""
        shutil.rmtree(directory, ignore_errors=True)
        for file in (self.data.record(handle), self.data.lock(handle)):
            file.unlink(missing_ok=True)

    def remove_unborn(self, stored: Container[str]) -> None:
        """Remove what is left of creations interrupted by a kill; `stored` are the ids of all stored runs.

        No engine has run in these: their directories are empty, and their records, if there are any, are queued.
        """
        runs = {directory.name.rpartition("-")[2]: directory for directory in self.data.runs.glob("*-*-*")}
        for handle in {lock.stem for lock in self.data.handles.glob("*.lock")} | runs.keys():
            if handle not in runs or runs[handle].name not in stored:
                with suppress(MachineError, UsageError, OSError), locked(self.data.lock(handle), handle):
                    self._remove_unborn(handle, runs.get(handle))

    def _remove_unborn(self, handle: str, directory: Path | None) -> None:
        path = self.data.record(handle)
        if path.exists():
            record = handle_record.read(path)
            if not record.served or record.turns or record.state is not State.QUEUED:
                return
        if directory is not None:
            directory.rmdir()  # OSError: something has run in it
        for file in (path, path.with_suffix(".tmp"), self.data.lock(handle)):
            file.unlink(missing_ok=True)

    def keep(self, run: Run, state: State, session: RunSession | None) -> None:
        """Write the record after a turn; a failure is only logged, since the store has the run."""
        try:
            handle_record.write(self.data.record(run.handle), record_of(run, state, session))
        except Exception:
            log.exception("can't write the record of %s", run.run_id)


def record_of(run: Run, state: State, session: RunSession | None) -> HandleRecord:
    """Return the record of a run that has had a turn."""
    field = contract_for(run.engine, run.engine_version).handle.field
    seen = run.recovery.session_seen if run.recovery else None
    seen = None if isinstance(seen, UnsetType) else seen
    record = _new(run.run_directory, run.launch, run.cwd)
    return replace(
        record,
        session=SessionReference(field, session.handle_value, seen) if session else NO_SESSION,
        launch=replace(record.launch, locations=run.locations),
        state=state,
        turns=run.turn_index,
        created_at=run.created_at,
        engine_version=run.engine_version or UNSET,
    )


def _new(directory: Path, launch: RunLaunch, cwd: Path) -> HandleRecord:
    settings = LaunchSettings(
        args=launch.engine_options,
        mode=launch.execution_mode,
        model=launch.model,
        cwd=cwd,
        session_timeout_sec=launch.session_timeout_sec,
        trusted_workspace=launch.trusted_workspace,
        unsafe_allowed=launch.unsafe_allowed,
    )
    return handle_record.new(
        directory, launch.engine, settings, launch.prompt, state=State.QUEUED, turns=0, served=True
    )


def lost_workspace(run: Run) -> str | None:
    """Return why the directory in which a run works can't be used any more; None if it can."""
    try:
        # only a directory that a caller named can have been replaced
        if run.workspace is not None and run.cwd.resolve(strict=True) != run.cwd:
            return f"{run.cwd} now leads to a different directory"
    except (OSError, RuntimeError):
        return f"directory {run.cwd} doesn't exist any more"
    return _taken(run) if run.cwd.is_dir() else f"directory {run.cwd} doesn't exist any more"


def _taken(run: Run) -> str | None:
    """Return what is in the place of the directory for artifacts; None if that is there or can be made."""
    for folder in (run.artifacts.parent, run.artifacts):
        with suppress(FileNotFoundError):
            if not S_ISDIR(folder.lstat().st_mode):
                return f"{folder} is not a directory but {'a link' if folder.is_symlink() else 'a file'}"
    return None


def prepare_workspace(run: Run) -> str | None:
    """Make the directories for a first turn; return why the caller's workspace can't hold them, or None.

    In the run's own directory an OSError is raised unchanged.
    """
    if run.workspace is None:
        make_private(run.cwd)
    elif why := lost_workspace(run):
        return why
    try:
        artifacts_directory(run)
    except OSError as error:
        if run.workspace is None:
            raise
        return f"{run.artifacts} can't be created: {error.strerror}"
    return None


def artifacts_directory(run: Run) -> Path:
    """Make the directory for artifacts where it is missing, and return its path without links.

    OSError: a link or a file is in its place, or it can't be made. No link is followed below the working directory.
    """
    folder = real_path(run.cwd)
    for name in run.artifacts.relative_to(run.cwd).parts:
        folder /= name
        with suppress(FileExistsError):
            make_new_private(folder)
        if not S_ISDIR(folder.lstat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "it is a link or a file", str(folder))
    return folder
