"""The evidence of a clause result: the name of a turn or call or, if the clause did not pass, the observation."""

from abc import ABC
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import Meta, Struct, ValidationError

from turngate.decoding import convert
from turngate.model import Ended

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]


class OutputExcerpt(Struct, frozen=True, forbid_unknown_fields=True):
    """A stream of a process: its size, and its start and end."""

    bytes: Count
    excerpt: str


class RequestExcerpt(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to the model backend; `protocol` null: an unknown path, `bytes` null: not in the recording."""

    method: str
    protocol: str | None
    model: str | None
    nonces: tuple[str, ...]
    tools: tuple[str, ...]
    bytes: Count | None
    reply: str
    path: str
    last_user_text: str | None


class TurnEvidence(Struct, frozen=True, forbid_unknown_fields=True):
    """How a turn ended, its output and its requests; `requests` null: there was no backend."""

    turn: Text
    argv: tuple[str, ...]
    exit_code: int | None
    ended: Ended
    stdout: OutputExcerpt
    stderr: OutputExcerpt
    requests: tuple[RequestExcerpt, ...] | None
    requests_seen: Count | None


class CallEvidence(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to the reference server and its answer, both as JSON; `sent` null: there was no body."""

    call: Text
    method: str
    path: str
    status: int
    sent: str | None
    answer: str


# msgspec can't distinguish untagged structs, so it gets a separate class and calls `decode_hook`
if TYPE_CHECKING:
    Evidence: TypeAlias = str | TurnEvidence | CallEvidence
else:

    class Evidence(ABC):  # noqa: B024 - it has no methods of its own
        """The name of a turn or call, or its observation."""

    Evidence.register(str)
    Evidence.register(TurnEvidence)
    Evidence.register(CallEvidence)


def decode_hook(kind: Any, value: Any) -> Any:
    """Read evidence; the `dec_hook` for structs that contain clause results."""
    if kind is not Evidence:
        raise NotImplementedError(kind)
    shape = CallEvidence if isinstance(value, dict) and "call" in value else TurnEvidence
    try:
        return convert(value, Text if isinstance(value, str) else shape)
    except ValidationError as wrong:
        raise ValueError(str(wrong)) from wrong  # msgspec adds the path to a ValueError
