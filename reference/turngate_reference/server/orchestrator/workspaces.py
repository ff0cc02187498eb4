"""Where engines work: a directory of the run's own, or one that the caller named below the configured root."""

from pathlib import Path

from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.store.rows import Run


def resolve(asked: str, root: Path | None) -> Path:
    """Return the real path of the directory that a caller named, symbolic links followed.

    A relative path counts from the root. Raises ApiError for a directory that this server does not offer.
    """
    if root is None:
        raise ApiError("WORKSPACE_REFUSED", "this server has no workspaces", "start it with --workspace-root DIR")
    try:
        real_root = root.resolve(strict=True)
        found = (real_root / asked).resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise ApiError("WORKSPACE_REFUSED", f"there is no directory {asked[:200]!r}", "make it first") from error
    if not found.is_relative_to(real_root) or found == real_root:
        raise ApiError(
            "WORKSPACE_REFUSED", f"{asked[:200]!r} is not below the workspace root", "name a directory in it"
        )
    if not found.is_dir():
        raise ApiError("WORKSPACE_REFUSED", f"{asked[:200]!r} is no directory", "name a directory")
    try:
        str(found).encode()
    except UnicodeEncodeError as odd:
        detail = f"the path of {asked[:200]!r}, links followed, is no UTF-8"
        raise ApiError("WORKSPACE_REFUSED", detail, "rename what is not") from odd
    return found


def lost(run: Run) -> str | None:
    """Return why the directory in which a run works can't be used any more; None: it can."""
    try:
        # only what a caller named can have been somebody else's to swap
        if run.workspace is not None and run.cwd.resolve(strict=True) != run.cwd:
            return f"{run.cwd} is not the directory any more that it was"
    except (OSError, RuntimeError):
        return f"the directory {run.cwd} is gone"
    return None if run.cwd.is_dir() else f"the directory {run.cwd} is gone"


def prepare(run: Run) -> str | None:
    """Make the directories that a first turn needs; says why the caller's workspace has no room for them, else None.

    In a directory of the run's own an OSError is raised as it is.
    """
    if run.workspace is None:
        run.artifacts.mkdir(parents=True, exist_ok=True)
        return None
    if why := lost(run):
        return why
    try:
        if not run.artifacts.resolve().is_relative_to(run.cwd):
            return f"{run.artifacts} leads out of the workspace"
        run.artifacts.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        return f"{run.artifacts} can't be made: {getattr(error, 'strerror', None) or error}"
    return None
