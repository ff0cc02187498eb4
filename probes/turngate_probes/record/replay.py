"""Reads recordings, and replays them into what a probe would have seen.

A recording is one turn, or one page such as a help text: a folder `<engine>/<version>/<case>-<step>/` with
`recording.yaml`, `provenance.yaml`, `stdout`, `stderr` and, where somebody watched, `requests.ndjson`.
"""

from pathlib import Path
from typing import Any

from turngate.contract import load
from turngate.contract.clauses import Reason
from turngate.contract.load import Document
from turngate.contract.structs import EngineContract
from turngate.model import Mode
from turngate.process import Ended, Leftover
from turngate.turn.read import read_turn
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import CommandOutput, Observations, Turn
from turngate_probes.record.files import PAGE_SCHEMA
from turngate_probes.record.requests import lengthened, read_requests
from turngate_probes.releases.recorded_releases import folder


def replay(contract: EngineContract, root: Path | None = None) -> Observations:
    """Read every recording of the contract's release (in `root`, else where they are found)."""
    seen = Observations(contract, absent=Obstacle("there is no recording of it", Reason.NO_RECORDING))
    root = root or folder()
    for case in sorted((root / contract.engine / str(contract.version)).iterdir()) if root else ():
        seen.note(_read(contract, case))
    return seen


def _read(contract: EngineContract, case: Path) -> Turn | CommandOutput:
    """Read a recording of either kind; ContractError if it is none."""
    file = case / "recording.yaml"
    document = load.parse(file.read_text("utf-8"), str(file), ours=True)
    is_page = isinstance(document.data, dict) and document.data.get("schema") == PAGE_SCHEMA
    key, schema = ("page", "recorded-page") if is_page else ("turn", "recording")
    for error in load.schema_errors(document, schema):
        raise error
    if case.name != document.data[key].replace("/", "-"):
        raise document.error((key,), f"lies in a folder {case.name}", f"a folder is named as its {key}")
    stdout, stderr = (case / "stdout").read_bytes(), (case / "stderr").read_bytes()
    if not is_page:
        return _turn(contract, document, case, stdout, stderr)
    data, ended = document.data, Ended(document.data["ended"])
    return CommandOutput(data["page"], tuple(data["argv"]), data["exit_code"], ended, stdout, stderr)


def _turn(contract: EngineContract, document: Document, case: Path, stdout: bytes, stderr: bytes) -> Turn:
    data: dict[str, Any] = document.data
    mode, ended = Mode(data["mode"]), Ended(data["ended"])
    arguments = tuple(data["argv"][1:])
    if any(i >= len(arguments) for i in data["prompt_at"]):
        raise document.error(("prompt_at",), "points beyond argv")
    prompt, requests, file = lengthened(data["prompt"]), read_requests(case), case / "provenance.yaml"
    # None: recorded before it was measured
    stayed = load.parse(file.read_text("utf-8"), str(file), ours=True).data.get("exit_seconds")
    reading = read_turn(
        contract, mode, stdout, stderr, data["exit_code"], turn_index=data["turn_index"],
        resumed=data["resumed"], ended=ended,
    )  # fmt: skip
    return Turn(
        name=data["turn"], argv=tuple(data["argv"]),
        own_arguments=tuple(token for i, token in enumerate(arguments) if i not in data["prompt_at"]),
        cwd=data["cwd"], mode=mode, prompt=prompt, nonce=data["nonce"], resumed=data["resumed"],
        scripted=data["answer"], exit_code=data["exit_code"], ended=ended, finished_at=0.0, seconds=0.0,
        cpu_seconds=0.0, stdout=stdout, stderr=stderr,
        leftovers=tuple(Leftover(0, tuple(argv), survived=False) for argv in data["leftovers"]),
        requests=None if requests is None else tuple(request.exchange(prompt) for request in requests),
        reading=reading, turn_index=data["turn_index"], stdin=data["stdin"], env=tuple(data["env"]),
        signal=data["signal"], exit_seconds=None if stayed is None else float(stayed),
    )  # fmt: skip
