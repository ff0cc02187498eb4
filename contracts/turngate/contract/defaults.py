"""What a contract says with the sections that it leaves out. Nobody has seen that it holds, so it is unverified."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from turngate.contract.versions import stretches

# a release that is the only number with dots in the whole text
_REST = r"(?:(?!\d\.\d)[\s\S])*"
_RELEASE = r"(?<![\d.])\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]*[0-9A-Za-z])?(?!\.?\d)"
_USUAL: Mapping[str, Any] = {
    "version": {"argv": ["--version"], "pattern": f"{_REST}(?P<version>{_RELEASE}){_REST}"},
    "streams": {"stdout": {"framing": "ndjson"}},
    "resume_probe": {},
}
DEFAULTS = (*_USUAL, "environment", "options", "auto_flags")
_SANDBOX = ("{home}", "{work}", "{tmp}", "{shared}")


def completed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a contract with `DEFAULTS`; its `launch`, `hermetic` and `store`, if there, are valid.

    If no argument of `launch.auto` is an option, `auto_flags` stays absent: only the author knows whether the engine
    has no such option, or acts unasked without one.
    """
    kept = [name for places in _values(data, "store", "locations") for name in places if name != "HOME"]
    needed = [name for env in _values(data, "hermetic", "env") for name, value in env.items() if not _is_place(value)]
    options = {flag: value for key in ("auto", "interactive", "model") for flag, value in _options(data, key)}
    widening = dict.fromkeys(flag for flag, _ in _options(data, "auto"))
    derived = {
        "environment": {
            "pass": [name for name in dict.fromkeys(needed) if name not in kept],
            "locations": [*dict.fromkeys(kept)],
        },
        "options": [{"flag": flag, "value": value} for flag, value in options.items()],
        "auto_flags": [{"flag": flag} for flag in widening],
    }
    return {**_USUAL, **{section: claims for section, claims in derived.items() if claims}, **data}


def _is_place(value: str) -> bool:
    """Whether a variable of the sandbox names one of its folders, which is no place for turns outside of it."""
    return any(slot in value for slot in _SANDBOX)


def _options(data: Mapping[str, Any], key: str) -> Iterator[tuple[str, str]]:
    """Yield the options in the arguments under a key of `launch`, each with the kind of its value."""
    for arguments in _values(data, "launch", key):
        flags = [token.partition("=")[0] for token in arguments]
        for token, following in pairwise((*arguments, "-")):
            flag, attached, _ = token.partition("=")
            if flag.startswith("-"):
                takes = "many" if flags.count(flag) > 1 else "required"
                yield flag, takes if attached or not following.startswith("-") else "none"


def _values(data: Mapping[str, Any], section: str, key: str) -> Iterator[Any]:
    """Yield what a section has under a key, over all releases."""
    entries = data.get(section, [])
    for entry in entries if isinstance(entries, list) else [entries]:
        yield from (claim.data[key] for claim in stretches(entry) if key in claim.data)
