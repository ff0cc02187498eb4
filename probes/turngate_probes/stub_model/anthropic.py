"""The Anthropic messages API."""

from collections.abc import Iterator
from http import HTTPStatus

from turngate_probes.stub_model.protocol import (
    OUTPUT_TOKENS,
    Event,
    Json,
    ModelAnswer,
    ToolIds,
    WireProtocol,
    ids_at,
    new_id,
    objects,
)

_ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _kind(message: Json) -> str | None:
    if message.get("role") == "assistant":
        return "model"
    results = (part.get("type") == "tool_result" for part in objects(message.get("content")))
    return "result" if any(results) else None


def _usage(answer: ModelAnswer) -> Json:
    return {"input_tokens": answer.tokens, "output_tokens": OUTPUT_TOKENS}


def _tool_ids(message: Json) -> ToolIds:
    parts = objects(message.get("content"))
    calls = ids_at("id", (part for part in parts if part.get("type") == "tool_use"))
    return ToolIds(calls, ids_at("tool_use_id", parts))


def _message(answer: ModelAnswer, *content: Json, stop_reason: str | None = None) -> Json:
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": _usage(answer),
    }


def _block(answer: ModelAnswer, text: str, arguments: Json) -> Json:
    if answer.tool is None:
        return {"type": "text", "text": text}
    return {"type": "tool_use", "id": new_id("toolu_"), "name": answer.tool, "input": arguments}


def _finish(answer: ModelAnswer) -> str:
    return "end_turn" if answer.tool is None else "tool_use"


def _whole(answer: ModelAnswer) -> Json:
    return _message(answer, _block(answer, answer.text, answer.arguments), stop_reason=_finish(answer))


def _events(answer: ModelAnswer, _request: Json) -> Iterator[Event]:
    deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in answer.pieces]
    if answer.tool is not None:
        deltas = [{"type": "input_json_delta", "partial_json": answer.arguments_json}]
    yield _event("message_start", message=_message(answer))
    yield _event("content_block_start", index=0, content_block=_block(answer, "", {}))
    for delta in deltas:
        yield _event("content_block_delta", index=0, delta=delta)
    yield _event("content_block_stop", index=0)
    ended = {"stop_reason": _finish(answer), "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage=_usage(answer))
    yield _event("message_stop")


def _event(kind: str, **data: object) -> Event:
    return kind, {"type": kind, **data}


def _refusal(status: int, message: str) -> Json:
    other = "api_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    kind = _ERRORS.get(status, other)
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": new_id("req_")}


def _model(name: str) -> Json:
    return {"type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z"}


def _models(model: Json) -> Json:
    return {"data": [model], "has_more": False, "first_id": model["id"], "last_id": model["id"]}


WIRE = WireProtocol("anthropic", _kind, _tool_ids, _whole, _events, _refusal, _model, _models)
