"""The drifts: for each rule by which a turn is read at least one recording that violates it."""

from tests.snapshots.drifted import (
    REMOVED,
    DriftedTurn,
    Source,
    delete,
    drift,
    edit,
    end,
    insert,
    insert_other,
    move,
    repeat,
    resumed,
    session_id,
    silence,
    swap,
    text,
)
from turngate.model import Ended

SOURCES = (
    Source("claude", "2.1.330", "stdout", "json_document", "session_id"),
    Source("codex", "0.169.0", "stdout", "ndjson", "thread_id"),
    Source("gemini", "0.61.0", "stdout", "json_document", "session_id"),
    Source("iflow", "0.5.19", "stderr", "tagged_block", "session-id"),
    Source("opencode", "1.18.33", "stdout", "ndjson", "sessionID"),
    Source("qwen", "0.24.4", "stdout", "ndjson", "session_id"),
)
OTHER_UUID = "99999999-0000-4000-8000-000000000000"
OTHER_SES = "ses_999999999999AAAAAAAAAAAAAA"

EVERY_ENGINE = {
    "id with something behind it": drift(session_id(lambda recorded: recorded + "0")),
    "id with something before it": drift(session_id(lambda recorded: "0" + recorded)),
    "id with a newline behind it": drift(session_id(lambda recorded: recorded + "\n")),
    "id in capitals": drift(session_id(lambda recorded: recorded.replace("0", "A"))),
    "id that is a flag": drift(session_id(lambda _: "--yolo")),
    "id that is empty": drift(session_id(lambda _: "")),
    "id that is too long": drift(session_id(lambda recorded: recorded * 60)),
    "id that is a number": drift(session_id(lambda _: 7)),
    "id that is a list": drift(session_id(lambda recorded: [recorded])),
    "id that is null": drift(session_id(lambda _: None)),
    "streams swapped": drift(swap()),
    "nothing printed": drift(silence("stdout", "stderr")),
    "a line before the records": drift(insert(0, "Welcome!")),
    "a line behind the records": drift(insert(None, "Goodbye!")),
    "a list before the records": drift(insert(0, "[1]")),
    "lines on the other stream": drift(insert_other(0, "Welcome!"), insert_other(None, "Goodbye!")),
    "lines that end in CRLF": drift(text("\n", "\r\n")),
    "blanks behind each line": drift(text("}\n", "} \n")),
    "output cut off": drift(text("}\n", "\n")),
    "half a character": drift(text("Which", r"\ud83dWhich")),
    "exit code 3": drift(end(3)),
    "killed at its deadline": drift(end(None, Ended.TIMEOUT)),
    "another session came back": resumed(session_id(lambda recorded: recorded.replace("0", "9"))),
}

CLAUDE = {
    "id under another name": drift(edit(0, {"session_id": REMOVED, "sessionId": OTHER_UUID})),
    "record of another kind": drift(edit(0, {"type": "outcome"})),
    "failed, in a record of another kind": drift(edit(0, {"type": "outcome", "is_error": True})),
    "failed": drift(edit(0, {"is_error": True, "result": "no credit"})),
    "failed without a reason": drift(edit(0, {"is_error": True, "result": REMOVED})),
    "ended by a limit": drift(edit(0, {"subtype": "error_max_turns"})),
    "answer on standard error": drift(edit(0, {"result": REMOVED}), insert_other(None, "an answer")),
    "answer that is no text": drift(edit(0, {"result": 7})),
    "two documents": drift(repeat(0)),
    "document on both streams": drift(insert_other(None, {"type": "result", "session_id": OTHER_UUID})),
}

CODEX = {
    "id in the second record": drift(insert(0, {"type": "turn.started"})),
    "id under another name": drift(edit(0, {"thread_id": REMOVED, "session_id": OTHER_UUID})),
    "id one level down": drift(edit(0, {"thread_id": REMOVED, "thread.id": OTHER_UUID})),
    "id in a record of another kind": drift(edit(0, {"type": "session.started"})),
    "id on standard error": drift(move(0)),
    "id missing": drift(delete(0)),
    "same id again": drift(repeat(0)),
    "same id on standard error": drift(insert_other(None, {"type": "thread.started", "thread_id": "{id}"})),
    "second id": drift(insert(None, {"type": "thread.started", "thread_id": OTHER_UUID})),
    "second id in a record of another kind": drift(insert(None, {"type": "turn.started", "thread_id": OTHER_UUID})),
    "second id on standard error": drift(insert_other(None, {"type": "thread.started", "thread_id": OTHER_UUID})),
    "end missing": drift(delete(-1)),
    "end of another kind": drift(edit(-1, {"type": "turn.finished"})),
    "end on standard error": drift(move(-1)),
    "failure": drift(insert(None, {"type": "turn.failed", "error": {"message": "no credit"}})),
    "failure without a reason": drift(insert(None, {"type": "turn.failed"})),
    "failure on standard error": drift(insert_other(None, {"type": "turn.failed", "error": {"message": "no credit"}})),
    "failure that the engine gets over": drift(insert(-1, {"type": "error", "message": "Reconnecting"})),
    "answer missing": drift(delete(-2)),
    "answer on standard error": drift(move(-2)),
    "answer that is no text": drift(edit(-2, {"item.text": 7})),
    "text of another kind of item": drift(
        insert(-1, {"type": "item.completed", "item": {"type": "reasoning", "text": "I think"}})
    ),
    "text of an unfinished item": drift(
        insert(-1, {"type": "item.updated", "item": {"type": "agent_message", "text": "I be"}})
    ),
    "two answers": drift(insert(-1, {"type": "item.completed", "item": {"type": "agent_message", "text": "Done"}})),
    "every known kind of record": drift(
        *(insert(None, {"type": kind}) for kind in ("error", "item.started", "item.updated", "turn.failed"))
    ),
    "kind of record that nobody knows": drift(insert(1, {"type": "brand.new"})),
}

