"""Runs turns with agent-client-protocol, which validates each message, and prints what the agent sends."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block  # type: ignore[import-not-found]
from acp.interfaces import Client  # type: ignore[import-not-found]
from acp.schema import AllowedOutcome, RequestPermissionResponse  # type: ignore[import-not-found]

LOST = "00000000-0000-4000-8000-000000000000"


def show(**line: object) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps(line) + "\n")


def plain(value: Any) -> Any:
    """Return a model of the protocol as JSON, without what is absent."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


class Told(Client):  # type: ignore[misc]
    """Prints updates, and permits what it is asked if `allow` says so."""

    allow = False

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Print an update."""
        show(update=plain(update))

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_: Any) -> Any:
        """Print a request and answer it."""
        show(asked=plain(tool_call), options=[plain(option) for option in options])
        kind = "allow_once" if self.allow else "reject_once"
        chosen = next(option.option_id for option in options if option.kind == kind)
        return RequestPermissionResponse(outcome=AllowedOutcome(option_id=chosen, outcome="selected"))


async def main() -> None:
    """Run three turns, refuse and allow an action, and load a session that doesn't exist."""
    client, work = Told(), str(Path.cwd())
    command = (os.environ["EXECUTABLE"], *json.loads(os.environ["ARGUMENTS"]))
    async with spawn_agent_process(client, *command, env=dict(os.environ), cwd=work) as (agent, _):
        opened = await agent.initialize(protocol_version=PROTOCOL_VERSION)
        show(version=opened.protocol_version, loads=opened.agent_capabilities.load_session)
        session = await agent.new_session(cwd=work, mcp_servers=[])
        for text in ("Say hello.", "Please write banana.", "Please write apple."):
            client.allow = "apple" in text
            ended = await agent.prompt(session_id=session.session_id, prompt=[text_block(text)])
            show(text=text, ended=ended.stop_reason)
        try:
            await agent.load_session(session_id=LOST, cwd=work, mcp_servers=[])
        except RequestError as error:
            show(code=error.code, message=str(error))


asyncio.run(main())
