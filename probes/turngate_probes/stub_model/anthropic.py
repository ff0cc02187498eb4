"""The Anthropic messages API."""

from collections.abc import Iterator
from http import HTTPStatus

from turngate_probes.stub_model.protocol import (
    Event,
    Json,
    ModelAnswer,
    Prompted,
    WireProtocol,
    new_id,
    objects,
    prompted,
)

_ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_USAGE = {"input_tokens": 10, "output_tokens": 2}


def _read(document: Json) -> Prompted:
    return prompted(objects(document.get("messages")), document.get("tools"), _kind)


def _kind(message: Json) -> str | None:
    if message.get("role") == "assistant":
        return "model"
    results = (part.get("type") == "tool_result" for part in objects(message.get("content")))
    return "result" if any(results) else None


def _finish(said: ModelAnswer) -> str:
    return "end_turn" if said.tool is None else "tool_use"


def _message(said: ModelAnswer) -> dict[str, object]:
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _whole(said: ModelAnswer) -> Json:
    block: Json = {"type": "text", "text": said.text}
    if said.tool is not None:
        block = {"type": "tool_use", "id": new_id("toolu_"), "name": said.tool, "input": said.arguments}
    return {**_message(said), "content": [block], "stop_reason": _finish(said)}


def _events(said: ModelAnswer, _request: Json) -> Iterator[Event]:
    for kind, data in _unnamed_events(said):
        yield kind, {"type": kind, **data}


def _unnamed_events(said: ModelAnswer) -> Iterator[tuple[str, Json]]:
    yield "message_start", {"message": _message(said)}
    if said.tool is None:
        block: Json = {"type": "text", "text": ""}
        deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in said.pieces]
    else:
        block = {"type": "tool_use", "id": new_id("toolu_"), "name": said.tool, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": said.arguments_json}]
    yield "content_block_start", {"index": 0, "content_block": block}
    for delta in deltas:
        yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": {"stop_reason": _finish(said), "stop_sequence": None}, "usage": _USAGE}
    yield "message_stop", {}


def _refusal(status: int, message: str) -> Json:
    other = "api_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    kind = _ERRORS.get(status, other)
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": new_id("req_")}


WIRE = WireProtocol("anthropic", _read, _whole, _events, _refusal)
