"""The public API: every name has a working example and a row on the page, and other packages use it."""

import ast
import doctest
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import turngate
from turngate import history
from turngate_probes.simulate.simulated_process import install

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/python-api.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ABOUT_HISTORY = [example for example in EXAMPLES if "import history" in example]
CONVERSATIONS = [example for example in EXAMPLES if example not in ABOUT_HISTORY]
# whose examples run two turns
TURNS = ("converse", "converse_async", "play_turn")
OTHERS = sorted(file for name in ("probes", "reference") for file in (ROOT / name).rglob("*.py"))


@pytest.fixture(name="work")
def _work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with a simulated codex 0.169.0 on PATH."""
    work = tmp_path / "work"
    work.mkdir()
    install(turngate.load_contract("codex", "0.169.0"), tmp_path / "bin")
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return work


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in TURNS else ()) for name in turngate.__all__]
)
def test_the_example_of_a_docstring_works(name: str, work: Path) -> None:
    """The docstring of every public name has a working example, which needs only `import turngate`."""
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    (test,) = finder.find(getattr(turngate, name), name, globs={"turngate": turngate})
    assert test.examples, f"{name} has no example"
    said: list[str] = []
    assert runner.run(test, out=said.append).failed == 0, "".join(said)


def test_the_example_of_the_history_works() -> None:
    """The example of the docstring, and that of the page."""
    assert {*history.__all__} <= {*vars(history)}
    (test,) = doctest.DocTestFinder(recurse=False).find(history.load, "load", globs={})
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
    for example in ABOUT_HISTORY:
        exec(example, {})


def test_each_name_is_listed_once_and_imported_from_where_it_is_defined() -> None:
    """Each name is listed once and imported from its own module: for the type checker, at run time and in `__all__`."""
    tree = ast.parse(Path(turngate.__file__).read_text("utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        (imported.name, node.module)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for imported in node.names
    }
    assert typed == {(name, getattr(turngate, name).__module__) for name in turngate.__all__}
    assert sorted(name for name, _ in typed) == sorted(turngate.__all__) == sorted(dir(turngate))
    with pytest.raises(AttributeError, match="'turngate' has no attribute 'no_such_name'"):
        _ = turngate.no_such_name  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_distribution() -> None:
    """`turngate.__version__` is the version that pip shows."""
    assert turngate.__version__ == version("turngate")


def test_importing_turngate_imports_nothing_else_of_it() -> None:
    """`import turngate` imports no submodules, so that small commands start quickly."""
    code = "import sys, turngate; print([name for name in sys.modules if name.startswith(('turngate', 'msgspec'))])"
    ran = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['turngate']"


def internals(file: Path) -> set[str]:
    """Return the public names that a module takes from a submodule, by import or as an attribute."""
    nodes = [*ast.walk(ast.parse(file.read_text("utf-8")))]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and f"{node.module}".startswith("turngate.")]
    modules = {imported.asname or imported.name for node in imports for imported in node.names}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    used = {imported.name for node in imports for imported in node.names}
    used |= {node.attr for node in attributes if ast.unparse(node.value) in modules}
    return used & {*turngate.__all__}


@pytest.mark.long
def test_other_packages_use_the_public_name_where_there_is_one() -> None:
    """Server and probes use the public name of a function if it has one."""
    assert {str(file.relative_to(ROOT)): names for file in OTHERS if (names := internals(file))} == {}


def test_the_page_lists_every_name_and_no_other() -> None:
    """The page's tables list every name once and no others."""
    rows = re.findall(r"^\| `(?:await )?(\w+)[^`]*` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(turngate.__all__)


def test_what_the_page_says_of_a_prompt_without_the_protocol(work: Path) -> None:
    """A simulated engine asks all the same; plain text, as a real agent answers, is an error."""
    contract = turngate.load_contract("codex", "0.169.0")
    turn = turngate.first_turn(contract, "Paint the door.", "interactive")
    request = turngate.process_request(turn, turngate.find_executable(contract), work)
    asked = turngate.run_turn(request, turngate.TurnReader.for_turn(turn))
    assert asked.reading.result.outcome is turngate.Outcome.ASK_USER
    envelope = json.dumps(asked.reading.final_text).encode()
    assert envelope in asked.process.stdout
    plain = asked.process.stdout.replace(envelope, b'"Which colour?"')
    answered = turngate.read_turn(contract, "interactive", plain, b"", 0)
    assert (answered.result.failure_reason or "").startswith(turngate.Failure.ENVELOPE_INVALID)


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("example", CONVERSATIONS, ids=("synchronous", "asyncio", "queue"))
def test_the_example_of_the_page_works(example: str, work: Path) -> None:
    """The page's example works as a program in an empty folder, with an answer to each question."""
    (work / "example.py").write_text(example)
    ran = subprocess.run(
        (sys.executable, "example.py"), input="red\nred\n", capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    shown = ran.stdout.splitlines()
    asked = shown.count("Which colour?")
    assert asked >= 1
    assert shown.count("{'colour': 'red'}") == asked
