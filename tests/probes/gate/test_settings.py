"""The settings of a project and of the user."""

import re
from pathlib import Path

import pytest

from turngate import ContractError
from turngate_probes.gate.settings import SettingsFile, read_settings

PAGE = Path(__file__).parents[3] / "docs/gate.md"
PACKAGE = '{"dependencies": {"@openai/codex": "0.147.0"}}'


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's own file, which doesn't exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = tmp_path / "config/turngate/turngate.toml"
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def project(tmp_path: Path, own: Path) -> Path:
    """Return the folder of a project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_the_example_of_the_page_is_valid(project: Path) -> None:
    """The page shows every key that a project can set, and each of them is valid."""
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (project / "turngate.toml").write_text(example)
    (project / "expected-failures.yaml").write_text("")
    settings = read_settings(project)
    assert settings.values.keys() == {*SettingsFile.__struct_encode_fields__} - {"contracts"}
    assert [name for name, _ in settings.upgrades()] == ["codex@latest", "gemini@0.61.0"]


@pytest.mark.parametrize("name, table", [("turngate.toml", ""), ("pyproject.toml", "[tool.turngate]\n")])
def test_a_project_sets_what_the_options_take(project: Path, name: str, table: str) -> None:
    """Both files have the same keys, and paths are relative to the file."""
    (project / "known.yaml").write_text("")
    (project / name).write_text(
        table + 'engines = ["codex", "gemini@0.61.0"]\nin-use = ["codex@0.147.0"]\nfail-on = "degraded"\n'
        'baseline = "known.yaml"\nreports = ["out/gate.md"]\n'
    )
    settings, place = read_settings(project), str(project / name)
    assert settings.upgrades() == [("codex@latest", place), ("gemini@0.61.0", place)]
    assert settings.in_use("codex") == ("codex@0.147.0", place)
    assert settings.in_use("gemini") is None
    values = {"fail-on": "degraded", "baseline": f"{project}/known.yaml", "reports": [f"{project}/out/gate.md"]}
    assert {key: settings.values[key] for key in values} == values


@pytest.mark.parametrize(
    "text, at, message",
    [
        ('fial-on = "caveat"', "fial-on", "unknown key (did you mean fail-on?)"),
        ('colour = "red"', "colour", "unknown key (keys: engines, in-use, baseline, fail-on, reports, contracts)"),
        ('engines = "codex"', "engines", 'Expected `array`, got `str` (write ["codex"]'),
        ("engines = []", "engines", "length >= 1"),
        ('fail-on = "never"', "fail-on", "Invalid enum value 'never' (write \"broken\","),
        ("reports = [1]", "reports[0]", "Expected `str`, got `int`"),
        ('reports = ["gate.docx"]', "reports", "unknown suffix"),
        ('reports = ["gate.html", "./gate.html"]', "reports", "a file is listed twice"),
        ('baseline = "absent.yaml"', "baseline", "absent.yaml doesn't exist"),
        ('baseline = "a\\u0000b"', "baseline", "a valid path"),
        ("[engines", "", "invalid TOML"),
        (f"a = {'[' * 5000}", "", "invalid TOML"),
    ],
)
def test_a_mistake_names_file_and_key(project: Path, text: str, at: str, message: str) -> None:
    """Unknown keys and wrong values are errors that name the file, the key and the remedy."""
    (project / "turngate.toml").write_text(text)
    with pytest.raises(ContractError) as caught:
        read_settings(project)
    assert (caught.value.file, caught.value.path) == (str(project / "turngate.toml"), at)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text, message",
    [
        ('contracts = "contracts"', "a project can't choose a folder of contracts (pass it with --contracts, or"),
        ('engines = ["codex=./evil"]', "a project can't choose the executable 'codex=./evil' (pass it as an argument"),
        ('in-use = ["codex=./evil"]', "a project can't choose the executable"),
        ('reports = ["../gate.md"]', "is outside"),
        ('reports = ["/tmp/gate.md"]', "is outside"),
        ('reports = ["link/gate.md"]', "is outside"),
        ('reports = ["gate.md"]', "is outside"),
        ('baseline = "link/known.yaml"', "is outside"),
    ],
)
def test_a_project_gains_nothing(project: Path, tmp_path: Path, text: str, message: str) -> None:
    """A project names no executable and no contracts, and no file outside its folder, links followed."""
    (project / "contracts").mkdir()
    (project / "evil").write_text("#!/bin/sh\n")
    (tmp_path / "known.yaml").write_text("")
    (project / "link").symlink_to(tmp_path)
    (project / "gate.md").symlink_to(tmp_path / "precious.md")
    (project / "turngate.toml").write_text(text)
    with pytest.raises(ContractError) as caught:
        read_settings(project)
    assert message in str(caught.value)


def test_the_user_sets_contracts_and_executables(project: Path, own: Path) -> None:
    """The user's own file may name both, and the project's settings override the others in it."""
    (own.parent / "contracts").mkdir()
    own.write_text('contracts = "contracts"\nengines = ["codex=/opt/codex"]\nfail-on = "caveat"\n')
    (project / "turngate.toml").write_text('fail-on = "broken"\n')
    settings = read_settings(project)
    assert settings.values["contracts"] == str(own.parent / "contracts")
    assert settings.upgrades() == [("codex=/opt/codex", str(own))]
    assert (settings.values["fail-on"], settings.places["fail-on"]) == ("broken", str(project / "turngate.toml"))


@pytest.mark.parametrize("name", ["codex", "codex@latest", "codex@^0.147.0"])
def test_what_is_in_use_is_an_exact_release(project: Path, name: str) -> None:
    """Another one is a mistake in the file, which is told before anything is tested."""
    (project / "turngate.toml").write_text(f'in-use = ["{name}"]\n')
    with pytest.raises(ContractError, match=f"{re.escape(name)}' is not an exact release") as caught:
        read_settings(project).in_use("codex")
    assert (caught.value.file, caught.value.path) == (str(project / "turngate.toml"), "in-use")


def test_a_file_that_others_can_write_is_not_the_users(project: Path, own: Path) -> None:
    """The user's own file is refused if somebody else could have written it."""
    own.write_text('fail-on = "caveat"\n')
    own.chmod(0o666)
    with pytest.raises(ContractError, match="somebody else could have written"):
        read_settings(project)


