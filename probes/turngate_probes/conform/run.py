"""Runs COMMAND for a scenario: once for each conversation, with a fresh HOME, and the engine's stand-in on PATH."""

import os
import re
import secrets
import shlex
import stat
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from itertools import islice
from pathlib import Path

from turngate import EngineContract, ProcessRequest, Stop
from turngate.process.execution import Stdin
from turngate.process.execution import run as run_process
from turngate.process.sessions import Leftover
from turngate.sanitize import bounded
from turngate_probes.conform import executable
from turngate_probes.conform.calls import EngineCall, calls
from turngate_probes.conform.catalogue import Scenario, needs_own_directories
from turngate_probes.conform.judge import Evidence, Ran
from turngate_probes.conform.plan import HOME, ConformPlan, Conversation
from turngate_probes.conform.real import staged

LONG_PROMPT = 200_000
MAX_VARIABLE = 100_000  # Linux accepts 128 KB
MAX_OUTPUT = 16 * 2**20
MAX_FILES, MAX_FILE = 5000, 2**20
LONGEST = 200
_API_KEY = "_API_KEY"
# variables that hold a secret, or that lead to the user's own settings and sessions
_WITHHELD = re.compile(r"(?i)(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH)|^(XDG_.*|TURNGATE_.*|.*_HOME|.*_CONFIG_DIR)$")


def play(
    scenario: Scenario,
    contract: EngineContract,
    command: tuple[str, ...],
    folder: Path,
    stop: Stop,
    environ: Mapping[str, str] = os.environ,
    real: Path | None = None,
    *,
    git: bool = False,
) -> Evidence:
    """Run a scenario in an empty folder, and return what happened; TurngateError if COMMAND can't be started.

    `real` is the CLI to run instead of the simulated engine; `git`: the workspace is an empty repository.
    """
    folder = folder.resolve()
    (folder / HOME).mkdir(parents=True)
    workspaces = _workspaces(scenario, contract, folder)
    for workspace in set(workspaces):
        workspace.mkdir()
        if git:
            _make_repository(workspace / ".git")
    talks = tuple(_conversation(scenario, workspace) for workspace in workspaces)
    plan = ConformPlan(str(folder), contract.engine, contract.version or "", talks, scenario.plays, scenario.turns)
    variables = [name for name in contract.environment.passed if name.endswith(_API_KEY)]
    key = dict.fromkeys(variables[:1], f"sk-turngate-{secrets.token_hex(16)}")
    with staged(plan, contract, real) if real else nullcontext(plan) as complete:
        return _played(scenario, complete, command, stop, environ, key)


def variable_of(engine: str) -> str:
    """Return the name of the variable with the path of an engine's executable."""
    return f"TURNGATE_ENGINE_{engine.upper()}"


def _played(
    scenario: Scenario,
    plan: ConformPlan,
    command: tuple[str, ...],
    stop: Stop,
    environ: Mapping[str, str],
    key: Mapping[str, str],
) -> Evidence:
    """Run COMMAND for each conversation of a plan; `key` is the variable with the user's key."""
    folder, path, talks = Path(plan.folder), executable.install(plan), plan.conversations
    began = time.time()
    env = {name: value for name, value in environ.items() if not _WITHHELD.search(name)} | {
        **key,
        "HOME": str(folder / HOME),
        "PATH": f"{path.parent}{os.pathsep}{environ.get('PATH', os.defpath)}",
        "TURNGATE_ENGINE": plan.engine,
        variable_of(plan.engine): str(path),
        "TURNGATE_DEADLINE_SEC": f"{scenario.deadline:g}",
    }
    if scenario.cancel_after:
        env["TURNGATE_CANCEL_AFTER_SEC"] = f"{scenario.cancel_after:g}"
    if any(play.release == "gone" for play in scenario.plays):
        env["PATH"] = _without(path.name, env["PATH"], folder)

    def converse(talk: Conversation) -> Ran:
        variables = _variables(talk, folder)
        limit = scenario.deadline * scenario.turns + scenario.grace
        # a terminal or a service manager leaves standard input open, and so would an engine that inherits it
        request = ProcessRequest(
            command, Path.cwd(), env | variables, stdin=Stdin.OPEN, timeout=limit, max_output=MAX_OUTPUT
        )
        outcome = run_process(request, stop=stop)
        ended = time.monotonic()
        return Ran(
            talk,
            None if outcome.ended != "exit" else outcome.exit_code,
            outcome.stdout.decode("utf-8", "replace"),
            outcome.stderr.decode("utf-8", "replace"),
            outcome.seconds,
            tuple(_named(left, path, calls(folder)) for left in outcome.leftovers),
            ended,
        )

    with ThreadPoolExecutor(len(talks)) as pool:
        ran = tuple(pool.map(converse, talks))
    texts = [prompt for talk in talks for prompt in talk.prompts]
    workspaces = dict.fromkeys(Path(talk.workspace) for talk in talks)
    return Evidence(
        scenario,
        ran,
        calls(folder),
        keys=tuple(key.values()),
        exposed=(
            *(file for place in (*workspaces, folder / HOME) for file in _files_with(key.values(), place, public=True)),
            *(
                file
                for new in _new_in_temp(began, folder)
                for file in _files_with(key.values(), new, public=True, since=began)
            ),
        ),
        left=tuple(file for each in workspaces for file in _files_with(texts, each)),
    )


