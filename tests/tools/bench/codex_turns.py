"""Two turns of the real codex: its bare CLI, its vendor's SDK, and turngate's commands and server."""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.acceptance.clients import install
from tests.conform.real import ORCHESTRATORS
from tests.probes import engines
from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measure, Measured, Row, Target, measured
from tests.tools.bench.served import CREATE, TURNGATE, reply, serving_release
from tests.tools.bench.sticky_resume_figures import PROMPTS, resumed
from turngate.contract.engine_contract import EngineContract
from turngate_probes.harness.driver import ASK, FINAL
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.stub_model import StubRule

ROUNDS = Tally(full=5, short=1)
BARE, TURNS = "the bare CLI", "Two turns of codex"
SDK = next(one.package for one in ORCHESTRATORS if one.name == "codex_sdk")
ROWS = (
    Row("codex.sdk", f"{TURNS} by its vendor's SDK, `{SDK}`", "ms", BARE),
    Row("codex.server", f"{TURNS} through `turngate serve`", "ms", BARE, Target(1.1, Measure.RATIO)),
    Row("codex.start-resume", f"{TURNS} by `turngate start` and `resume`", "ms", BARE, Target(180, Measure.ADDED)),
)
Way = Callable[[EngineContract, Path, Sandbox], float]


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure all ways in turns, each in a home in which codex and turngate have run before.

    At its first use of a home, codex sets it up; at its first use of a release, turngate reads its version and help.
    """
    contract, executable = engines.pinned_release("codex")
    install.from_npm(SDK)
    ways: dict[str, Way] = {"bare": _bare, "codex.sdk": _sdk, "codex.server": _server, "codex.start-resume": _commands}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    with (
        tempfile.TemporaryDirectory() as folder,
        sandbox(contract.hermetic, Path(folder), "two-turns", keep=False) as box,
    ):
        for _ in range(1 + ROUNDS.of(short=short)):
            for name, way in ways.items():
                taken[name].append(way(contract, executable, box) * 1000)
    for row in ROWS:
        yield measured(row.name, taken[row.name][1:], taken["bare"][1:])


def _bare(contract: EngineContract, executable: Path, box: Sandbox) -> float:
    return resumed(contract, executable, box).both


def _sdk(contract: EngineContract, executable: Path, box: Sandbox) -> float:
    script = str(shutil.copy(Path(__file__).with_name("two_turns.mjs"), box.root))
    if not (packages := box.root / "node_modules").exists():
        packages.symlink_to(install.from_npm(SDK))
    box.backend.script(StubRule(FINAL))
    start = time.perf_counter()
    done = _run(contract, box, "node", script, str(executable), contract.hermetic.model, str(box.work), *PROMPTS)
    seconds = time.perf_counter() - start
    _check(done)
    return seconds


def _server(contract: EngineContract, executable: Path, box: Sandbox) -> float:
    with serving_release(contract, executable, box) as served:
        for _ in range(2):  # the first run of a server reads the contract
            start = time.perf_counter()
            box.backend.script(StubRule(ASK))
            _, run = served.ask("POST", "/v1/runs", CREATE | {"model": contract.hermetic.model})
            served.until(run["run_id"], "waiting_user")
            box.backend.script(StubRule(FINAL))
            reply(served, run["run_id"])
            served.until(run["run_id"], "succeeded")
        return time.perf_counter() - start


def _commands(contract: EngineContract, executable: Path, box: Sandbox) -> float:
    path = box.env(contract.hermetic, box.work)["PATH"]
    env = {"PATH": f"{executable.parent}:{path}"}
    model = ("--model", contract.hermetic.model)
    box.backend.script(StubRule(ASK))
    start = time.perf_counter()
    begun = _run(contract, box, TURNGATE, "start", "codex", "--json", *model, PROMPTS[0], env=env)
    box.backend.script(StubRule(FINAL))
    done = _run(contract, box, TURNGATE, "resume", json.loads(begun)["handle"], PROMPTS[1], env=env)
    seconds = time.perf_counter() - start
    _check(done)
    return seconds


def _run(contract: EngineContract, box: Sandbox, *argv: str, env: Mapping[str, str] | None = None) -> str:
    variables = {**box.env(contract.hermetic, box.work), "TURNGATE_DATA_DIR": str(box.root / "data"), **(env or {})}
    done = subprocess.run(argv, env=variables, cwd=box.work, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{argv[:2]} exited with {done.returncode}: {done.stderr}")
    return done.stdout


def _check(printed: str) -> None:
    if "blue" not in printed:  # the final answer of the stub model
        raise RuntimeError(f"the second turn answered {printed!r}")
