"""A conversation with agent-dispatcher-mcp: its tool `delegate_to_codex`, whose session_id continues a conversation."""

import asyncio
from os import environ as env
from pathlib import Path

from agent_dispatcher_mcp.server import mcp  # type: ignore[import-not-found]
from fastmcp import Client  # type: ignore[import-not-found]


async def main() -> None:
    call = {"cwd": env["TURNGATE_WORKSPACE"], "timeout_s": int(env["TURNGATE_DEADLINE_SEC"])}
    async with Client(mcp) as client:
        for name in filter(env.get, ("TURNGATE_PROMPT_FILE", "TURNGATE_REPLY_FILE", "TURNGATE_REPLY_2_FILE")):
            call["prompt"] = Path(env[name]).read_text("utf-8")
            turn = (await client.call_tool("delegate_to_codex", call)).data
            if not turn["success"]:
                raise SystemExit(f"the turn failed: {turn}")
            call["session_id"] = turn["session_id"]
    print(turn["final_message"])


asyncio.run(main())
