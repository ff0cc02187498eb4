"""What callers ask of a server, with the names of `openapi.yaml`, and the launch that a checked request becomes.

The edge of the web validates a body by `openapi.yaml`, and makes it one of these. The store keeps the launch of each
run as JSON; rows of earlier releases have the same form.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from turngate import Mode
from turngate.decoding import convert
from turngate.model import ProfileKind
from turngate_reference.handle_record import DEFAULT_TIMEOUT_SEC

_DEFAULTS: dict[str, Any] = {
    "execution_mode": Mode.AUTO,
    "engine_options": (),
    "session_timeout_sec": DEFAULT_TIMEOUT_SEC,
}


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


class IdempotencyKey(Struct, frozen=True):
    """A caller's key for a request, with a digest of the body as it was sent."""

    text: str
    digest: str

    @classmethod
    def of(cls, text: str | None, body: dict[str, Any]) -> "IdempotencyKey | None":
        """Return the key of a request; None if it has none."""
        if text is None:
            return None
        return cls(text, hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest())


class RunRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run that a caller asks for (None: not given). `session_timeout_sec` limits each turn, and each sticky wait."""

    engine: str
    prompt: str
    execution_mode: Mode
    engine_options: tuple[str, ...]
    session_timeout_sec: int
    model: str | None = None
    output_schema: dict[str, Any] | None = None
    skill: str | None = None
    workspace: str | None = None
    interactive_profile: ProfileKind | None = None
    allow_file_marks: bool = False

    @classmethod
    def of(cls, body: dict[str, Any]) -> "RunRequest":
        """Return the request in a valid body, with the defaults of the API."""
        # not strict, since JSON Schema counts 60.0 as an integer
        return convert(_DEFAULTS | body, cls, strict=False)


class RunLaunch(RunRequest, frozen=True, kw_only=True, omit_defaults=True):
    """A request that was checked, as its run is launched on every turn.

    `trusted_workspace` and `unsafe_allowed` say what the operator allows although turngate can't make it safe.
    """

    trusted_workspace: bool = False
    unsafe_allowed: bool = False

    @property
    def request(self) -> RunRequest:
        """The request that it was made from."""
        return RunRequest(**{name: getattr(self, name) for name in RunRequest.__struct_fields__})


class ReplyRequest(Struct, frozen=True):
    """A caller's reply to a question."""

    interaction_id: str
    response: str
    allow_file_marks: bool = False


class ContinueRequest(Struct, frozen=True):
    """What a run that has ended is told to go on with."""

    message: str
    allow_file_marks: bool = False
