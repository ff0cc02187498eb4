"""Every command in the documents and in `--help` runs on simulated engines, or has a reason why not.

`turngate` finds each release that an example names in a cache of simulated engines, so nothing is downloaded. The walk
of docs/api.md is run by tests/reference/server/test_web.py, the GitHub workflow of docs/ci.md by test_action.py.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.acceptance.command import HURRIED
from tests.tables import each
from turngate import cli, history
from turngate.contract import load
from turngate_probes.releases.cache import MARKER
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.source import registries
from turngate_probes.simulate.simulated_process import install

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md")))
WHY_NOT = {
    r"pip install": "tests/acceptance/test_readme.py installs turngate from this checkout",
    r"cd turngate/reference/examples/fleet|\./fleet ": "`make fleet` runs the tests of the example",
    r"PATH=\$PWD/bin:\$PATH python turngate/reference/examples/minimal/app\.py": (
        "it runs until it is stopped: tests/examples/test_minimal.py"
    ),
    r"pytest ": "the plugin is tested by tests/probes/pytest_plugin, which runs such commands",
    r"(PATH=\S+ )?turngate serve": "it runs until it is stopped: tests/reference/server/test_cli.py",
    r"turngate probe codex=\./my-codex": "it needs a wrapper: tests/acceptance/test_wrappers.py",
    r"turngate doctor": "what it finds depends on the machine: tests/probes/cli/test_doctor.py",
    r"turngate stub": "it runs until it is stopped: tests/probes/cli/test_stub.py",
    r"turngate (start|resume)": "handles are drawn by chance: tests/reference/conversations/cli/test_handles.py",
    r"turngate probe$": "it probes every engine, which takes minutes: tests/acceptance/test_probe.py",
    r"turngate probe --pinned$": "it probes every pinned engine: `.ci/run` and `make night` do that in parts",
    r"turngate probe --last-failed": "nothing may have failed: tests/probes/cli/test_probe.py",
    r"turngate probe --level live": "it needs an account: tests/probes/cli/test_live.py",
    r"turngate probe --level server": "it takes minutes: `make server` runs it on real engines",
    r"turngate (probe|contracts record) .*(=/path/to/|iflow=|=\./node_modules)": "the path is a placeholder",
    r"turngate bisect": "it asks npm what is published: tests/acceptance/test_shown_outputs.py",
    r"turngate gate": "it tests two real releases: tests/acceptance/test_shown_outputs.py and test_gate.py",
    r"turngate matrix \w+ --versions": "it tests many real releases, for hours: tests/probes/matrix/command",
    r"turngate conform .*-- ": "tests/conform/test_drivers.py runs the drivers, tests/probes/conform the options",
    r"turngate matrix --merge": "it joins what other machines left: tests/probes/matrix/test_results.py",
    r"turngate contracts record": "it records for minutes: tests/acceptance/test_record_command.py",
    r"chmod |sed |\./acme |turngate (--contracts (my|first)|contracts (check|migrate) my|contracts new)": (
        "tests/packaging/test_writing_a_contract.py runs the whole page"
    ),
    r"turngate report (codex|gate)\.json": "tests/probes/cli/test_report.py joins reports, and renders those of a gate",
}
# the tests that run or read blocks of other languages on a page
READ_BY = {
    ("acp-adapters.md", "js"): "tests/acceptance/test_acp_adapters.py",
    ("acp-adapters.md", "sh"): "tests/acceptance/test_acp_adapters.py",
    ("api.md", "sh"): "tests/reference/server/test_web.py",
    ("build-an-orchestrator.md", "python"): "tests/examples/test_minimal.py",
    ("build-an-orchestrator.md", "sql"): "tests/examples/test_minimal.py",
    ("build-an-orchestrator.md", "sh"): "tests/examples/test_minimal.py",
    ("ci.md", "yaml"): "tests/packaging/test_docs.py",
    ("ci.md", "json"): "tests/packaging/test_docs.py",
    ("ci.md", "diff"): "not run: it shows what a pull request changes",
    ("completion.md", "bash"): "tests/probes/cli/shared_options/test_completion.py",
    ("completion.md", "zsh"): "tests/probes/cli/shared_options/test_completion.py",
    ("completion.md", "fish"): "tests/probes/cli/shared_options/test_completion.py",
    ("contract-output.md", "yaml"): "tests/packaging/test_writing_a_contract.py",
    ("contract-probe.md", "yaml"): "tests/packaging/test_writing_a_contract.py",
    ("contract-releases.md", "yaml"): "tests/packaging/test_writing_a_contract.py",
    ("contract-safety.md", "yaml"): "tests/packaging/test_writing_a_contract.py",
    ("gate.md", "toml"): "tests/probes/gate/test_settings.py",
    ("gate.md", "yaml"): "tests/probes/gate/decision/test_command.py",
    ("getting-started.md", "text"): "tests/probes/cli/test_doctor.py",
    ("handles.md", "sh"): "tests/reference/test_server.py",
    ("iflow.md", "js"): "tests/acceptance/test_iflow_wrapper.py",
    ("matrix.md", "sh"): "tests/probes/matrix/command/test_shards_of_systems.py",
    ("matrix.md", "yaml"): "tests/probes/matrix/command/test_shards_of_systems.py",
    ("protocol.md", "json"): "tests/packaging/test_protocol.py",
    ("protocol.md", "text"): "tests/packaging/test_protocol.py",
    ("python-api.md", "python"): "tests/packaging/test_python_api.py",
    ("test-your-orchestrator.md", "js"): "tests/acceptance/test_sdk_driver.py",
    ("test-your-orchestrator.md", "python"): "tests/conform/test_drivers.py",
    ("test-your-orchestrator.md", "yaml"): "tests/conform/test_drivers.py",
    ("wrappers.md", "sh"): "tests/acceptance/test_wrappers.py",
    ("writing-a-contract.md", "python"): "tests/packaging/test_writing_a_contract.py",
    ("writing-a-contract.md", "yaml"): "tests/packaging/test_writing_a_contract.py",
}


def shown() -> Iterator[str]:
    """Return each command after a prompt in the documents, without its comment."""
    for page in PAGES:
        for block in re.findall(r"^```console\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            for command in re.findall(r"^\$ ((?:.*\\\n)*.*)", block, re.MULTILINE):
                yield re.sub(r"\s{2,}# .*", "", command).strip()


def helped() -> Iterator[str]:
    """Return each example of a help page, subcommands included."""
    context = click.Context(cli.turngate)
    commands = [cli.turngate.get_command(context, name) for name in cli.turngate.list_commands(context)]
    for command in commands:
        commands += command.commands.values() if isinstance(command, click.Group) else ()
        yield from re.findall(r"^\s*(turngate [a-z]+(?: .*)?)$", (command.help or "").partition("\b")[2], re.MULTILINE)


EXAMPLES = sorted({*shown(), *helped()})
# without a terminal it shows what it would write
EXIT_CODES = {"turngate init": 1}
RUN = [command for command in EXAMPLES if not any(re.match(pattern, command) for pattern in WHY_NOT)]


def spans() -> Iterator[str]:
    """Return each command of turngate in the running text of a document."""
    for page in PAGES:
        yield from re.findall(r"`(turngate [a-z][^`]*)`", page.read_text("utf-8"))


def test_every_code_block_is_run_or_read_by_a_test_or_says_why_not() -> None:
    """Every code block has a test that names its page, or a reason why not."""
    blocks = {
        (page.name, language)
        for page in PAGES
        for _, language in re.findall(r"^(`{3,})(\w*)(?: .*)?\n(?:.*\n)*?\1$", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {block for block in blocks if block[1] != "console"} == set(READ_BY)
    for (page, _), place in READ_BY.items():
        assert place.startswith("not run: ") or page in (ROOT / place).read_text("utf-8")


def test_every_reason_not_to_run_an_example_concerns_one() -> None:
    """Every reason belongs to an existing example, and some examples are run."""
    for pattern in WHY_NOT:
        assert any(re.match(pattern, command) for command in EXAMPLES), pattern
    assert len(RUN) >= 5


@each("command", sorted({*EXAMPLES, *spans()}))
def test_every_option_that_is_shown_exists(command: str) -> None:
    """Every option in an example exists in its subcommand."""
    for part in re.findall(r"(?<!-)\bturngate (?:--contracts \S+ )?(?!--)([^|&\\]*)", command):
        words = shlex.split(part.replace("…", ""))
        context = click.Context(cli.turngate)
        named = cli.turngate.get_command(context, words[0])
        if isinstance(named, click.Group) and len(words) > 1:
            named = named.get_command(context, words[1]) or named
        assert named is not None, command
        known = {flag for option in named.params for flag in (*option.opts, *option.secondary_opts)}
        own = words[: words.index("--")] if "--" in words else words
        asked = {word.partition("=")[0] for word in own if re.match(r"--\w", word)}
        if words[0] != "simulate" or "--install" in words:  # the other options are for the engine
            assert asked <= known, command


@each("command", EXAMPLES)
def test_every_release_that_is_shown_is_known(command: str) -> None:
    """Every release in an example is pinned, or in its engine's history."""
    for engine, version in re.findall(r"\b([a-z]+)@(\d[\d.]*\d)", command):
        assert version == pinned_version(engine) or history.load(engine).find(version)


