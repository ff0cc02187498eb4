"""Mistakes in what a contract allows callers to pass in mode interactive."""

from collections.abc import Iterator, Mapping
from typing import Any

from turngate.argv.auto_flags import Flags, auto_flags_in
from turngate.contract.load import Document
from turngate.contract.versions import Claim, Path_
from turngate.decoding import convert
from turngate.errors import ContractError

_KINDS = ("values", "pattern", "path", "keys")


def interactive_errors(document: Document, option: Claim) -> Iterator[ContractError]:
    """Find allowed uses that do not fit the option's value, or that let the engine act without asking."""
    use = option.data.get("interactive")
    if use is None:
        return
    at, kinds = option.at("interactive"), [kind for kind in _KINDS if kind in use]
    if option.data["value"] == "none":
        if kinds:
            yield document.error((*at, kinds[0]), "a switch takes no value", f"remove `{kinds[0]}`")
    elif len(kinds) != 1:
        message = f"has {' and '.join(kinds)}" if kinds else "does not say which values are allowed"
        yield document.error(at, message, f"write one of {', '.join(_KINDS)}")
    flags = convert(
        {key: [claim.data for claim in document.meeting(key, option)] for key in ("auto_flags", "options")}, Flags
    )
    names = {name for flag in flags.auto_flags for name in (flag.flag, *flag.aliases)}
    for place, value in _samples(use):
        for name in (option.data["flag"], *option.data.get("aliases", ())):
            if value is None and name in names and "keys" not in use:
                message = f"{name} can let the engine act without asking"
                yield document.error(at, message, "list the safe values under `values`, or remove `interactive`")
            elif value is not None and auto_flags_in((name, value), flags):
                message = f"{name} {value} lets the engine act without asking"
                yield document.error((*at, *place), message, "remove it")


def _samples(use: Mapping[str, Any]) -> Iterator[tuple[Path_, str | None]]:
    """Return each allowed value with its path; None where any value of some shape is allowed."""
    for j, key in enumerate(use.get("keys", ())):
        for k, value in enumerate(key.get("values", ("any",))):
            place = ("values", k) if "values" in key else ("pattern",)
            yield ("keys", j, *place), f"{key['key']}={value}"
    for k, value in enumerate(use.get("values", ())):
        yield ("values", k), value
    if not {"keys", "values"} & use.keys():
        yield (), None
