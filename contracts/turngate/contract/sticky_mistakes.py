"""Mistakes in how a sticky process is run: what its transport needs, and what it can't use."""

from collections.abc import Iterator

from turngate.contract.load import Document
from turngate.contract.versions import Claim
from turngate.errors import ContractError

# the keys of `interactive`, `auto` and `warm` that only some transports send or confirm
_MODE_KEYS = {"session": ("app_server",), "expect": ("app_server",), "mode": ("acp", "stream_json")}


def transport_errors(document: Document, sticky: Claim) -> Iterator[ContractError]:
    """Find a transport that can't start, that can't set what the contract asks for, or that nothing uses."""
    transport = sticky.data["transport"]
    if transport == "none":
        for key in ("argv", "options", "interactive", "auto", "warm", "permission_requests", "one_time"):
            if key in sticky.data:
                message = "is never used without a transport"
                yield document.error(sticky.at(key), message, f"name the transport, or remove `{key}`", of_key=True)
        return
    if "argv" not in sticky.data:
        yield document.error(sticky.at(), f"{transport} has no `argv`", "add the arguments that start the process")
    yield from _mode_errors(document, sticky, transport)
    yield from _model_errors(document, sticky, transport)


def _mode_errors(document: Document, sticky: Claim, transport: str) -> Iterator[ContractError]:
    for mode in ("interactive", "auto", "warm"):
        for key in sticky.data.get(mode, {}):
            if transport not in _MODE_KEYS.get(key, (transport,)):
                hint = f"only {' and '.join(_MODE_KEYS[key])} can: remove `{key}`"
                yield document.error(sticky.at(mode, key), f"{transport} can't use `{key}`", hint, of_key=True)


def _model_errors(document: Document, sticky: Claim, transport: str) -> Iterator[ContractError]:
    by = sticky.data.get("model", "argument")
    takes_options = "{options}" in sticky.data.get("argv", ())
    if by == "session" and transport in ("stream_json", "json_commands"):
        yield document.error(sticky.at("model"), f"{transport} chooses no model by request", "write `argument`")
    if by == "argument" and not takes_options and any(c.data["model"] for c in document.meeting("launch", sticky)):
        yield document.error(sticky.at("argv"), "has no slot for the model's option", "add {options} where it belongs")
