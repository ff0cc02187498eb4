"""A conversation with claude-agent-sdk. It starts one `claude` for all turns."""

import asyncio
import os
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage  # type: ignore[import-not-found]


async def main(settings: "os._Environ[str]") -> None:
    options = ClaudeAgentOptions(cli_path=settings["TURNGATE_ENGINE_CLAUDE"], cwd=settings["TURNGATE_WORKSPACE"])
    said = [settings[name] for name in ("TURNGATE_REPLY", "TURNGATE_REPLY_2") if name in settings]
    async with ClaudeSDKClient(options) as client:
        for text in (Path(settings["TURNGATE_PROMPT_FILE"]).read_text("utf-8"), *said):
            async with asyncio.timeout(float(settings["TURNGATE_DEADLINE_SEC"])):
                await client.query(text)
                messages = [message async for message in client.receive_response()]
            if not isinstance(messages[-1], ResultMessage) or messages[-1].is_error:
                raise SystemExit(f"the turn failed: {messages[-1:]}")
        print(messages[-1].result)


asyncio.run(main(os.environ))
