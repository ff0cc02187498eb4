"""Describes, for error messages, the options that callers may pass to an engine."""

from collections.abc import Iterator, Sequence

from turngate.contract.allowed import AllowedValues
from turngate.contract.launch import Option
from turngate.contract.structs import EngineContract
from turngate.model import Mode


def allowed(contract: EngineContract, mode: Mode, flags: Sequence[str] | None = None) -> tuple[str, ...]:
    """Describe each option that callers may pass in a mode; for a sticky process, only those in `flags`."""
    options = [option for option in contract.options if flags is None or option.flag in flags]
    if mode is Mode.INTERACTIVE:
        return tuple(line for option in options for line in _uses(option))
    return tuple(_names(option) + (" VALUE" if option.value != "none" else "") for option in options)


def allowed_hint(contract: EngineContract, mode: Mode) -> str:
    """Return the allowed options as an error hint."""
    return f"allowed in mode {mode}: {'; '.join(allowed(contract, mode)) or 'no options'}"


def _uses(option: Option) -> Iterator[str]:
    """Describe the allowed uses of an option in mode interactive."""
    use, names = option.interactive, _names(option)
    if use is None:
        return
    if use.keys:
        yield from (f"{names} {entry.key}={_shape(entry)}" for entry in use.keys)
    elif use.path:
        yield f"{names} PATH in the workspace"
    else:
        yield names if option.value == "none" else f"{names} {_shape(use)}"


def _shape(values: AllowedValues) -> str:
    return f"VALUE matching {values.pattern}" if values.pattern else "|".join(values.values)


def _names(option: Option) -> str:
    return ", ".join((option.flag, *option.aliases))
