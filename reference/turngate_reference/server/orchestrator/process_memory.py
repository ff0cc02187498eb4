"""How much memory a process uses with everything that it has started."""

from contextlib import suppress

import psutil


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process and all its descendants, in bytes.

    What ends meanwhile, or can't be read, counts as 0.
    """
    used = 0
    with suppress(psutil.Error):
        main = psutil.Process(pid)
        for process in (main, *main.children(recursive=True)):
            with suppress(psutil.Error):
                used += process.memory_info().rss
    return used
