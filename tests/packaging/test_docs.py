"""Exit codes, commands and files in the documents match the code."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from turngate import cli, history
from turngate.contract import load
from turngate.contract.verdict import FailOn, Verdict, exit_code
from turngate_probes.report import FORMATS, ORCHESTRATOR_FORMATS
from turngate_probes.report.build import INTERRUPTED_CODE
from turngate_reference.conversations.cli.turns import NO_ANSWER, NOT_SAVED, OTHER_SESSION, TIMED_OUT

ROOT = Path(__file__).parents[2]
CODES = (ROOT / "docs/exit-codes.md").read_text()
CI = (ROOT / "docs/ci.md").read_text()
ORCHESTRATOR = (ROOT / "docs/test-your-orchestrator.md").read_text()


def coded(text: str) -> dict[int, str]:
    """Read the table of exit codes of a document."""
    return {int(code): said for code, said in re.findall(r"^\| (\d+) \| (.*?) \|$", text, re.MULTILINE)}


def blocks(kind: str) -> list[str]:
    """Return the fenced examples of a language."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", CI, re.MULTILINE | re.DOTALL)


def test_every_exit_code_is_in_the_table_and_no_other() -> None:
    """The table has every exit code of a verdict, every other one in the code, and no more."""
    verdicts = {exit_code([verdict], fail_on) for verdict in Verdict for fail_on in FailOn} | {exit_code([])}
    others = {
        cli.UNANSWERED,
        cli.CRASHED,
        cli.INTERRUPTED,
        cli.READER_GONE,
        OTHER_SESSION,
        NO_ANSWER,
        NOT_SAVED,
        TIMED_OUT,
    }
    assert set(coded(CODES)) == verdicts | others
    reported = {*load.schema("probe-report")["properties"]["exit_code"]["enum"]}
    assert reported == verdicts | {cli.CRASHED, INTERRUPTED_CODE}
    assert INTERRUPTED_CODE == cli.INTERRUPTED


def test_the_table_says_what_the_code_does() -> None:
    """Each code's row names its case."""
    said = coded(CODES)
    assert "broken" in said[exit_code([Verdict.BROKEN, Verdict.UNANSWERED])]
    assert "--fail-on" in said[exit_code([Verdict.DEGRADED], FailOn.DEGRADED)]
    assert all(f"| `{fail_on}`" in CODES for fail_on in FailOn)
    assert "nothing to probe" in said[exit_code([])]
    assert "nothing fails" in said[exit_code([Verdict.COMPATIBLE, Verdict.DEGRADED])]
    for code, word in (
        (cli.UNANSWERED, "usage"),
        (cli.CRASHED, "crashed"),
        (cli.INTERRUPTED, "interrupted"),
        (cli.READER_GONE, "reader"),
        (OTHER_SESSION, "another session"),
        (NO_ANSWER, "no answer"),
        (NOT_SAVED, "saved"),
    ):
        assert word in said[code]


def test_a_mistake_of_usage_is_never_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """Usage errors of every command exit with 2."""
    context = click.Context(cli.turngate)
    for name in cli.turngate.list_commands(context):
        assert cli.run([name, "--no-such-option"]) == cli.UNANSWERED or name == "simulate"
    capsys.readouterr()


def test_every_command_has_its_row() -> None:
    """The table has a row for every command."""
    rows = "".join(re.findall(r"^\| (`.*?) \|", CODES, re.MULTILINE))
    assert set(cli.turngate.list_commands(click.Context(cli.turngate))) <= set(re.findall(r"`([a-z]+)\b", rows))


def test_the_workflow_compares_with_the_release_of_the_base_branch() -> None:
    """Both versions come from the pin file, the old one on the base branch, and are passed to the gate."""
    (workflow,) = [loaded for text in blocks("yaml") if "jobs" in (loaded := yaml.safe_load(text))]
    checkout, pinned, asked, _ = workflow["jobs"]["may-i-upgrade"]["steps"]
    assert checkout["with"]["fetch-depth"] == 0
    assert fnmatch(pinned["env"]["FILE"], "engines/**/package.json")
    assert 'git show "origin/$GITHUB_BASE_REF:$FILE" | release' in pinned["run"]
    assert asked["with"]["targets"] == "codex@${{ steps.pinned.outputs.new }}"
    assert asked["with"]["options"] == "--from codex@${{ steps.pinned.outputs.old }}"
    assert {"old=$old", "new=$new"} <= set(re.findall(r'"([^"]*)"', pinned["run"]))


