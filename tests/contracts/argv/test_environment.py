"""Engines get only the variables that contract and operator allow, and a run keeps its session locations."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.releases import NEWEST, every_release
from tests.tables import each
from turngate.argv.environment import BASE, engine_environment, session_locations
from turngate.contract.engine_contract import EngineContract

CODEX = NEWEST["codex"]
NAMES = st.sampled_from(
    ("PATH", "LC_TIME", "https_proxy", "HOME", "CODEX_HOME", "OPENAI_API_KEY", "SECRET", "MINE", "XDG_DATA_HOME")
)


@every_release
def test_what_a_probe_sets_is_passed_or_kept(contract: EngineContract) -> None:
    """Every variable that a probe sets for an engine is also passed by the server, except those of the stub."""
    environment = contract.environment
    wanted = {name for name in contract.hermetic.env if not name.startswith("TURNGATE_")}
    assert wanted <= {*environment.passed, *environment.locations}


@every_release
def test_places_are_kept_and_hold_no_secret(contract: EngineContract) -> None:
    """Variables that decide where sessions are stored are saved, so they must not hold secrets."""
    kept = session_locations(contract, {})
    assert {"HOME", *(contract.store.locations if contract.store else {})} <= kept.keys()
    assert not [name for name in kept if re.search("KEY|TOKEN|SECRET|PASSWORD|AUTH", name, re.IGNORECASE)]
    assert not kept.keys() & (BASE | {*contract.environment.passed})


def test_only_what_is_allowed_is_passed() -> None:
    """Engines get only the common variables, the contract's, and those that the operator names."""
    server = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "LC_X": "y",
        "no_proxy": "*",
        "NO_PROXY": "*",
        "OPENAI_API_KEY": "k",
        "GEMINI_API_KEY": "g",
        "MINE": "m",
        "TURNGATE_TOKEN": "t",
        "PWD": "/",
        "LD_PRELOAD": "x",
    }
    built = engine_environment(CODEX, server, {}, ["MINE", "ABSENT"])
    assert built == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "LC_X": "y",
        "no_proxy": "*",
        "NO_PROXY": "*",
        "OPENAI_API_KEY": "k",
        "MINE": "m",
    }


def test_without_places_those_of_the_environment_are_taken() -> None:
    """Without saved locations, those of the environment are used, as on a first turn."""
    server = {"HOME": "/home/a", "CODEX_HOME": "/codex", "PATH": "/bin", "MINE": "m"}
    assert engine_environment(CODEX, server) == {"HOME": "/home/a", "CODEX_HOME": "/codex", "PATH": "/bin"}


def test_the_places_of_the_first_turn_win() -> None:
    """A resume uses the locations of the first turn, even if the server's environment has changed."""
    first = session_locations(CODEX, {"HOME": "/home/a", "CODEX_HOME": "/codex", "PATH": "/bin"})
    assert first == {"HOME": "/home/a", "CODEX_HOME": "/codex", "CODEX_SQLITE_HOME": None}
    now = {"HOME": "/home/b", "CODEX_SQLITE_HOME": "/new", "PATH": "/bin"}
    expected = {"HOME": "/home/a", "CODEX_HOME": "/codex", "PATH": "/bin"}
    assert engine_environment(CODEX, now, first, ["CODEX_SQLITE_HOME", "CODEX_HOME"]) == expected


@each(
    "path, kept",
    [
        ("node_modules/.bin:/opt/bin:/bin", "/opt/bin:/bin"),
        (":/bin", "/bin"),
        ("/opt/bin::/bin:", "/opt/bin:/bin"),
        (".:~/bin:../bin:/bin", "/bin"),
        ("", "/bin:/usr/bin"),
        ("bin", "/bin:/usr/bin"),
    ],
)
def test_no_program_is_looked_up_in_the_workspace(path: str, kept: str) -> None:
    """An empty or relative folder on PATH would be one of the workspace, where a stranger's program may be."""
    assert engine_environment(CODEX, {"PATH": path}, {}) == {"PATH": kept}


@given(st.dictionaries(NAMES, st.text("ab")), st.dictionaries(NAMES, st.text("ab")), st.lists(NAMES))
def test_places_never_come_from_a_later_environment(
    first: dict[str, str], now: dict[str, str], more: list[str]
) -> None:
    """Each location stays as in the first turn, whatever changed between two turns."""
    kept = session_locations(CODEX, first)
    built = engine_environment(CODEX, now, kept, more)
    assert {name: built.get(name) for name in kept} == kept
    assert built.keys() <= {*BASE, *CODEX.environment.passed, *kept, *more, "LC_TIME"}
