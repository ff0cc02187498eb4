"""Runs COMMAND once for each conversation of a scenario: here, with a fresh HOME, and the engine's stand-in on PATH."""

import os
import re
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from turngate import EngineContract, ProcessRequest, Stop
from turngate.process import run as run_process
from turngate_probes.conform import executable
from turngate_probes.conform.calls import calls
from turngate_probes.conform.judge import Evidence, Ran
from turngate_probes.conform.plan import Conversation, Plan
from turngate_probes.conform.real import staged
from turngate_probes.conform.structs import Scenario

GRACE = 15.0  # seconds that COMMAND gets in addition to the deadlines of its turns
LONG_PROMPT = 200_000
MAX_VARIABLE = 100_000  # Linux accepts 128 KB
MAX_OUTPUT = 16 * 2**20
# variables that hold a secret, or that lead to the user's own settings and sessions
_WITHHELD = re.compile(r"(?i)(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH)|^(XDG_.*|TURNGATE_.*|.*_HOME|.*_CONFIG_DIR)$")


def play(
    scenario: Scenario, contract: EngineContract, command: tuple[str, ...], folder: Path, stop: Stop,
    environ: Mapping[str, str] = os.environ, real: Path | None = None,
) -> Evidence:  # fmt: skip
    """Run a scenario in an empty folder, and return what happened; EnvironmentFailed if COMMAND can't be started.

    `real` is the CLI to run instead of the simulated engine.
    """
    folder, workspace, home = folder.resolve(), folder / scenario.workspace, folder / "home"
    workspace.mkdir(parents=True)
    home.mkdir()
    talks = tuple(_conversation(scenario) for _ in range(scenario.conversations))
    plan = Plan(str(folder), contract.engine, contract.version or "", talks, scenario.plays, scenario.turns)
    with staged(plan, contract, real) if real else nullcontext(plan) as complete:
        return _played(scenario, complete, command, workspace, stop, environ)


def _played(
    scenario: Scenario, plan: Plan, command: tuple[str, ...], workspace: Path, stop: Stop, environ: Mapping[str, str]
) -> Evidence:
    """Run COMMAND for each conversation of a plan."""
    folder, path, talks = Path(plan.folder), executable.install(plan), plan.conversations
    env = {name: value for name, value in environ.items() if not _WITHHELD.search(name)} | {
        "HOME": str(folder / "home"), "PATH": f"{path.parent}{os.pathsep}{environ.get('PATH', os.defpath)}",
        "TURNGATE_ENGINE": plan.engine, variable_of(plan.engine): str(path),
        "TURNGATE_WORKSPACE": str(workspace), "TURNGATE_DEADLINE_SEC": f"{scenario.deadline:g}",
    }  # fmt: skip

    def converse(talk: Conversation) -> Ran:
        said = _variables(talk, folder)
        limit = scenario.deadline * scenario.turns + GRACE
        request = ProcessRequest(command, Path.cwd(), env | said, timeout=limit, max_output=MAX_OUTPUT)
        outcome = run_process(request, stop=stop)
        return Ran(
            talk, None if outcome.ended != "exit" else outcome.exit_code, outcome.stdout.decode("utf-8", "replace"),
            outcome.stderr.decode("utf-8", "replace"), outcome.seconds,
            tuple(" ".join(left.argv) or str(left.pid) for left in outcome.leftovers),
        )  # fmt: skip

    with ThreadPoolExecutor(len(talks)) as pool:
        ran = tuple(pool.map(converse, talks))
    return Evidence(scenario, str(workspace), ran, calls(folder))


def variable_of(engine: str) -> str:
    """Return the name of the variable with the path of an engine's executable."""
    return f"TURNGATE_ENGINE_{engine.upper()}"


def _conversation(scenario: Scenario) -> Conversation:
    name = secrets.token_hex(4)
    slots = {"name": name, "padding": "x" * LONG_PROMPT}
    replies = (scenario.reply, f"{scenario.reply} Really.")[: scenario.turns - 1]
    said = [_filled(text, slots) for text in (scenario.prompt, *replies)]
    return Conversation(name, tuple(said), f"amber ä 漢 🎨 {secrets.token_hex(4)}")


def _filled(text: str, slots: Mapping[str, str]) -> str:
    return re.sub(r"\{(name|padding)\}", lambda match: slots[match[1]], text)


def _variables(talk: Conversation, folder: Path) -> dict[str, str]:
    """Return what the user says, as variables and as files, which also hold what is too long for a variable."""
    variables = {}
    for name, text in zip(("TURNGATE_PROMPT", "TURNGATE_REPLY", "TURNGATE_REPLY_2"), talk.prompts, strict=False):
        file = folder / f"{talk.name}-{name.lower()}.txt"
        file.write_text(text, "utf-8")
        variables[f"{name}_FILE"] = str(file)
        if len(text.encode()) < MAX_VARIABLE:
            variables[name] = text
    return variables
