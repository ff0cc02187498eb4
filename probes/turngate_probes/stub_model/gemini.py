"""The Gemini API. A request's model and whether it is streamed stand in its path, not in its document.

A stream always comes as server-sent events, as `alt=sse` asks for it.
"""

from collections.abc import Iterator

from turngate_probes.stub_model.protocol import Event, Json, ModelAnswer, Prompted, WireProtocol, objects, prompted

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
_USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}


def _read(document: Json) -> Prompted:
    contents = ({"role": "user", **content} for content in objects(document.get("contents")))
    return prompted(contents, document.get("tools"), _kind, _names, "parts")


def _names(tool: Json) -> Iterator[str]:
    """Return the declared functions' names, and the key itself for a tool of the vendor's own."""
    for key, value in tool.items():
        if key == "functionDeclarations":
            yield from (
                declaration["name"] for declaration in objects(value) if isinstance(declaration.get("name"), str)
            )
        else:
            yield key


def _kind(content: Json) -> str | None:
    if content.get("role") == "model":
        return "model"
    return "result" if any("functionResponse" in part for part in objects(content.get("parts"))) else None


def _document(said: ModelAnswer, part: Json, *, last: bool) -> Json:
    candidate: dict[str, object] = {"content": {"role": "model", "parts": [part]}, "index": 0}
    if last:
        candidate["finishReason"] = "STOP"
    return {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": said.model}


def _call(said: ModelAnswer) -> Json:
    return {"functionCall": {"name": said.tool, "args": said.arguments}}


def _whole(said: ModelAnswer) -> Json:
    return _document(said, {"text": said.text} if said.tool is None else _call(said), last=True)


def _events(said: ModelAnswer, _request: Json) -> Iterator[Event]:
    parts = [{"text": piece} for piece in said.pieces] if said.tool is None else [_call(said)]
    for part in parts:
        yield None, _document(said, part, last=False)
    yield None, _document(said, {"text": ""}, last=True)


def _refusal(status: int, message: str) -> Json:
    return {"error": {"code": status, "message": message, "status": _STATUSES.get(status, "UNKNOWN")}}


WIRE = WireProtocol("gemini", _read, _whole, _events, _refusal)
