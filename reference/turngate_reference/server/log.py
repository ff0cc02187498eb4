"""The server's log: one line per message, even if it holds text from callers or engines."""

import logging
from typing import Any

from turngate.sanitize import visible, visible_lines


class VisibleFormatter(logging.Formatter):
    """Escapes invisible characters and indents tracebacks, so that no text can pass for a log message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the message on one line."""
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the traceback, indented."""
        return "\n".join(f"    {line}" for line in visible_lines(super().formatException(ei)))


def log_to_stderr(level: str) -> None:
    """Write messages of a level and above to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    logging.getLogger("waitress").setLevel(logging.WARNING)
    # says that requests wait for a thread, which they may
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
