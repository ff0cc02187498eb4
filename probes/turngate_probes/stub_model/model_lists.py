"""Lists of models, and single models, in each vendor's shape."""

from collections.abc import Callable

from turngate_probes.stub_model import anthropic, gemini
from turngate_probes.stub_model.protocol import Json

_OFFERED = "stub"


def listing(vendor: str, model: str | None) -> Json:
    """Return the model asked for, else the list of all, which is one; `vendor` is the name of a protocol."""
    entry = _ENTRIES.get(vendor, _openai)(model or _OFFERED)
    return _LISTS.get(vendor, _openai_list)(entry) if model is None else entry


def _openai(model: str) -> Json:
    return {"id": model, "object": "model", "created": 0, "owned_by": "stub"}


def _openai_list(entry: Json) -> Json:
    # the vendor's own CLI reads "models" instead, whose entries have a shape of their own: there are none
    return {"object": "list", "data": [entry], "models": []}


def _gemini(model: str) -> Json:
    methods = ["generateContent", "countTokens"]
    limits = {"inputTokenLimit": 1_000_000, "outputTokenLimit": 65_536}
    return {"name": f"models/{model}", "displayName": model, "supportedGenerationMethods": methods, **limits}


def _anthropic(model: str) -> Json:
    return {"type": "model", "id": model, "display_name": model, "created_at": "2025-01-01T00:00:00Z"}


def _anthropic_list(entry: Json) -> Json:
    return {"data": [entry], "has_more": False, "first_id": entry["id"], "last_id": entry["id"]}


_ENTRIES: dict[str, Callable[[str], Json]] = {gemini.WIRE.name: _gemini, anthropic.WIRE.name: _anthropic}
_LISTS: dict[str, Callable[[Json], Json]] = {
    gemini.WIRE.name: lambda entry: {"models": [entry]},
    anthropic.WIRE.name: _anthropic_list,
}