def test_a_project_has_one_file_of_settings(project: Path) -> None:
    """Settings in both files are an error, and a pyproject.toml without the table is none."""
    (project / "turngate.toml").write_text('fail-on = "caveat"\n')
    (project / "pyproject.toml").write_text("[tool.other]\n")
    assert read_settings(project).values == {"fail-on": "caveat"}
    (project / "pyproject.toml").write_text("[tool.turngate]\n")
    with pytest.raises(ContractError, match=r"pyproject.toml has settings, too \(keep one of both\)"):
        read_settings(project)


def test_without_settings_the_pins_of_the_project_are_tested(project: Path) -> None:
    """Each engine that a file pins is tested from its pin."""
    assert read_settings(project).upgrades() == []
    (project / "package.json").write_text(PACKAGE)
    settings = read_settings(project)
    assert settings.upgrades() == [("codex@latest", "package.json:1")]
    assert settings.in_use("codex") == ("codex@0.147.0", "package.json:1")


@pytest.mark.parametrize(
    "engines, message", [('"codx"', "did you mean codex"), ('"codex", "codex@0.1.0"', "an engine is listed twice")]
)
def test_a_wrong_engine_names_the_file(project: Path, engines: str, message: str) -> None:
    """An engine that doesn't exist, or that is listed twice, is an error of the file."""
    (project / "turngate.toml").write_text(f"engines = [{engines}]\n")
    with pytest.raises(ContractError, match=message) as caught:
        read_settings(project).upgrades()
    assert caught.value.file == str(project / "turngate.toml")
    (project / "turngate.toml").write_text(f"in-use = [{engines}]\n")
    with pytest.raises(ContractError, match=message):
        read_settings(project).in_use("codex")