@pytest.fixture(name="bin_folder", scope="module")
def _bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulate each release in the examples, as if npm had installed it, with turngate on PATH."""
    folder = tmp_path_factory.mktemp("examples")
    for engine, version in {*re.findall(r"\b([a-z]+)@(\d[\d.]*\d)", " ".join(RUN))}:
        registry, contract = registries(engine)["npm"], load.contract(engine).at(version)
        root = folder / "cache/engines" / engine / version
        executable = root / registry.executables[0]
        install(contract, executable.parent)
        integrity = registry.promised(version) or "sha512-simulated"
        (root / MARKER).write_text(f"{registry.package} {version} {integrity}\n")
    for engine in ("codex", "claude", "gemini"):
        install(load.contract(engine).at(pinned_version(engine)), folder / "path")
    program = folder / "path/turngate"
    program.write_text(f"#!{sys.executable}\n{HURRIED}\n")
    program.chmod(0o755)
    return folder


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("command", RUN)
def test_the_example_works(command: str, bin_folder: Path, tmp_path: Path) -> None:
    """Each example works in a folder that is empty except for the files of the example before it."""
    env = {
        "PATH": f"{bin_folder / 'path'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TURNGATE_CACHE_DIR": str(bin_folder / "cache"),
    }
    before = ["turngate simulate codex@0.169.0 --install bin"] if "codex=bin/codex" in command else []
    before += ["turngate probe codex@0.169.0 --level static --report report.json"] if "report report" in command else []
    for line in (*before, command):
        ended = subprocess.run(
            ("bash", "-c", line), cwd=tmp_path, env=env, capture_output=True, text=True, timeout=1000, check=False
        )
        assert ended.returncode == EXIT_CODES.get(line, 0), ended.stderr or ended.stdout
    for name in re.findall(r"--(?:report|install) (\S+)", command):
        assert (tmp_path / name).exists()
