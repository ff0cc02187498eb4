"""What the engines print in a successful turn, in their real formats, with any id and text."""

import json

from turngate.contract.engine_contract import EngineContract


def transcript(contract: EngineContract, session: object, text: str) -> tuple[bytes, bytes]:
    """Return stdout and stderr of a turn whose answer is `text`."""
    stdout, stderr = _SHAPES[contract.engine](session, text)
    return stdout.encode(), stderr.encode()


def lines(*records: object) -> str:
    """Return records as NDJSON."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _codex(session: object, text: str) -> tuple[str, str]:
    return lines(
        {"type": "thread.started", "thread_id": session},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "error", "message": "a notice"}},
        {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": text}},
        {"type": "turn.completed", "usage": {"input_tokens": 1}},
    ), ""


def _gemini(session: object, text: str) -> tuple[str, str]:
    return json.dumps({"session_id": session, "response": text, "stats": {}}, indent=2) + "\n", ""


def _opencode(session: object, text: str) -> tuple[str, str]:
    return lines(
        {"type": "step_start", "sessionID": session, "part": {"id": "a"}},
        {"type": "text", "sessionID": session, "part": {"messageID": "m", "text": text}},
        {"type": "step_finish", "sessionID": session, "part": {"reason": "stop"}},
    ), ""


def _iflow(session: object, text: str) -> tuple[str, str]:
    info = json.dumps({"session-id": session, "conversation-id": "c"}, indent=2)
    return f"{text}\n", f"\n<Execution Info>\n{info}\n</Execution Info>\n"


_SHAPES = {"codex": _codex, "gemini": _gemini, "iflow": _iflow, "opencode": _opencode}
