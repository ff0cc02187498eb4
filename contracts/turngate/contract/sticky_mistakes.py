"""Mistakes in how a sticky process is run: what its transport needs, and what it can't use."""

from collections.abc import Iterator

from turngate.contract.load import Document
from turngate.contract.versions import Claim
from turngate.errors import ContractError

# the keys of `interactive`, `auto` and `warm` that only some transports send or confirm
_MODE_KEYS = {
    "session": ("app_server",), "expect": ("app_server",), "turn": ("app_server",), "mode": ("acp", "stream_json")
}  # fmt: skip
# the keys that nothing reads without a transport
_OF_A_PROCESS = (
    "argv", "options", "interactive", "auto", "warm", "loads_headless", "permission_requests", "one_time"
)  # fmt: skip
# the transports that can check whether a process still answers, and can load a session
WARM_TRANSPORTS = ("acp", "app_server")


def transport_errors(document: Document, sticky: Claim) -> Iterator[ContractError]:
    """Find a transport that can't start, that can't set what the contract asks for, or that nothing uses."""
    transport = sticky.data["transport"]
    if transport == "none":
        for key in _OF_A_PROCESS:
            if key in sticky.data:
                message = "is never used without a transport"
                yield document.error(sticky.at(key), message, f"name the transport, or remove `{key}`", of_key=True)
        return
    if "argv" not in sticky.data:
        yield document.error(sticky.at(), f"{transport} has no `argv`", "add the arguments that start the process")
    yield from _mode_errors(document, sticky, transport)
    yield from _model_errors(document, sticky, transport)
    yield from _warm_errors(document, sticky, transport)


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


def _warm_errors(document: Document, sticky: Claim, transport: str) -> Iterator[ContractError]:
    """Find a kept process whose death could go unnoticed, and one whose sessions headless turns may not find."""
    data = sticky.data
    if "warm" not in data:
        if data.get("loads_headless"):
            hint = "describe the process under `warm`, or remove `loads_headless`"
            yield document.error(sticky.at("loads_headless"), "is never used without `warm`", hint, of_key=True)
        return
    if transport not in WARM_TRANSPORTS:
        message = f"{transport} can't check whether a kept process still answers"
        yield document.error(
            sticky.at("warm"), message, f"only {' and '.join(WARM_TRANSPORTS)} can: remove `warm`", of_key=True
        )
    if data.get("own_store"):
        message = "can't work if the process stores its sessions elsewhere"
        yield document.error(sticky.at("warm"), message, "correct `own_store`, or remove `warm`", of_key=True)
    if "unverified" in data:
        hint = "give it a change with evidence, or remove `warm`"
        yield document.error(sticky.at("warm"), "is claimed without proof", hint, of_key=True)
