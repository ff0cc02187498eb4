"""The errors that turngate shows to users, by who must act.

    TurngateError
     x ContractError            the author of the contract, or of another data file
       - NotCoveredError        the same: the contract does not cover the release
         + NoVersionError       the caller: this is no release
     x RefusedError             the caller: it would be unsafe
       - UnsafeTurnError        the operator: nothing makes the turn safe, whatever its text and options are
     x UsageError               the caller: an argument, or what it names, can't be used
       - NotFoundError          the caller: there is no such thing
       - ServerRefusedError     the caller: a turngate server said no
     x MachineError             the operator of the machine: processes, disk, ports, registries
       - NotInstalledError      the operator: an engine or a tool is not installed

Each says `what` is wrong, and in `hint` what to do; `str` has both. At the command line, all exit with 2. None of them
is a verdict: an engine's mistake is a result, never an exception.
"""

from collections.abc import Iterable


class TurngateError(Exception):
    """The base class of every error that turngate shows to users: `what` is wrong, and the `hint` says what to do.

    `str` has both. The hint may be empty.

    >>> issubclass(turngate.MachineError, turngate.TurngateError)
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


class UnsafeTurnError(RefusedError):
    """Nothing makes a turn safe in this workspace, or with these settings; `subject` is the promise that it breaks."""


class UsageError(TurngateError):
    """An argument, or a file that it names, can't be used: the caller must change it.

    >>> issubclass(turngate.NotFoundError, turngate.UsageError)
    True
    """


class NotFoundError(UsageError):
    """There is no such run, handle, release, file or server.

    >>> print(turngate.NotFoundError("no server runs on /data", "start one with turngate serve"))
    no server runs on /data (start one with turngate serve)
    """


class ServerRefusedError(UsageError):
    """A turngate server refused a request; `what` and `hint` are its own words.

    >>> issubclass(turngate.ServerRefusedError, turngate.UsageError)
    True
    """


class MachineError(TurngateError):
    """The machine can't do it, for example because its disk is full: its operator must act.

    >>> print(turngate.MachineError("the disk is full", "make room"))
    the disk is full (make room)
    """


class NotInstalledError(MachineError):
    """An engine, or a program that turngate needs, is not installed.

    >>> print(turngate.NotInstalledError("Codex CLI is not installed", "put it on PATH"))
    Codex CLI is not installed (put it on PATH)
    """


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint with the known name closest to a mistyped one, or `otherwise` if none is close."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and only mistakes need it

    near = get_close_matches(name.lower(), tuple(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise
