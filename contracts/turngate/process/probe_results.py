"""What the last probe of each executable showed: small files in the user's cache.

A result holds for an executable, a version of its contract, and the settings of the user that the probe ran with.
Readers trust nothing in a file: one with another format, or about something else, is not a result. A file that a newer
turngate wrote is none either, and stays as it is.
"""

import functools
import hashlib
import logging
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec.structs import replace

from turngate.contract.engine_contract import EngineContract
from turngate.contract.verdict import Verdict
from turngate.decoding import decode
from turngate.files import keep_newest, read_own, write_atomically
from turngate.formats import NewerFormatError, version_of
from turngate.model import EngineResumeCapability
from turngate.process.executable import identity
from turngate.sanitize import bounded

SCHEMA: Final = "turngate.executable-result/2"
KEPT = 200
_MAX_BYTES = 16 * 2**10
_MAX_NEWER = 2**20
_MAX_DETAIL = 1000

_Word = Annotated[str, msgspec.Meta(max_length=300)]


class ProbeResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of a finished probe; `identity` distinguishes the executable from later ones.

    `settings` distinguishes the values of the user that it ran with (empty: there were none). `verdict` is None if only
    the clauses about resuming ran, `clause_set` and `level` name those that it was given by, and `at` has a time zone.
    """

    engine: _Word
    executable: Annotated[str, msgspec.Meta(max_length=4096)]
    identity: _Word
    version: _Word | None
    contract_version: _Word
    settings: _Word = ""
    verdict: Verdict | None
    clause_set: _Word
    level: _Word = "hermetic"
    capability: EngineResumeCapability
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    turngate: _Word
    schema: Literal["turngate.executable-result/2"] = SCHEMA


class _AnyVersion(msgspec.Struct):
    """What the results of every turngate have in common."""

    schema: str = SCHEMA


def save_result(result: ProbeResult, cache: Path) -> None:
    """Replace the previous result and delete the oldest ones of all executables; losing cached results is harmless.

    A result with a verdict on the same executable and release outlasts one without. The result of a newer turngate
    stays, and the log says so.
    """
    able = replace(result.capability, detail=bounded(result.capability.detail, _MAX_DETAIL))
    result = replace(result, capability=able)
    path = _place(result.engine, Path(result.executable), result.contract_version, result.settings, cache)
    last = _read(path)
    about = (result.identity, result.version)
    if _is_newer(path) or (not result.verdict and last and last.verdict and (last.identity, last.version) == about):
        return
    with suppress(OSError):
        write_atomically(path, msgspec.json.format(msgspec.json.encode(result)).decode() + "\n", private=True)
        keep_newest(path.parent, KEPT)


def last_result(contract: EngineContract, executable: Path, settings: str, cache: Path) -> ProbeResult | None:
    """Return the last result of an executable in its current state; None if there is no trustworthy one.

    If a newer turngate wrote it, the log says so.
    """
    path = _place(contract.engine, executable, contract.contract_version, settings, cache)
    if result := _read(path):
        found = (result.engine, result.executable, result.contract_version, result.settings, result.identity)
        with suppress(OSError):
            asked = (contract.engine, os.path.realpath(executable), contract.contract_version, settings)
            return result if found == (*asked, identity(executable)) else None
    else:
        _is_newer(path)
    return None


def _read(path: Path) -> ProbeResult | None:
    with suppress(OSError, ValueError, RecursionError):
        return decode(read_own(path, _MAX_BYTES), ProbeResult)
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


def _place(engine: str, executable: Path, contract_version: str, settings: str, cache: Path) -> Path:
    # an engine's name counts too: version managers link the names of many engines to one program
    about = "\0".join((engine, os.path.realpath(executable), contract_version, settings))
    return cache / "verdicts" / f"{hashlib.sha256(os.fsencode(about)).hexdigest()[:32]}.json"
