"""The error for a rejected request, which has changed nothing."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ApiError(Exception):
    """A refused request: a code of the table `problems` in `openapi.yaml`, why, and what to do about it.

    `members` are further members of the problem document.
    """

    code: str
    detail: str
    hint: str = ""
    members: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Render as `CODE: detail (hint)`."""
        return f"{self.code}: {self.detail}" + (f" ({self.hint})" if self.hint else "")
