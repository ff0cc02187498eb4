"""A conversation with py-opencode-wrapper: an OpenCodeSession, which is one `opencode serve` for all turns."""

import asyncio
from os import environ as env
from pathlib import Path

from opencode_wrapper import AsyncOpenCodeClient, OpenCodeSession, RunConfig  # type: ignore[import-not-found]


async def main() -> None:
    """Have the conversation, and print its last answer."""
    client = AsyncOpenCodeClient(env["TURNGATE_ENGINE_OPENCODE"])
    asks, limit = RunConfig(permission={"bash": "ask", "edit": "ask"}), float(env["TURNGATE_DEADLINE_SEC"])
    async with OpenCodeSession(client, env["TURNGATE_WORKSPACE"], run_cfg=asks, timeout_s=limit) as session:
        for name in filter(env.get, ("TURNGATE_PROMPT_FILE", "TURNGATE_REPLY_FILE", "TURNGATE_REPLY_2_FILE")):
            turn = await session.send(Path(env[name]).read_text("utf-8"))
    print(turn.final_text)


asyncio.run(main())
