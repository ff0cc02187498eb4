"""Errors by cause: an invalid contract, an unsafe request, a failed environment.

None of them is a verdict: an engine's mistake is a result, never an exception.
"""

from collections.abc import Iterable


class TurngateError(Exception):
    """The base class of every error that turngate shows to users: `what` is wrong, and the `hint` says what to do.

    `str` has both. The hint may be empty.

    >>> issubclass(turngate.EnvironmentFailed, turngate.TurngateError)
    True
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what, self.hint = what, hint

    def __str__(self) -> str:
        """Render as `what (hint)`."""
        return f"{self.what} ({self.hint})" if self.hint else self.what


class ContractError(TurngateError):
    """A contract or another data file is invalid.

    `line` and `column` count from 1 (0: unknown); `path` is the place in the document, such as
    `$.launch[0].resume`; `hint` says how to fix it.

    >>> print(turngate.ContractError("must be text", "codex.yaml", 3, 5, "$.title", "add quotes"))
    codex.yaml:3:5: $.title: must be text (add quotes)
    """

    def __init__(
        self, what: str, file: str = "", line: int = 0, column: int = 0, path: str = "", hint: str = ""
    ) -> None:
        super().__init__(what, hint)
        self.args = (what, file, line, column, path, hint)
        self.file, self.line, self.column, self.path = file, line, column, path

    def __str__(self) -> str:
        """Render as `file:line:column: path: what (hint)`, without the unknown parts."""
        place = self.file + (f":{self.line}:{self.column}" if self.line else "")
        text = ": ".join(part for part in (place, self.path, self.what) if part)
        return f"{text} ({self.hint})" if self.hint else text


class NotCoveredError(ContractError):
    """The contract does not cover the requested release.

    >>> issubclass(turngate.NoVersionError, turngate.NotCoveredError)
    True
    """


class NoVersionError(NotCoveredError):
    """The requested release is not a version number.

    >>> turngate.load_contract("codex", "latest")
    Traceback (most recent call last):
    ...
    turngate.errors.NoVersionError: 'latest' isn't a version of codex (write the version as published, such as 1.2.3)
    """


class RefusedError(TurngateError):
    """The request can't be carried out safely; `subject` is the token or value at fault, if any.

    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> try:
    ...     turngate.first_turn(codex, "Paint the door", "interactive", options=["--yolo"])
    ... except turngate.RefusedError as refused:
    ...     print(refused.subject)
    --yolo
    """

    def __init__(self, what: str, hint: str = "", subject: str | None = None) -> None:
        super().__init__(what, hint)
        self.subject = subject


class EnvironmentFailed(TurngateError):  # noqa: N818 - the design's word
    """Something outside engine and contract failed: no executable, no disk; `hint` says how to fix it.

    >>> print(turngate.EnvironmentFailed("Codex CLI is not installed", "put it on PATH"))
    Codex CLI is not installed (put it on PATH)
    """


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint with the known name closest to a mistyped one, or `otherwise` if none is close."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and only mistakes need it

    near = get_close_matches(name.lower(), tuple(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise
