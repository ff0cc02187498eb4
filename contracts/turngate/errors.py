"""Errors by blame: a file of ours is wrong, the caller asked for something unsafe, the environment failed.

None of them is a verdict: an engine's mistake is a result, never an exception.
"""

from collections.abc import Iterable
from dataclasses import dataclass


class TurngateError(Exception):
    """The base class of every error that turngate shows to users."""


@dataclass
class ContractError(TurngateError):
    """A contract (or another data file of ours) is wrong.

    `line` and `column` count from 1 (0: unknown); `path` is the place in the document, such as
    `$.launch[0].resume`; `hint` says how to fix it.
    """

    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""
    hint: str = ""

    def __str__(self) -> str:
        """Render as `file:line:column: path: message (hint)`, leaving out what is unknown."""
        place = self.file + (f":{self.line}:{self.column}" if self.line else "")
        text = ": ".join(part for part in (place, self.path, self.message) if part)
        return f"{text} ({self.hint})" if self.hint else text


class NotCoveredError(ContractError):
    """The contract says nothing about the release that was asked for."""


class NoVersionError(NotCoveredError):
    """The requested release is not a version."""


@dataclass
class _HintedError(TurngateError):
    what: str
    hint: str = ""

    def __str__(self) -> str:
        """Render as `what (hint)`."""
        return f"{self.what} ({self.hint})" if self.hint else self.what


@dataclass
class RefusedError(_HintedError):
    """The caller asked for something that can't be done safely; `subject` is the token or value at fault, if any."""

    subject: str | None = None


class EnvironmentFailed(_HintedError):  # noqa: N818 - the design's word
    """Something outside engine and contract failed; `hint` says what to do about it."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint with the known name closest to a mistyped one, or `otherwise` if none is close."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and only mistakes need it

    near = get_close_matches(name.lower(), tuple(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise
