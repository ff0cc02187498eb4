"""Runs turns with claude-agent-sdk and prints what it yields, one JSON object per line."""

import asyncio
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from claude_agent_sdk import (  # type: ignore[import-not-found]
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

LOST = "00000000-0000-4000-8000-000000000000"


def show(**line: object) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps(line, default=str) + "\n")


async def turn(prompt: str, *, allow: bool = True, resume: str | None = None) -> str | None:
    """Run one turn in a process of its own, and return the session's id."""

    async def ask(tool: str, given: dict[str, Any], _: ToolPermissionContext) -> Any:
        show(asked=tool, input=given)
        return PermissionResultAllow() if allow else PermissionResultDeny(message="no thanks")

    options = ClaudeAgentOptions(
        cli_path=os.environ["EXECUTABLE"],
        cwd=Path.cwd(),
        model=os.environ["MODEL"],
        can_use_tool=ask,
        setting_sources=["user"],
        resume=resume,
    )
    session = None
    try:
        async with ClaudeSDKClient(options) as client:
            await client.query(prompt)
            async for message in client.receive_response():
                show(kind=type(message).__name__, message=dataclasses.asdict(message))
                session = getattr(message, "session_id", None) or session
    except Exception as error:  # noqa: BLE001 - every error is shown
        show(error=type(error).__name__, text=str(error))
    return session


async def main() -> None:
    """Run a turn, resume it, allow and refuse an action, and resume a session that doesn't exist."""
    session = await turn("Say hello.")
    await turn("And again?", resume=session)
    await turn("Please write apple.")
    await turn("Please write banana.", allow=False)
    await turn("Hello?", resume=LOST)


asyncio.run(main())
