"""The steps of docs/writing-a-contract.md, from a new engine to its contract, probe and recordings."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.command import HURRIED
from turngate.contract import lint, load
from turngate.contract.load import Contract

PAGE = (Path(__file__).parents[2] / "docs/writing-a-contract.md").read_text("utf-8")
CONTRACT, CHANGE, CANARIES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
(ENGINE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


def test_the_contract_resolves() -> None:
    """The page's contract covers the version that the engine prints."""
    contract = Contract(load.parse(CONTRACT, "acme.yaml")).at("1.0.0")
    assert contract.launch.auto == ("--yes",)
    assert set(re.findall(r'"(--[a-z]+)"', ENGINE)) >= set(contract.help.pages[0].names)


def test_the_example_of_a_change_is_valid() -> None:
    """The example of a change is valid in place of its section."""
    document = load.parse(re.sub(r"^end: .*\n", CHANGE, CONTRACT, flags=re.MULTILINE), "acme.yaml")
    assert list(lint.problems(document)) == []
    ends = [Contract(document).at(version).end.match for version in ("1.3.2", "1.4.0")]
    assert ends == [{"type": "done"}, {"type": "turn.done"}]


def test_the_example_of_a_canary_is_valid() -> None:
    """The example of a canary is valid in the page's contract."""
    document = load.parse(CONTRACT + CANARIES, "acme.yaml")
    assert list(lint.problems(document)) == []
    (canary,) = Contract(document).at("1.0.0").canaries
    assert canary.name in canary.files[0].content


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_page_works_from_nothing_to_recordings(tmp_path: Path) -> None:
    """The page's commands give the output that it shows, in order, without the wait for a later minute."""
    program = tmp_path / "bin/turngate"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{HURRIED}\n")
    program.chmod(0o755)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "acme").write_text(ENGINE)
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    printed = {}
    for block in BLOCKS:
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            if command.startswith("turngate stub"):  # it runs until it is stopped
                continue
            ended = subprocess.run(
                ("bash", "-c", command), cwd=folder, env=env, capture_output=True, text=True, check=False
            )
            assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
            assert ended.stdout.startswith(output)
            printed[command] = ended.stdout
            if command.startswith("turngate contracts new"):
                (folder / "my/engines/acme.yaml").write_text(CONTRACT)
    (whole,) = [said for command, said in printed.items() if command.endswith("probe acme=./acme")]
    (broken,) = [said for command, said in printed.items() if "acme-next --clause" in command]
    assert re.search(r"^acme  1.0.0  compatible  .* 0 failed", whole, re.MULTILINE)
    assert "fail handle.present" in broken
    assert (folder / "my/fixtures/acme/1.0.0/main-first").is_dir()
