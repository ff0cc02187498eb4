"""Reads recordings, and replays them into what a probe would have seen.

A recording is a folder `<engine>/<version>/<case>/` with `recording.yaml`, `provenance.yaml`, `stdout`, `stderr`.
"""

import os
from pathlib import Path
from typing import Any

from semver import Version

from turngate import load
from turngate.contract import EngineContract
from turngate.errors import ContractError
from turngate.model import Mode
from turngate.runtime import Ended
from turngate.turn import read_turn
from turngate_probes.observe import Seen, Turn


def folder() -> Path | None:
    """Find the recordings: `TURNGATE_FIXTURES`, else `fixtures` in the working directory or in our checkout."""
    asked = os.environ.get("TURNGATE_FIXTURES")
    candidates = [Path(asked)] if asked else [Path("fixtures"), Path(__file__).resolve().parents[2] / "fixtures"]
    return next((each for each in candidates if each.is_dir()), None)


def newest(engine: str) -> str | None:
    """Give the newest version of which there are recordings."""
    root = folder()
    found = [each.name for each in (root / engine).iterdir()] if root and (root / engine).is_dir() else []
    return str(max(map(Version.parse, found))) if found else None


def replay(contract: EngineContract) -> Seen:
    """Read every recording of the contract's release."""
    seen = Seen(contract)
    root = folder()
    for case in sorted((root / contract.engine / str(contract.version)).iterdir()) if root else ():
        turn = _turn(contract, case)
        seen.turns[turn.name] = turn
    return seen


def _turn(contract: EngineContract, case: Path) -> Turn:
    file = case / "recording.yaml"
    document = load.parse(file.read_text("utf-8"), str(file))
    for error in load.schema_errors(document, "recording"):
        raise error
    data: dict[str, Any] = document.data
    stdout, stderr = (case / "stdout").read_bytes(), (case / "stderr").read_bytes()
    mode, ended = Mode(data["mode"]), Ended(data["ended"])
    arguments = tuple(data["argv"][1:])
    if data.get("prompt_at") is not None and any(i >= len(arguments) for i in data["prompt_at"]):
        raise ContractError("prompt_at points beyond argv", str(file), path="$.prompt_at")
    reading = read_turn(
        contract, mode, stdout, stderr, data["exit_code"], turn_index=data["turn_index"],
        resumed=data["resumed"], timed_out=ended is not Ended.EXIT,
    )  # fmt: skip
    return Turn(
        name=data["turn"], argv=tuple(data["argv"]),
        own_arguments=tuple(token for i, token in enumerate(arguments) if i not in data["prompt_at"]),
        cwd=data["cwd"], mode=mode, prompt=data["prompt"], nonce=data["nonce"], resumed=data["resumed"],
        scripted=data["answer"], exit_code=data["exit_code"], ended=ended, finished_at=0.0, seconds=0.0,
        cpu_seconds=0.0, stdout=stdout, stderr=stderr, leftovers=(), requests=None, reading=reading,
    )  # fmt: skip
