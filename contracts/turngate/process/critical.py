"""Critical sections that others wait for, such as an open transaction: slow work in one is a bug."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_here = threading.local()


@contextmanager
def critical(section: str) -> Iterator[None]:
    """Reject slow work on this thread while the block runs; `section` names it in the error."""
    outer = getattr(_here, "section", None)
    _here.section = section
    try:
        yield
    finally:
        _here.section = outer


def refuse_in_critical(work: str) -> None:
    """RuntimeError if this thread is in a critical section, where slow work is a bug."""
    if (section := getattr(_here, "section", None)) is not None:
        raise RuntimeError(f"{work} in {section}: do it before or after")
