"""The Gemini API. A request's model, and whether it is streamed, are in its path, not in its document.

A stream always comes as server-sent events, as `alt=sse` asks for it.
"""

from collections.abc import Iterator

from turngate_probes.stub_model.protocol import (
    OUTPUT_TOKENS,
    Event,
    Json,
    ModelAnswer,
    ToolIds,
    WireProtocol,
    name_of,
    objects,
)

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_SCHEMAS = ("responseJsonSchema", "responseSchema")
_PAIRED = ("functionCall", "functionResponse")


def _names(tool: Json) -> Iterator[str]:
    """Return the names of declared functions, and the key itself for a built-in tool."""
    for key, value in tool.items():
        if key != "functionDeclarations":
            yield key
            continue
        for declaration in objects(value):
            yield from name_of(declaration)


def _kind(content: Json) -> str | None:
    if content.get("role") == "model":
        return "model"
    return "result" if any("functionResponse" in part for part in objects(content.get("parts"))) else None


def _tool_ids(content: Json) -> ToolIds:
    """Return the ids of calls, or else the names of their functions: the vendor asks for no ids."""
    parts = objects(content.get("parts"))
    calls, results = ([part[key] for part in parts if isinstance(part.get(key), dict)] for key in _PAIRED)
    return ToolIds(*(tuple(str(each.get("id") or each.get("name")) for each in used) for used in (calls, results)))


def _schema(request: Json) -> Json | None:
    config = request.get("generationConfig")
    if not isinstance(config, dict):
        return None
    given = next((config[key] for key in _SCHEMAS if isinstance(config.get(key), dict)), None)
    return {"type": "object"} if given is None and config.get("responseMimeType") == "application/json" else given


def _document(answer: ModelAnswer, text: str, **ended: str) -> Json:
    call = {"functionCall": {"name": answer.tool, "args": answer.arguments}}
    content = {"role": "model", "parts": [{"text": text} if answer.tool is None else call]}
    candidate = {"content": content, "index": 0, **ended}
    counted = {"promptTokenCount": answer.tokens, "candidatesTokenCount": OUTPUT_TOKENS}
    usage = {**counted, "totalTokenCount": answer.tokens + OUTPUT_TOKENS}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": answer.model}


def _whole(answer: ModelAnswer) -> Json:
    return _document(answer, answer.text, finishReason="STOP")


def _events(answer: ModelAnswer, _request: Json) -> Iterator[Event]:
    for piece in answer.pieces:
        yield None, _document(answer, piece)
    yield None, _document(ModelAnswer(answer.model, tokens=answer.tokens), "", finishReason="STOP")


def _refusal(status: int, message: str) -> Json:
    return {"error": {"code": status, "message": message, "status": _STATUSES.get(status, "UNKNOWN")}}


def _model(name: str) -> Json:
    methods = ["generateContent", "countTokens"]
    limits = {"inputTokenLimit": 1_000_000, "outputTokenLimit": 65_536}
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods, **limits}


def _models(model: Json) -> Json:
    return {"models": [model]}


WIRE = WireProtocol(
    "gemini",
    _kind,
    _tool_ids,
    _whole,
    _events,
    _refusal,
    _model,
    _models,
    _names,
    messages="contents",
    content="parts",
    role="user",
    schema=_schema,
)
