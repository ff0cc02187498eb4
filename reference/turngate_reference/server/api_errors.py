"""The error for a rejected request, which has changed nothing."""

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """A refused request: a code of the table `problems` in `openapi.yaml`, why, and what to do about it.

    `members` are further members of the problem document.
    """

    def __init__(self, code: str, detail: str, hint: str = "", members: Mapping[str, Any] | None = None) -> None:
        super().__init__(code, detail, hint)
        self.code, self.detail, self.hint, self.members = code, detail, hint, dict(members or {})

    def __str__(self) -> str:
        """Render as `CODE: detail (hint)`."""
        return f"{self.code}: {self.detail}" + (f" ({self.hint})" if self.hint else "")