GEMINI = {
    "id under another name": drift(edit(0, {"session_id": REMOVED, "sessionId": OTHER_UUID})),
    "id one level down": drift(edit(0, {"session_id": REMOVED, "session.id": OTHER_UUID})),
    "failed": drift(edit(0, {"error.message": "no credit"})),
    "failed without a reason": drift(edit(0, {"error": {}})),
    "answer missing": drift(edit(0, {"response": REMOVED})),
    "answer that is no text": drift(edit(0, {"response": 7})),
    "two documents": drift(repeat(0)),
    "second id on standard error": drift(insert_other(None, {"session_id": OTHER_UUID})),
    "key that nobody knows": drift(edit(0, {"brand.new": 1})),
}

IFLOW = {
    "id under another name": drift(edit(-1, {"session-id": REMOVED, "sessionId": f"session-{OTHER_UUID}"})),
    "block missing": drift(delete(-1)),
    "block on standard output": drift(move(-1)),
    "block that does not end the stream": drift(insert(None, "Shutting down")),
    "block that is not closed": drift(text("</Execution Info>", "")),
    "block of another name": drift(text("Execution Info", "Execution Details")),
    "block that holds no object": drift(insert(None, "<Execution Info>\n[1]\n</Execution Info>")),
    "block that holds no JSON": drift(insert(None, "<Execution Info>\nfine\n</Execution Info>")),
    "two blocks": drift(repeat(-1)),
    "noise of another kind": drift(text("does not support thinking mode", "is new")),
    "noise behind the answer": drift(insert_other(None, "Model stub does not support thinking mode")),
    "answer missing": drift(silence("stdout")),
    "key that nobody knows": drift(edit(-1, {"brand-new": 1})),
}

OPENCODE = {
    "id missing in a later record": drift(edit(-1, {"sessionID": REMOVED})),
    "id missing in the first record": drift(insert(0, {"type": "step_start"})),
    "id one level down": drift(edit(-1, {"sessionID": REMOVED, "session.id": OTHER_SES})),
    "second id": drift(edit(-1, {"sessionID": OTHER_SES})),
    "second id on standard error": drift(insert_other(None, {"type": "text", "sessionID": OTHER_SES})),
    "first record on standard error": drift(move(0)),
    "end missing": drift(delete(-1)),
    "end of another kind": drift(edit(-1, {"type": "step_end"})),
    "end for another reason": drift(edit(-1, {"part.reason": "tool-calls"})),
    "end on standard error": drift(move(-1)),
    "failure": drift(insert(None, {"type": "error", "sessionID": "{id}", "error": {"data": {"message": "no credit"}}})),
    "failure without a reason": drift(insert(None, {"type": "error", "sessionID": "{id}"})),
    "answer missing": drift(delete(1)),
    "answer that is no text": drift(edit(1, {"part.text": 7})),
    "text of another kind of record": drift(
        insert(None, {"type": "reasoning", "sessionID": "{id}", "part": {"text": "I think"}})
    ),
    "answer in two parts": drift(repeat(1)),
    "two answers": drift(
        insert(None, {"type": "text", "sessionID": "{id}", "part": {"messageID": "m", "text": "Done"}})
    ),
    "answer of no message": drift(insert(None, {"type": "text", "sessionID": "{id}", "part": {"text": "Done"}})),
    "every known kind of record": drift(
        *(insert(None, {"type": kind, "sessionID": "{id}"}) for kind in ("error", "reasoning", "tool_use"))
    ),
    "kind of record that nobody knows": drift(insert(1, {"type": "brand_new", "sessionID": "{id}"})),
}

QWEN = {
    "id missing in a later record": drift(edit(-1, {"session_id": REMOVED})),
    "id missing in the first record": drift(insert(0, {"type": "system"})),
    "second id": drift(edit(-1, {"session_id": OTHER_UUID})),
    "second id on standard error": drift(insert_other(None, {"type": "result", "session_id": OTHER_UUID})),
    "end missing": drift(delete(-1)),
    "end of another kind": drift(edit(-1, {"type": "outcome"})),
    "end on standard error": drift(move(-1)),
    "ended by a limit": drift(edit(-1, {"subtype": "error_max_turns"})),
    "failure": drift(edit(-1, {"is_error": True, "error": {"message": "no credit"}})),
    "failure without a reason": drift(edit(-1, {"is_error": True})),
    "failure that the engine gets over": drift(insert(-1, {"type": "system", "session_id": "{id}", "is_error": True})),
    "end with the mark of a failure": drift(edit(-1, {"type": "outcome", "is_error": True})),
    "answer that is no text": drift(edit(-1, {"result": 7})),
    "text of another kind of record": drift(insert(None, {"type": "user", "session_id": "{id}", "result": "I think"})),
    "every known kind of record": drift(insert(1, {"type": "user", "session_id": "{id}"})),
    "kind of record that nobody knows": drift(insert(1, {"type": "brand_new", "session_id": "{id}"})),
}

OF_ENGINE = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI, "iflow": IFLOW, "opencode": OPENCODE, "qwen": QWEN}


def drifted(source: Source) -> dict[str, DriftedTurn]:
    """Return the turn of a source as it was recorded, and after each drift, by name."""
    drifts = {"as recorded": drift(), "as recorded, resumed": resumed(), **EVERY_ENGINE, **OF_ENGINE[source.engine]}
    return {name: each.of(source) for name, each in drifts.items()}
