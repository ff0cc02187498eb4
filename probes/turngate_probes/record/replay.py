"""Reads recordings, and replays them as the observations of a probe.

A recording is one turn, or one page such as a help text: a folder `<engine>/<version>/<case>-<step>/` with
`recording.yaml`, `provenance.yaml`, `stdout`, `stderr` and, if requests were observed, `requests.ndjson`. Recordings of
an output mode other than the default one are in `<engine>/<version>/<output>/`.
"""

from pathlib import Path

from turngate import EngineContract, read_turn
from turngate.contract import load
from turngate.contract.clauses import Reason
from turngate.contract.load import Document
from turngate.decoding import convert
from turngate.process.sessions import Leftover
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import CommandOutput, Observations, Turn
from turngate_probes.record.recording import RecordedPage, Recording
from turngate_probes.record.requests import lengthened, read_requests
from turngate_probes.releases import recorded_releases

_PAGE_SCHEMA = "turngate.recorded-page/1"


def replay(contract: EngineContract, root: Path | None = None) -> Observations:
    """Read every recording of the contract's release and output mode (in `root`, else in the default folders)."""
    observed = Observations(contract, absent=Obstacle("there is no recording of it", Reason.NO_RECORDING))
    version = str(contract.version)
    root = root or recorded_releases.releases(contract.engine).get(version)
    for case in sorted(folder_of(contract, root).glob("*/recording.yaml")) if root else ():
        observed.saw(_read(contract, case.parent))
    return observed


def folder_of(contract: EngineContract, root: Path) -> Path:
    """Return the folder in `root` with the recordings of the contract's release and output mode."""
    folder = root / contract.engine / str(contract.version)
    is_other = any(mode.name == contract.launch.output for mode in contract.outputs)
    return folder / contract.launch.output if is_other else folder


def _read(contract: EngineContract, case: Path) -> Turn | CommandOutput:
    """Read a recording of either kind; ContractError if it is invalid."""
    file = case / "recording.yaml"
    document = load.read(file, ours=True)
    is_page = isinstance(document.data, dict) and document.data.get("schema") == _PAGE_SCHEMA
    key, schema = ("page", "recorded-page") if is_page else ("turn", "recording")
    for error in load.schema_errors(document, schema):
        raise error
    if case.name != document.data[key].replace("/", "-"):
        raise document.error((key,), f"is in the folder {case.name}", f"name the folder after its {key}")
    stdout, stderr = (case / "stdout").read_bytes(), (case / "stderr").read_bytes()
    if not is_page:
        return _turn(contract, document, case, stdout, stderr)
    page = convert(document.data, RecordedPage)
    return CommandOutput(page.page, page.argv, page.exit_code, page.ended, stdout, stderr)


def _turn(contract: EngineContract, document: Document, case: Path, stdout: bytes, stderr: bytes) -> Turn:
    turn = convert(document.data, Recording)
    arguments = turn.argv[1:]
    if any(i >= len(arguments) for i in turn.prompt_at):
        raise document.error(("prompt_at",), "points beyond argv")
    prompt, requests, file = lengthened(turn.prompt), read_requests(case), case / "provenance.yaml"
    # None: recorded before it was measured
    stayed = load.read(file, ours=True).data.get("exit_seconds")
    reading = read_turn(
        contract,
        turn.mode,
        stdout,
        stderr,
        turn.exit_code,
        turn_index=turn.turn_index,
        resumed=turn.resumed,
        ended=turn.ended,
    )
    return Turn(
        name=turn.turn,
        argv=turn.argv,
        own_arguments=tuple(token for i, token in enumerate(arguments) if i not in turn.prompt_at),
        cwd=turn.cwd,
        mode=turn.mode,
        prompt=prompt,
        nonce=turn.nonce,
        resumed=turn.resumed,
        scripted=turn.answer,
        exit_code=turn.exit_code,
        ended=turn.ended,
        finished_at=0.0,
        seconds=0.0,
        cpu_seconds=0.0,
        stdout=stdout,
        stderr=stderr,
        leftovers=tuple(Leftover(0, argv, survived=False) for argv in turn.leftovers),
        requests=None if requests is None else tuple(request.exchange(prompt) for request in requests),
        reading=reading,
        turn_index=turn.turn_index,
        stdin=turn.stdin,
        env=turn.env,
        signal=turn.signal,
        exit_seconds=None if stayed is None else float(stayed),
    )
