"""The OpenAI Responses API."""

import re
import time
from collections.abc import Iterator

from turngate_probes.stub_model import openai_chat
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

_PLAIN = "functions"  # the namespace of tools that are called by their names alone
_DECLARED = re.compile(r"\bdeclare const tools: \{ (\w+)\(")  # a tool for the programs that another tool takes
# required fields of a response that no engine reads
_UNUSED: Json = {
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": False,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
}


def _names(tool: Json) -> tuple[str, ...]:
    if tool.get("type") == "namespace":
        inner = (name for one in objects(tool.get("tools")) for name in _names(one))
        prefix = "" if tool.get("name") == _PLAIN else f"{tool.get('name')}."
        return tuple(f"{prefix}{name}" for name in inner)
    declared = _DECLARED.findall(str(tool.get("description"))) if tool.get("type") == "custom" else []
    return (*name_of(tool), *declared)


def _kind(item: Json) -> str | None:
    kind = str(item.get("type", ""))
    if kind.endswith("_output"):
        return "result"
    return "model" if item.get("role") == "assistant" or kind.endswith("_call") else None


def _tool_ids(item: Json) -> ToolIds:
    """Return the id of a call that the engine carries out; those of the vendor's own tools have none."""
    ids, kind = ids_at("call_id", (item,)), str(item.get("type", ""))
    return ToolIds(ids if kind.endswith("_call") else (), ids if kind.endswith("_output") else ())


def _item(answer: ModelAnswer) -> Json:
    if answer.tool is not None:
        namespace, _, name = answer.tool.rpartition(".")
        kind, given = _given(answer)
        return {
            "type": kind,
            "id": new_id("fc_"),
            "call_id": new_id("call_"),
            **({"namespace": namespace} if namespace else {}),
            "name": name,
            **given,
            "status": "completed",
        }
    part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed", "content": [part]}


def _usage(answer: ModelAnswer) -> Json:
    return {
        "input_tokens": answer.tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.tokens + OUTPUT_TOKENS,
    }


def _given(answer: ModelAnswer) -> tuple[str, Json]:
    """Return the type of a call's item, and what the tool is given."""
    if answer.program is not None:
        return "custom_tool_call", {"input": answer.program}
    return "function_call", {"arguments": answer.arguments_json}


def _response(answer: ModelAnswer, identifier: str, items: list[Json] | None = None) -> Json:
    return {
        "id": identifier,
        "object": "response",
        "created_at": int(time.time()),
        "model": answer.model,
        "status": "in_progress" if items is None else "completed",
        "output": items or [],
        "usage": None if items is None else _usage(answer),
        **_UNUSED,
    }


def _whole(answer: ModelAnswer) -> Json:
    return _response(answer, new_id("resp_"), [_item(answer)])


def _events(answer: ModelAnswer, _request: Json) -> Iterator[Event]:
    for number, (kind, data) in enumerate(_numberless_events(answer)):
        yield kind, {"type": kind, "sequence_number": number, **data}


def _numberless_events(answer: ModelAnswer) -> Iterator[tuple[str, Json]]:
    identifier, item = new_id("resp_"), _item(answer)
    empty: Json = dict.fromkeys(_given(answer)[1], "") if answer.tool is not None else {"content": []}
    begun = {**item, **empty, "status": "in_progress"}
    yield "response.created", {"response": _response(answer, identifier)}
    yield "response.in_progress", {"response": _response(answer, identifier)}
    yield "response.output_item.added", {"output_index": 0, "item": begun}
    yield from _tool_events(item) if answer.tool is not None else _text_events(item, answer)
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": _response(answer, identifier, [item])}


def _tool_events(item: Json) -> Iterator[tuple[str, Json]]:
    place = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "custom_tool_call":
        yield "response.custom_tool_call_input.delta", {**place, "delta": item["input"]}
        yield "response.custom_tool_call_input.done", {**place, "input": item["input"]}
        return
    yield "response.function_call_arguments.delta", {**place, "delta": item["arguments"]}
    yield "response.function_call_arguments.done", {**place, "name": item["name"], "arguments": item["arguments"]}


def _text_events(item: Json, answer: ModelAnswer) -> Iterator[tuple[str, Json]]:
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    part = item["content"][0]
    yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
    for piece in answer.pieces:
        yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**place, "text": answer.text, "logprobs": []}
    yield "response.content_part.done", {**place, "part": part}


WIRE = WireProtocol(
    "openai.responses",
    _kind,
    _tool_ids,
    _whole,
    _events,
    openai_chat.refusal,
    openai_chat.model,
    openai_chat.models,
    _names,
    messages="input",
)
