"""The OpenAI chat completions API, which many other backends speak as well."""

import time
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
    name_of,
    new_id,
    objects,
)

_ERROR_KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    429: ("requests", "rate_limit_exceeded"),
}
_KINDS = {"assistant": "model", "tool": "result", "function": "result"}


def refusal(status: int, message: str) -> Json:
    """Return `message` as an OpenAI API error with this HTTP status."""
    other = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    kind, code = _ERROR_KINDS.get(status, (other, None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def model(name: str) -> Json:
    """Return a model as the OpenAI APIs describe it."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "stub"}


def models(model: Json) -> Json:
    """List one model; the vendor's own CLI reads "models" instead, whose entries have another shape: none."""
    return {"object": "list", "data": [model], "models": []}


def _kind(message: Json) -> str | None:
    return _KINDS.get(str(message.get("role")))


def _tool_ids(message: Json) -> ToolIds:
    return ToolIds(ids_at("id", objects(message.get("tool_calls"))), ids_at("tool_call_id", (message,)))


def _names(tool: Json) -> tuple[str, ...]:
    """Return the name of a tool, which is under the key named after the tool's type."""
    inner = tool.get(str(tool.get("type")))
    return name_of(inner if isinstance(inner, dict) else tool)


def _given(answer: ModelAnswer) -> tuple[str, str, str]:
    """Return the type of a call, and the key and the text of what its tool is given."""
    if answer.program is not None:
        return "custom", "input", answer.program
    return "function", "arguments", answer.arguments_json


def _call(answer: ModelAnswer, text: str) -> Json:
    kind, key, _ = _given(answer)
    return {"id": new_id("call_"), "type": kind, kind: {"name": answer.tool, key: text}}


def _finish(answer: ModelAnswer) -> str:
    return "stop" if answer.tool is None else "tool_calls"


def _head(answer: ModelAnswer, kind: str) -> Json:
    return {"id": new_id("chatcmpl-"), "object": kind, "created": int(time.time()), "model": answer.model}


def _usage(answer: ModelAnswer) -> Json:
    counted = {"prompt_tokens": answer.tokens, "completion_tokens": OUTPUT_TOKENS}
    return {**counted, "total_tokens": answer.tokens + OUTPUT_TOKENS}


def _whole(answer: ModelAnswer) -> Json:
    message: Json = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.tool is not None:
        message = {**message, "content": None, "tool_calls": [_call(answer, _given(answer)[2])]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def _events(answer: ModelAnswer, request: Json) -> Iterator[Event]:
    head = _head(answer, "chat.completion.chunk")
    for delta in _deltas(answer):
        yield None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield None, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(answer)}]}
    options = request.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield None, {**head, "choices": [], "usage": _usage(answer)}
    yield None, "[DONE]"


def _deltas(answer: ModelAnswer) -> Iterator[Json]:
    if answer.tool is None:
        yield {"role": "assistant", "content": ""}
        yield from ({"content": piece} for piece in answer.pieces)
        return
    yield {"role": "assistant", "content": None, "tool_calls": [{"index": 0, **_call(answer, "")}]}
    kind, key, text = _given(answer)
    yield {"tool_calls": [{"index": 0, kind: {key: text}}]}


WIRE = WireProtocol("openai.chat", _kind, _tool_ids, _whole, _events, refusal, model, models, _names)
