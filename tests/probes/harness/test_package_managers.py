"""What package managers get to know."""

import os
from pathlib import Path

import pytest

from turngate_probes.harness.package_managers import environment, find_program, module, run_away


@pytest.fixture(name="home", autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Start with an empty environment and home."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f":.:{tmp_path}")
    return tmp_path


def test_settings_of_the_user_are_passed_and_secrets_are_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies, certificates and the managers' own variables are passed, and all others are not."""
    mine = {"https_proxy": "http://proxy", "npm_config_registry": "r", "PIP_INDEX_URL": "i", "NODE_EXTRA_CA_CERTS": "c"}
    for name, value in {**mine, "OPENAI_API_KEY": "secret", "PYTHONPATH": "p", "NODE_OPTIONS": "o"}.items():
        monkeypatch.setenv(name, value)
    assert environment() == {**mine, "HOME": str(home), "PATH": str(home), "COREPACK_ENABLE_PROJECT_SPEC": "0"}


@pytest.mark.parametrize("name", [".npmrc", "chosen"])
def test_variables_that_the_users_own_settings_name_are_passed(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Variables in the user's .npmrc, or in the file that the environment names instead, are passed."""
    file = home / name
    file.write_text("//corp/:_authToken=${NODE_AUTH_TOKEN}\nemail=${MAIL?}\nother=${ABSENT}\n")
    if name == "chosen":
        monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(file))
    for variable in ("NODE_AUTH_TOKEN", "MAIL", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, variable.lower())
    passed = environment()
    assert (passed["NODE_AUTH_TOKEN"], passed["MAIL"]) == ("node_auth_token", "mail")
    assert not {"OPENAI_API_KEY", "ABSENT"} & passed.keys()


@pytest.mark.parametrize("name", ["NPM_CONFIG_USERCONFIG", "HOME"])
def test_a_file_of_the_folder_names_no_variables(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A path of settings that is relative to the current folder isn't read."""
    monkeypatch.chdir(home)
    (home / "here").mkdir()
    for file in ("relative", "here/.npmrc"):
        (home / file).write_text("registry=http://${OPENAI_API_KEY}/")
    monkeypatch.setenv(name, "here" if name == "HOME" else "relative")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert "OPENAI_API_KEY" not in environment()


def test_programs_of_the_folder_are_not_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of PATH that are relative to the current folder don't count."""
    here = home / "here"
    here.mkdir()
    (here / "npm").touch(0o755)
    monkeypatch.chdir(here)
    assert find_program("npm") is None
    (home / "npm").touch(0o755)
    assert find_program("npm") == str(home / "npm")


def test_a_manager_runs_in_an_empty_project(home: Path) -> None:
    """The folder has nothing but a package.json, which ends npm's search, and is removed afterwards."""
    code = "import os; print(os.getcwd(), os.listdir())"
    printed = run_away((module("x")[0], "-c", code), 60).stdout.decode()
    folder, _, names = printed.partition(" ")
    assert names == "['package.json']\n"
    assert not Path(folder).exists()