def test_releases_that_the_documents_name_exist() -> None:
    """A command or a sentence about a release that nobody published would fail for whoever copies it."""
    known = {engine: history.load(engine).is_release for engine in history.engines()}
    pages = (ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").glob("*.md"))
    named = re.compile(rf"\b({'|'.join(known)})[@ ](\d+\.\d+\.\d+)(?![\w.-]*\d)", re.IGNORECASE)
    found = {(each[1].lower(), each[2]) for page in pages for each in named.finditer(page.read_text("utf-8"))}
    assert {("codex", "0.169.0"), ("claude", "2.1.330")} < found
    assert not {f"{engine} {version}" for engine, version in found if not known[engine](version)}


def test_every_format_of_reports_is_documented() -> None:
    """Every report format is documented with its suffix, also those of an orchestrator's report."""
    for text, formats in ((CI, FORMATS), (ORCHESTRATOR, ORCHESTRATOR_FORMATS)):
        assert set(re.findall(r"^\| `(\.[a-z]+)` \|", text, re.MULTILINE)) == set(formats)


def test_the_examples_can_be_read_and_fit() -> None:
    """Examples in YAML and JSON parse, and match the action's inputs and outputs, the hook and the pin file."""
    workflow, _, hooks = (yaml.safe_load(block) for block in blocks("yaml"))
    action: Any = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = workflow["jobs"]["may-i-upgrade"]["steps"]
    (ours,) = [step for step in steps if step.get("id") == "turngate"]
    assert set(ours["with"]) <= set(action["inputs"])
    used = {name for step in steps for name in re.findall(r"steps\.turngate\.outputs\.([a-z-]+)", json.dumps(step))}
    assert used <= set(action["outputs"])
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hooks["repos"][0]["hooks"][0]["id"] == hook["id"]
    pin, renovate = (json.loads(block) for block in blocks("json"))
    kept = json.loads((ROOT / "probes/turngate_probes/releases/pins/codex/package.json").read_text())
    assert {**pin, "dependencies": [*pin["dependencies"]]} == {**kept, "dependencies": [*kept["dependencies"]]}
    assert renovate["packageRules"][0]["matchManagers"] == ["npm"]


def test_examples_install_turngate_from_a_repository_that_the_reader_sets() -> None:
    """Examples install turngate from a placeholder repository; placeholders are explained before their use."""
    pages = [page.read_text("utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    assert not any(re.search(r"(pip|pipx|uvx?) (install|run) [^\n]*(?<![/\w])turngate\b(?!@)", page) for page in pages)
    intro = CI.partition("\n## ")[0]
    assert all(f"`{name}`" in intro for name in ("GIT_HOST", "OWNER", "COMMIT"))
    workflow, gitlab, hooks = (yaml.safe_load(block) for block in blocks("yaml"))
    used = [step.get("uses", "") for step in workflow["jobs"]["may-i-upgrade"]["steps"]]
    assert "OWNER/turngate@COMMIT" in used
    job = gitlab["upgrade"]
    assert job["variables"]["TURNGATE"] == "git+https://GIT_HOST/OWNER/turngate@COMMIT"
    assert any('pip install "$TURNGATE"' in line for line in job["before_script"])
    assert hooks["repos"][0] | {"hooks": []} == {
        "repo": "https://GIT_HOST/OWNER/turngate",
        "rev": "COMMIT",
        "hooks": [],
    }


def test_the_command_of_the_fleet_is_written_as_it_is_run() -> None:
    """The example isn't on PATH, so its page, its README and its messages write `./fleet`."""
    fleet = ROOT / "reference/examples/fleet"
    texts = [file.read_text("utf-8") for file in (ROOT / "docs/fleet.md", *fleet.glob("*.md"), *fleet.rglob("*.py"))]
    assert any("./fleet up" in text for text in texts)
    assert not any(re.search(r"(?<!\./)\bfleet (up|ask|answer|cancel|list|gone|worker) ", text) for text in texts)
