"""The page docs/test-your-orchestrator.md: its drivers and its baseline work."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conform.orchestrators.catalogue import CORRECT
from tests.conform.real import ORCHESTRATORS
from turngate import load_contract
from turngate_probes.conform.catalogue import scenarios
from turngate_probes.conform.conform_report import Conformance, ScenarioResult, expected_breaches
from turngate_probes.conform.session import ConformSession
from turngate_probes.harness.interrupt import Interrupt

PAGE = Path(__file__).parents[2] / "docs/test-your-orchestrator.md"
DRIVERS = ("A command", "An HTTP server", "A queue worker")
LONGEST = 25
# a line of code that is neither an import nor a comment nor a closing bracket
_CODE = re.compile(r"^(?! *(?:import|from)\b| *(?://|#|\"\"\")).*\w", re.MULTILINE)
# the worker of the queue: the correct orchestrator, which takes the text of each turn from a job
WORKER = '''def main() -> None:
    """Work until this process is ended."""
    queue = Path(sys.argv[1])
    while True:
        if (queue / "job").exists():
            job = json.loads((queue / "job").read_text("utf-8"))
            (queue / "job").unlink()
            (queue / "part").write_text(json.dumps(turn(job["text"], job["session"])), "utf-8")
            (queue / "part").rename(queue / "result")
        time.sleep(0.02)


main()
'''


def block(title: str, language: str = "python") -> str:
    """Return the code block below a heading of the page."""
    text = PAGE.read_text("utf-8").partition(f"\n### {title}\n")[2]
    code = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert code
    return code[1]


@pytest.fixture(name="orchestrator")
def _orchestrator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which the drivers can run: with turngate on PATH, and a worker."""
    source = CORRECT["python"].read_text("utf-8").replace("import sys\n", "import sys\nimport time\n", 1)
    (tmp_path / "worker.py").write_text(source[: source.index("def main()")] + WORKER, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("title", DRIVERS)
def test_a_driver_works(title: str, orchestrator: Path) -> None:
    """Its orchestrator conforms, also in two conversations at once, and notices when the engine loses the session."""
    code = block(title)
    (orchestrator / "driver.py").write_text(code, "utf-8")
    chosen = tuple(scenarios()[name] for name in ("two-turns", "two-conversations", "lost-session", "fresh-session"))
    command = (sys.executable, "driver.py")
    session = ConformSession(command, (load_contract("codex", "0.169.0"),), chosen, orchestrator / "runs", 2)
    report = session.run(Interrupt(), lambda _: None)
    assert [(row.breaches, row.detail) for row in report.results if row.result is not ScenarioResult.PASS] == []
    assert (report.verdict, len(report.results)) == (Conformance.CONFORMS, len(chosen))


@pytest.mark.long
@pytest.mark.nightly
def test_the_page_shows_a_test_for_each_scenario(orchestrator: Path) -> None:
    """Each is a test of pytest, which passes for a correct orchestrator."""
    code = block("One test per scenario").replace('"--jobs", "4"', '"--jobs", "4", "--scenario", "two-turns"')
    (orchestrator / "test_conform.py").write_text(code, "utf-8")
    shutil.copy(CORRECT["python"], orchestrator / "driver.py")
    options = ["-q", "-p", "no:cacheprovider", "-k", "two-turns or crash"]
    ran = subprocess.run([sys.executable, "-m", "pytest", *options], capture_output=True, text=True, check=False)
    assert "1 passed" in ran.stdout, ran.stdout
    assert "KeyError: 'crash'" in ran.stdout, "a scenario that was not played is no success"


def test_a_driver_is_short() -> None:
    """Those of the page and those of released orchestrators, apart from imports."""
    files = [file for file in (PAGE.parents[1] / "tests/conform/drivers").iterdir() if file.is_file()]
    codes = {file.name: file.read_text("utf-8") for file in files} | {title: block(title) for title in DRIVERS}
    codes["An SDK"] = block("An SDK", "js")
    lengths = {name: len(_CODE.findall(code)) for name, code in codes.items()}
    assert len(files) == len(ORCHESTRATORS)
    assert {name: length for name, length in lengths.items() if not 3 <= length <= LONGEST} == {}


def test_the_baseline_of_the_page_is_one(tmp_path: Path) -> None:
    """It names a rule and a scenario."""
    file = tmp_path / "expected.yaml"
    file.write_text(block("In CI", "yaml"), "utf-8")
    assert [entry.scenario for entry in expected_breaches(file)] == ["fresh-session"]
