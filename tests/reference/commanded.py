"""What the edge of the web asks of a server: light to import, for processes that tests start."""

from typing import Any, Protocol

from turngate.decoding import convert
from turngate_reference.server.orchestrator.commands import Commands
from turngate_reference.server.requests import IdempotencyKey, ReplyRequest, RunRequest
from turngate_reference.server.store.runs import Accepted


class Commanded(Protocol):
    """A server that takes commands."""

    commands: Commands


def created(server: Commanded, body: dict[str, Any], key: str | None = None) -> Accepted:
    """Create a run as the edge of the web does; return the answer."""
    return server.commands.create(RunRequest.of(body), IdempotencyKey.of(key, body))


def replied(server: Commanded, run_id: str, body: dict[str, Any], key: str | None = None) -> Accepted:
    """Reply to a question as the edge of the web does; return the answer."""
    return server.commands.reply(run_id, convert(body, ReplyRequest), IdempotencyKey.of(key, body))
