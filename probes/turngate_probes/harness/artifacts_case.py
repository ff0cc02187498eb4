"""The case in which the model writes artifacts: below their directory, beside it, through `..` and through links.

It is played with each of the user's settings that would let the engine write anywhere, on a first turn and a resume.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from turngate import EngineContract
from turngate.contract.clauses import Reason
from turngate.contract.home_and_workspace import ApprovalSetting, ToolUse
from turngate_probes.harness.driver import FINAL, TOOL_PATIENCE, Ask, EngineDriver, Write, ask
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.harness.settings_cases import groups, with_settings

INSIDE = "inside"
# where the model writes, if {artifacts}/link leads to {other}, and {artifacts}/file to a file of {work}
PLACES = {
    INSIDE: ("{artifacts}/inside.txt", "{artifacts}/inside.txt"),
    "beside": ("{work}/beside.txt", "{work}/beside.txt"),
    "through ..": ("{artifacts}/../dots.txt", "{work}/artifacts/dots.txt"),
    "through a link": ("{artifacts}/link/linked.txt", "{other}/linked.txt"),
    "through a link to a file": ("{artifacts}/file", "{work}/linked.txt"),
}


def artifacts(driver: EngineDriver) -> None:
    """Let the model write into every place, with each group of the user's settings."""
    contract = driver.contract
    if contract.artifacts is None:
        return
    if (tool := contract.hermetic.tool_call) is None:
        raise CaseStoppedError("the contract names no tool for the model to call", Reason.CONTRACT)
    for name, settings in played(contract).items():
        inside = with_settings(driver, name, settings)
        directory = _furnished(inside.sandbox)
        first = inside.start(name, _writing_into(directory, inside, tool, ask(FINAL)))
        if first.session is not None:
            again = _writing_into(directory, inside, tool, ask(FINAL, turn_index=2))
            inside.resume(f"{name}-again", first.session, again)


def with_writes(driver: EngineDriver, tool: ToolUse, asked: Ask) -> Ask:
    """Return a turn that may write artifacts, in which the model writes into every place."""
    return _writing_into(_furnished(driver.sandbox), driver, tool, asked)


def played(contract: EngineContract) -> Mapping[str, tuple[ApprovalSetting, ...]]:
    """Return the settings with which the case is played, by the name of a first turn."""
    return groups(contract.approval_settings) or {"plain": ()}


def turns(contract: EngineContract) -> int:
    """Return how many turns the case plans."""
    return 2 * len(played(contract)) if contract.artifacts and contract.hermetic.tool_call else 0


def writing(tool: ToolUse, path: str) -> ToolUse:
    """Return the use of a tool that writes another file than the contract's, by its path."""
    spellings = (f"{{work}}/{tool.creates_file}", tool.creates_file)

    def moved(text: str) -> str:
        spelled = next((spelling for spelling in spellings if spelling in text), "")
        return text.replace(spelled, path) if spelled else text

    arguments = {key: moved(value) if isinstance(value, str) else value for key, value in tool.arguments.items()}
    return ToolUse(tool.name, arguments)


def _furnished(box: Sandbox) -> Path:
    """Make the directory for artifacts of a sandbox, with links that lead out of it, and return its path."""
    directory = box.work.resolve() / "artifacts" / "t3st4rt5"
    directory.mkdir(parents=True)
    (directory / "link").symlink_to(box.other)
    (directory / "file").symlink_to(box.work / "linked.txt")
    return directory


def _writing_into(directory: Path, driver: EngineDriver, tool: ToolUse, asked: Ask) -> Ask:
    writes = tuple(_write(driver, tool, place, directory, direct=asked.model is not None) for place in PLACES)
    return replace(asked, artifacts=directory, writes=writes, patience=TOOL_PATIENCE)


def _write(driver: EngineDriver, tool: ToolUse, place: str, directory: Path, *, direct: bool) -> Write:
    """Return the call of the contract's tool that writes into a place."""
    path, file = (driver.sandbox.fill(text, artifacts=str(directory)) for text in PLACES[place])
    return Write(place, driver.call_of(writing(tool, path), direct=direct), Path(file))