def _files_with(texts: Collection[str], folder: Path, *, public: bool = False, since: float = 0.0) -> tuple[str, ...]:
    """Return the files that contain one of these texts; `public`: those that every user can read; `since`: new ones."""
    found = []
    for path in islice(folder.rglob("*") if folder.is_dir() else (folder,), MAX_FILES):
        with suppress(OSError):
            about = path.lstat()
            seen = stat.S_ISREG(about.st_mode) and about.st_size <= MAX_FILE and about.st_mtime >= since
            if seen and (about.st_mode & stat.S_IROTH or not public):
                content = path.read_bytes()
                if any(text.encode() in content for text in texts):
                    found.append(str(path))
    return tuple(found)


def _new_in_temp(began: float, other: Path) -> Iterator[Path]:
    """Yield what is new in the directory for temporary files and every user can enter, but not `other`."""
    for path in Path(tempfile.gettempdir()).resolve().iterdir():
        with suppress(OSError):
            about = path.lstat()
            entered = about.st_mode & (stat.S_IXOTH if stat.S_ISDIR(about.st_mode) else stat.S_IROTH)
            if (
                about.st_uid == os.getuid()
                and about.st_mtime >= began
                and entered
                and path not in (other, *other.parents)
            ):
                yield path


def _without(name: str, path: str, folder: Path) -> str:
    """Return PATH without an executable: links to all others stand for a directory that has it."""
    directories = []
    for number, directory in enumerate(path.split(os.pathsep)):
        directories.append(directory)
        if not (Path(directory) / name).is_file() or Path(directory).parent == folder:
            continue
        directories[-1] = str(folder / "path" / str(number))
        Path(directories[-1]).mkdir(parents=True)
        for other in Path(directory).iterdir():
            if other.name != name:
                Path(directories[-1], other.name).symlink_to(other.absolute())
    return os.pathsep.join(directories)


def _make_repository(folder: Path) -> None:
    """Make an empty repository, as `git init` does, so that git isn't needed."""
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n", "utf-8")


def _named(left: Leftover, path: Path, made: Iterable[EngineCall]) -> str:
    """Name a process that was left running by its call, if it belongs to one, or else by its command line."""
    # the simulated engine runs in an interpreter, whose command line has the plan's folder
    is_engine = str(path.parents[1]) in " ".join(left.argv) or path.name in map(os.path.basename, left.argv[:2])
    for call in reversed(tuple(made)):
        argv = call.started.argv
        if left.pid == call.started.pid or (is_engine and left.argv[-len(argv) or len(left.argv) :] == argv):
            return f"call {call.number} ({bounded(shlex.join((path.name, *argv)), LONGEST)})"
    return bounded(shlex.join(left.argv), LONGEST) or f"process {left.pid}"


def _workspaces(scenario: Scenario, contract: EngineContract, folder: Path) -> list[Path]:
    """Return the directory of each conversation."""
    first = folder / scenario.workspace
    if needs_own_directories(contract):
        return [first, *(folder / f"{scenario.workspace}-{number}" for number in range(2, scenario.conversations + 1))]
    return [first] * scenario.conversations


def _conversation(scenario: Scenario, workspace: Path) -> Conversation:
    name = secrets.token_hex(4)
    slots = {"name": name, "padding": "x" * LONG_PROMPT}
    replies = (scenario.reply, "Yes, I am sure. ({name})")[: scenario.turns - 1]
    slot = re.compile(r"\{(name|padding)\}")
    prompts = [slot.sub(lambda match: slots[match[1]], text) for text in (scenario.prompt, *replies)]
    return Conversation(name, tuple(prompts), f"amber ä 漢 🎨 {secrets.token_hex(4)}", str(workspace))


def _variables(talk: Conversation, folder: Path) -> dict[str, str]:
    """Return variables with the directory and with what the user says, which files hold, too: it may be too long."""
    variables = {"TURNGATE_WORKSPACE": talk.workspace}
    for name, text in zip(("TURNGATE_PROMPT", "TURNGATE_REPLY", "TURNGATE_REPLY_2"), talk.prompts, strict=False):
        file = folder / f"{talk.name}-{name.lower()}.txt"
        file.write_text(text, "utf-8")
        variables[f"{name}_FILE"] = str(file)
        if len(text.encode()) < MAX_VARIABLE:
            variables[name] = text
    return variables
