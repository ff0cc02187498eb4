"""A conversation with codex-sdk-python: a thread for all turns, each with an abort signal after the deadline."""

import asyncio
from os import environ as env
from pathlib import Path

from codex_sdk import (  # type: ignore[import-not-found]
    AbortController,
    Codex,
    CodexOptions,
    ThreadOptions,
    TurnOptions,
)


async def main() -> None:
    """Have the conversation, and print its last answer."""
    codex = Codex(CodexOptions(codex_path_override=env["TURNGATE_ENGINE_CODEX"]))
    thread = codex.start_thread(ThreadOptions(working_directory=env["TURNGATE_WORKSPACE"], skip_git_repo_check=True))
    limit = float(env["TURNGATE_DEADLINE_SEC"])
    for name in filter(env.get, ("TURNGATE_PROMPT_FILE", "TURNGATE_REPLY_FILE", "TURNGATE_REPLY_2_FILE")):
        abort = AbortController()
        asyncio.get_running_loop().call_later(limit, abort.abort)
        turn = await thread.run(Path(env[name]).read_text("utf-8"), TurnOptions(signal=abort.signal))
    print(turn.final_response)


asyncio.run(main())
