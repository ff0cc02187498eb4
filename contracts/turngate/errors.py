"""Errors, split by blame: our file is wrong, the caller asked for what must not be, the environment failed.

None of them is a verdict: what an engine does wrong is a result, never an exception.
"""

from collections.abc import Iterable
from dataclasses import dataclass


class TurngateError(Exception):
    """What every error of turngate that a user may meet derives from."""


@dataclass
class ContractError(TurngateError):
    """A contract (or another data file of ours) is wrong.

    `line` and `column` count from 1 (0: unknown); `path` is the place in the document, such as
    `$.launch[0].resume`; `hint` says how to mend it.
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
    """What was asked for as a release is no version at all."""


@dataclass
class _HintedError(TurngateError):
    what: str
    hint: str = ""

    def __str__(self) -> str:
        """Render as `what (hint)`."""
        return f"{self.what} ({self.hint})" if self.hint else self.what


@dataclass
class RefusedError(_HintedError):
    """The caller asked for what can't be done safely; `subject` is the token or value that it is about."""

    subject: str = ""


class EnvironmentFailed(_HintedError):  # noqa: N818 - the design's word
    """Something outside engine and contract failed; `hint` says what to do about it."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint that names the known name most like a mistyped one, or `otherwise` if none is like it."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and only mistakes need it

    near = get_close_matches(name.lower(), tuple(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise
