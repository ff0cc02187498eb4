"""The last probe and the last verification of each executable: small files in the user's cache.

Readers trust nothing in them: a file with another format, or about another executable, is not a result. A file that a
newer turngate wrote is none either, and stays as it is. A file without `schema` has version 1.
"""

import functools
import hashlib
import logging
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from turngate.contract.clauses import FIRST_SET
from turngate.contract.verdict import Verdict
from turngate.decoding import decode
from turngate.files import keep_newest, read_own, write_atomically
from turngate.formats import NewerFormatError, version_of
from turngate.model import EngineResumeCapability, ProfileKind
from turngate.process.executable import identity
from turngate.sanitize import bounded

SCHEMA: Final = "turngate.executable-result/1"
KEPT = 200
_MAX_BYTES = 16 * 2**10
_MAX_NEWER = 2**20
_MAX_DETAIL = 1000

_Word = Annotated[str, msgspec.Meta(max_length=300)]
_Text = Annotated[str, msgspec.Meta(max_length=2 * _MAX_DETAIL)]


class _ExecutableResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A result for one executable; `identity` distinguishes it from later ones, and `at` has a time zone."""

    engine: _Word
    executable: Annotated[str, msgspec.Meta(max_length=4096)]
    identity: _Word
    version: _Word | None
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    turngate: _Word
    schema: Literal["turngate.executable-result/1"] = SCHEMA


class ProbeResult(_ExecutableResult, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of a finished probe; `clause_set` names the clauses that the verdict was given by."""

    verdict: Verdict
    clause_set: _Word = FIRST_SET
    capability: EngineResumeCapability
    profile: ProfileKind


class Verification(_ExecutableResult, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What two turns showed about resume only, by the contract of that version.

    `settings` distinguishes the user's settings and variables that the turns ran with (empty: there were none).
    """

    contract_version: _Word
    settings: _Word = ""
    status: Literal["proven", "refuted"]
    detail: _Text


class _AnyVersion(msgspec.Struct):
    """What the results of every turngate have in common."""

    schema: str = SCHEMA


_Result = TypeVar("_Result", ProbeResult, Verification)
_FOLDERS = {ProbeResult: "verdicts", Verification: "verifications"}


def save_result(result: ProbeResult | Verification, cache: Path) -> None:
    """Replace the previous result and delete the oldest ones of all executables; losing cached results is harmless.

    The result of a newer turngate stays, and the log says so.
    """
    if isinstance(result, ProbeResult):
        able = replace(result.capability, detail=bounded(result.capability.detail, _MAX_DETAIL))
        result = replace(result, capability=able)
    path = _place(type(result), result.engine, Path(result.executable), cache)
    if _is_newer(path):
        return
    with suppress(OSError):
        write_atomically(path, msgspec.json.format(msgspec.json.encode(result)).decode() + "\n", private=True)
        keep_newest(path.parent, KEPT)


def last_result(kind: type[_Result], engine: str, executable: Path, cache: Path) -> _Result | None:
    """Return the last result of an executable in its current state; None if there is no trustworthy one.

    If a newer turngate wrote it, the log says so.
    """
    path = _place(kind, engine, executable, cache)
    try:
        result = decode(read_own(path, _MAX_BYTES), kind)
        about = (result.engine, result.executable, result.identity)
        if about == (engine, os.path.realpath(executable), identity(executable)):
            return result
    except (OSError, ValueError, RecursionError):
        _is_newer(path)
    return None


def _is_newer(path: Path) -> bool:
    """Return whether a newer turngate wrote a result, and log that."""
    with suppress(OSError, ValueError, RecursionError):
        try:
            version_of(decode(read_own(path, _MAX_NEWER), _AnyVersion).schema, SCHEMA)
        except NewerFormatError as newer:
            _tell(path, str(newer))
            return True
    return False


@functools.cache
def _tell(path: Path, why: str) -> None:
    """Log once that a result is not used; the server asks for results at each request."""
    advice = (
        "probe the engine again with the newer turngate, or delete the file to let this version save its own result"
    )
    logging.getLogger(__name__).warning("the result %s is left alone: %s (%s)", path, why, advice)


def _place(kind: type[ProbeResult | Verification], engine: str, executable: Path, cache: Path) -> Path:
    # an engine's name counts too: version managers link the names of many engines to one program
    about = f"{engine}\0{os.path.realpath(executable)}"
    return cache / _FOLDERS[kind] / f"{hashlib.sha256(os.fsencode(about)).hexdigest()[:32]}.json"
