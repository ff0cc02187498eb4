"""The pytest plugin, in a separate pytest process, on the fake engine."""

from pathlib import Path

import pytest

from tests.probes import engines
from turngate.contract import load
from turngate.contract.load import catalogue

pytestmark = pytest.mark.long

pytest_plugins = ["pytester"]

STATIC = tuple(clause.id for clause in catalogue().at_level("static"))


@pytest.fixture(name="alone")
def _alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Create a project with one ordinary test, and use an empty cache."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(pytester.path / "cache"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    pytester.makepyfile(test_own="def test_own(): pass")
    return pytester


def asked(pytester: pytest.Pytester, *args: str | Path) -> pytest.RunResult:
    """Run pytest in a separate process."""
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *args)


def test_it_does_nothing_until_it_is_asked(alone: pytest.Pytester) -> None:
    """Without `--turngate` the plugin adds options and a marker, but no tests and no imports."""
    alone.makeconftest(
        "import sys\n"
        "def pytest_sessionfinish():\n"
        "    ours = {n for n in sys.modules if n.startswith(('turngate', 'rich', 'yaml'))}\n"
        "    print('imported', *sorted(ours))\n"
    )
    result = asked(alone, "-s", "--strict-markers")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*imported turngate_probes turngate_probes.pytest_plugin"])


def test_each_clause_is_a_test_by_its_name(alone: pytest.Pytester) -> None:
    """Each clause of the level becomes a test; `-m` can deselect them, and collecting them runs no engine."""
    named = [f"codex=/nowhere::{clause.id}" for clause in catalogue().at_level("static", "hermetic")]
    listed = asked(alone, "--collect-only", "-q", "--turngate", "codex=/nowhere").outlines
    assert [line for line in listed if "::" in line] == ["test_own.py::test_own", *named]
    listed = asked(
        alone,
        "--collect-only",
        "-q",
        "-m",
        "turngate",
        "--turngate-level",
        "static",
        "--turngate",
        "codex@0.169.0",
        "--turngate",
        "gemini@0.61.0",
    ).outlines
    assert [line for line in listed if "::" in line] == [
        f"{release}::{name}" for release in ("codex@0.169.0", "gemini@0.61.0") for name in STATIC
    ]
    assert not (alone.path / "cache").exists()


def test_pytest_counts_the_tests_of_clauses(alone: pytest.Pytester) -> None:
    """What `-k` selects and deselects adds up to what pytest collected."""
    args = ("--collect-only", "-k", "dead-handle", "--turngate", "codex=/nowhere")
    every = len(catalogue().at_level("static", "hermetic")) + 1
    asked(alone, *args).stdout.fnmatch_lines([f"collected {every} items / {every - 1} deselected / 1 selected"])


def test_a_release_that_keeps_its_promises_passes(alone: pytest.Pytester) -> None:
    """Each given executable is probed as a release. A degraded release warns, and fails under strict."""
    one, two = (engines.install(alone.path / name, *faults) for name, faults in (("one", ()), ("two", ("poor-help",))))
    args = ("--turngate-level", "static", "--turngate", f"codex={one}", "--turngate", f"codex={two}")
    for strictness, ended in (((), "PASSED"), (("--turngate-strict",), "FAILED")):
        result = asked(alone, "-v", "-m", "turngate", *args, *strictness)
        result.stdout.fnmatch_lines(
            [
                f"codex={one}::version.readable PASSED*",
                f"codex={one}::help.surface PASSED*",
                f"codex={two}::version.readable PASSED*",
                f"codex={two}::help.surface {ended}*",
                "*help.surface degraded: missing: --json*" if not strictness else "*FAILED*help.surface*",
            ]
        )


def test_a_failure_shows_the_evidence(alone: pytest.Pytester) -> None:
    """A failure shows the clause, the observation, why it matters and the command, but no traceback."""
    executable = engines.install(alone.path / "bin", "resumes-the-dead")
    args = ("-m", "turngate", "-k", "dead-handle or handle.present", "--turngate", f"codex={executable}")
    result = asked(alone, *args)
    result.stdout.fnmatch_lines(
        [
            "*_ codex=* resume.dead-handle _*",
            "*fail: *",
            "why: *",
            "*turn *: ended: exit*",
            "*$ codex exec *",
            "*FAILED *::resume.dead-handle*",
        ]
    )
    result.assert_outcomes(passed=1, failed=1, deselected=len(catalogue().at_level("static", "hermetic")) - 2 + 1)
    result.stdout.no_fnmatch_line("*pytest_items.py*")


def test_a_release_that_can_not_be_asked_fails(alone: pytest.Pytester) -> None:
    """A release that can't be probed fails its tests and doesn't skip them."""
    result = asked(alone, "-m", "turngate", "--turngate-level", "static", "--turngate", "codex=/nowhere")
    result.assert_outcomes(failed=2, deselected=1)
    result.stdout.fnmatch_lines(["*could not be tested: there is no executable /nowhere*"])


def test_what_names_no_engine_is_a_mistake_of_usage(alone: pytest.Pytester) -> None:
    """An unknown engine is a usage error of one line that lists the known engines."""
    result = asked(alone, "--turngate", "kodex")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--turngate: 'kodex' is not an engine*"])


def test_an_overlay_of_contracts_is_used(alone: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contracts from TURNGATE_CONTRACTS are used, and errors in them are reported."""
    (alone.path / "own/engines").mkdir(parents=True)
    monkeypatch.setenv("TURNGATE_CONTRACTS", str(alone.path / "own"))
    own, packaged = alone.path / "own/engines/codex.yaml", Path(load.__file__).parents[1] / "engines/codex.yaml"
    own.write_text(packaged.read_text().replace("names: [resume, --json,", "names: [resume, --no-such-flag,", 1))
    codex = engines.install(alone.path / "bin")
    args = ("-m", "turngate", "--turngate-strict", "--turngate-level", "static", "--turngate", f"codex={codex}")
    result = asked(alone, *args)
    result.assert_outcomes(passed=1, failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*--no-such-flag*"])
    own.write_text(packaged.read_text().replace("status: active", "status: asleep"))
    wrong = asked(alone, *args)
    assert wrong.ret == pytest.ExitCode.USAGE_ERROR
    wrong.stderr.fnmatch_lines(["*$.lifecycle.status*"])
    monkeypatch.setenv("TURNGATE_CONTRACTS", str(alone.path / "none"))
    asked(alone, *args).stderr.fnmatch_lines(["*TURNGATE_CONTRACTS: no such folder:*"])


def test_the_plugin_is_registered(alone: pytest.Pytester) -> None:
    """The installed distribution registers the plugin with pytest."""
    asked(alone, "--help").stdout.fnmatch_lines(["*--turngate=TARGET*"])


def test_a_degraded_release_warns_unless_it_shall_fail(alone: pytest.Pytester) -> None:
    """The exit code is that of `turngate probe` with the same option: 0, or 1 under strict."""
    executable = engines.install(alone.path / "bin", "poor-help")
    args = ("-m", "turngate", "--turngate-level", "static", "--turngate", f"codex={executable}")
    warned = asked(alone, *args)
    warned.assert_outcomes(passed=2, deselected=1, warnings=1)
    warned.stdout.fnmatch_lines([f"*PytestWarning: codex={executable} help.surface degraded: *"])
    asked(alone, *args, "--turngate-strict").assert_outcomes(passed=1, failed=1, deselected=1)
    asked(alone, *args, "--turngate-fail-on", "caveat").assert_outcomes(passed=1, failed=1, deselected=1)
