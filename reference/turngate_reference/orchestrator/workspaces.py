"""Where engines work: a directory of the run's own, or one that the caller named below the configured root."""

from pathlib import Path

from turngate_reference.refusals import Refusal
from turngate_reference.store.runs import Run


def resolve(asked: str, root: Path | None) -> Path:
    """Give the real path of the directory that a caller named, symbolic links followed; Refusal if it is none of ours.

    A relative path counts from the root.
    """
    if root is None:
        raise Refusal("WORKSPACE_REFUSED", "this server has no workspaces", "start it with --workspace-root DIR")
    try:
        real_root = root.resolve(strict=True)
        found = (real_root / asked).resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise Refusal("WORKSPACE_REFUSED", f"there is no directory {asked[:200]!r}", "make it first") from error
    if not found.is_relative_to(real_root) or found == real_root:
        raise Refusal("WORKSPACE_REFUSED", f"{asked[:200]!r} is not below the workspace root", "name a directory in it")
    if not found.is_dir():
        raise Refusal("WORKSPACE_REFUSED", f"{asked[:200]!r} is no directory", "name a directory")
    return found


def lost(run: Run) -> str | None:
    """Say why the directory in which a run works can't be used any more; None: it can."""
    try:
        if run.cwd.resolve(strict=True) != run.cwd or not run.cwd.is_dir():
            return f"{run.cwd} is not the directory any more that it was"
    except (OSError, RuntimeError):
        return f"the directory {run.cwd} is gone"
    return None
