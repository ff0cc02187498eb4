"""Orchestrators from their released packages, each with a driver, and what is known of them."""

import shutil
import sys
from pathlib import Path

from msgspec import Struct

from tests.acceptance.clients import install
from turngate import load_contract
from turngate_probes.conform.catalogue import MOST_TURNS, scenarios
from turngate_probes.conform.conform_report import ConformReport, expected_breaches
from turngate_probes.conform.session import ConformSession
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.report.baseline import ExpectedBreach

FOLDER = Path(__file__).parent


class Orchestrator(Struct, frozen=True):
    """An orchestrator: its driver with arguments, its package (empty: this project), and the engine's release.

    others: Packages that the driver needs, too. turns, autonomous, git: As the options of `turngate conform`.
    by_chance: Some of its expected breaches don't occur each time.
    """

    driver: str
    title: str
    package: str
    engine: str
    release: str
    arguments: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    turns: int = MOST_TURNS
    autonomous: bool = False
    git: bool = False
    by_chance: bool = False

    @property
    def name(self) -> str:
        """The name of the driver without its suffix, which its baseline has, too."""
        return Path(self.driver).stem

    def expected(self) -> tuple[ExpectedBreach, ...]:
        """Return its expected breaches."""
        file = FOLDER / "baselines" / f"{self.name}.yaml"
        return expected_breaches(file) if file.exists() else ()

    def command(self, folder: Path) -> tuple[str, ...]:
        """Install the package, put the driver into a folder, and return the command that runs it."""
        driver = Path(shutil.copy(FOLDER / "drivers" / self.driver, folder))
        if driver.suffix == ".mjs":
            (folder / "node_modules").symlink_to(install.from_npm(self.package, *self.others))
            return ("node", str(driver), *self.arguments)
        if self.package:
            packages = install.from_pypi(self.package)
            return ("env", f"PYTHONPATH={packages}", sys.executable, str(driver))
        bins = f"PATH={Path(sys.executable).parent}"
        run = {".py": sys.executable, ".sh": "sh"}[driver.suffix]
        return ("sh", "-c", f'{bins}:$PATH exec "$@"', "sh", run, str(driver))

    def conform(self, folder: Path, names: tuple[str, ...], jobs: int) -> ConformReport:
        """Run scenarios in a folder, with the baseline."""
        folder.mkdir(parents=True, exist_ok=True)
        chosen = tuple(scenarios()[name] for name in names)
        contract = load_contract(self.engine, self.release)
        session = ConformSession(
            self.command(folder),
            (contract,),
            chosen,
            folder / "runs",
            jobs,
            self.expected(),
            turns=self.turns,
            autonomous=self.autonomous,
            git=self.git,
        )
        return session.run(Interrupt(), lambda _: None)


ORCHESTRATORS = (
    Orchestrator("start_resume.sh", "`turngate start` and `resume`, under `timeout`", "", "codex", "0.169.0"),
    Orchestrator("server.py", "`turngate serve`", "", "codex", "0.169.0"),
    Orchestrator("codex_sdk.mjs", "`@openai/codex-sdk` (npm)", "@openai/codex-sdk@0.163.0", "codex", "0.169.0"),
    Orchestrator(
        "ai_sdk_codex.mjs",
        "`ai-sdk-provider-codex-cli` (npm), `createCodexExec`",
        "ai-sdk-provider-codex-cli@1.4.1",
        "codex",
        "0.169.0",
        others=("ai@6",),
    ),
    Orchestrator("codex_mcp.mjs", "`codex-mcp-server` (npm)", "codex-mcp-server@1.4.10", "codex", "0.169.0"),
    Orchestrator(
        "local_codex.py",
        "`codex-local-sdk-python` (PyPI)",
        "codex-local-sdk-python==0.1.4",
        "codex",
        "0.169.0",
        git=True,
    ),
    Orchestrator("codex_sdk_python.py", "`codex-sdk-python` (PyPI)", "codex-sdk-python==0.117.0", "codex", "0.169.0"),
    Orchestrator(
        "unified_codex.mjs",
        "`@unified-agent-sdk/provider-codex` (npm)",
        "@unified-agent-sdk/provider-codex@0.6.2",
        "codex",
        "0.169.0",
    ),
    Orchestrator(
        "agent_dispatcher.py", "`agent-dispatcher-mcp` (PyPI)", "agent-dispatcher-mcp==0.2.0", "codex", "0.169.0"
    ),
    Orchestrator("claude_sdk.py", "`claude-agent-sdk` (PyPI)", "claude-agent-sdk==0.2.187", "claude", "2.1.330"),
    Orchestrator(
        "ai_sdk_claude.mjs",
        "`ai-sdk-provider-claude-code` (npm)",
        "ai-sdk-provider-claude-code@3.6.0",
        "claude",
        "2.1.330",
        others=("ai@6",),
    ),
    Orchestrator(
        "claude_code_sdk_ts.mjs",
        "`@instantlyeasy/claude-code-sdk-ts` (npm)",
        "@instantlyeasy/claude-code-sdk-ts@0.3.3",
        "claude",
        "2.1.330",
    ),
    Orchestrator("agent_summons.py", "`agentsummons` (PyPI)", "agentsummons==0.4.0", "claude", "2.1.330"),
    Orchestrator(
        "claude_code_mcp.mjs",
        "`@steipete/claude-code-mcp` (npm)",
        "@steipete/claude-code-mcp@1.10.12",
        "claude",
        "2.1.330",
        turns=1,
        autonomous=True,
    ),
    Orchestrator("ask_gemini_mcp.mjs", "`ask-gemini-mcp` (npm)", "ask-gemini-mcp@1.6.14", "gemini", "0.61.0"),
    Orchestrator(
        "gemini_mcp_tool.mjs", "`gemini-mcp-tool` (npm)", "gemini-mcp-tool@1.1.8", "gemini", "0.61.0", turns=1
    ),
    Orchestrator("qwen_sdk.mjs", "`@qwen-code/sdk` (npm)", "@qwen-code/sdk@0.1.7", "qwen", "0.24.4"),
    Orchestrator(
        "opencode_session.py",
        "`py-opencode-wrapper` (PyPI), `OpenCodeSession`",
        "py-opencode-wrapper==0.3.8",
        "opencode",
        "1.18.33",
        by_chance=True,
    ),
    Orchestrator(
        "acp.mjs",
        "`@agentclientprotocol/sdk` (npm)",
        "@agentclientprotocol/sdk@2.4.0",
        "gemini",
        "0.61.0",
        ("gemini", "--acp"),
    ),
)
