"""The recipe of an engine for an orchestrator of somebody else's."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from shutil import copyfile

import pytest

from tests.tables import each
from turngate import NotFoundError, engine_names, history
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.verdict import Verdict
from turngate.files import contract_files, use_overlay
from turngate_probes.report.recipe import Recipe, recipe
from turngate_probes.simulate.simulated_process import install

# each passes something in its own way: files with a proof, options alone, variables and a file, a prompt as argument
RUN = ("gemini@0.61.0", "gemini@0.37.2", "codex@0.169.0", "opencode@1.18.33", "hermes@0.19.0")


def text(of: Recipe, title: str) -> str:
    """Return the part of a recipe below a title."""
    return next(section.text for section in of.sections if section.title == title)


def code(of: Recipe, title: str) -> list[str]:
    """Return the code blocks of a part."""
    return re.findall(r"```sh\n(.*?)\n```", text(of, title), re.DOTALL)


def tokens(contract: EngineContract) -> set[str]:
    """Return what the contract passes in either mode, apart from slots and prompt."""
    launch, guards = contract.launch, contract.guards
    passed = (*launch.start, *launch.resume, *launch.auto, *launch.interactive, *guards.options)
    return {token for token in passed if "{" not in token}


@each("engine", engine_names())
def test_a_recipe_has_all_that_the_contract_passes(engine: str) -> None:
    """Each argument, variable and file of the contract, its session id, and each action of a caveat are in it."""
    contract, found = load.load_contract(engine), recipe(engine)
    commands = "\n".join((*code(found, "Start"), *code(found, "Resume")))
    words = {word for line in commands.splitlines() for word in line.removesuffix("\\").split()}
    assert {shlex.quote(token) for token in tokens(contract)} <= words | {*re.findall(r"'[^']*'", commands)}
    variables = {**contract.guards.env, **contract.launch.interactive_env}
    assert all(f"{name}=" in commands for name in variables)
    files = text(found, "Files and guards")
    assert all(content.rstrip() in files for content in contract.guards.files.values())
    assert all(
        setting.remedy in " ".join(files.split()) for setting in contract.unsafe_settings if not setting.kept_only
    )
    passed = re.findall(r"\w+", text(found, "Environment"))
    assert {"PATH", "HOME", *contract.environment.passed, *contract.environment.locations} <= {*passed}
    assert f"`{contract.handle.field}`" in text(found, "Session id")
    caveats = " ".join(text(found, "Caveats").split())
    assert all(" ".join(deviation.action.split()) in caveats for deviation in contract.deviations)
    assert "{files}" not in found.markdown


def test_a_recipe_is_that_of_its_release() -> None:
    """Arguments and caveats of another release are not in it."""
    older, newer = recipe("gemini", "0.37.2"), recipe("gemini", "0.61.0")
    assert "--skip-trust" not in older.markdown
    assert "--skip-trust" in newer.markdown
    assert "starts a fresh session" not in older.markdown
    assert "the turn succeeds in a fresh session" in text(older, "Caveats")
    assert "the turn succeeds in a fresh session" not in text(newer, "Caveats")


@each(
    "engine, version, said",
    [
        ("gemini", "0.20.0", "This release is **broken**, so don't rely on it: handle.present: "),
        ("gemini", "0.61.0", "what turngate tested of Gemini CLI (0.61.0), which is compatible, holds for it"),
        ("codex", "99.0.0", "as turngate would, which has not tested this release"),
        # no history has tests of it
        ("iflow", None, "to run iFlow CLI (the newest release) as turngate would, which has not tested this release"),
    ],
)
def test_a_recipe_says_what_is_known_of_its_release(engine: str, version: str | None, said: str) -> None:
    """It vouches for no release that is broken or was not tested."""
    begin = " ".join(recipe(engine, version).markdown.partition("This is everything")[0].split())
    assert said in begin
    assert ("holds for it" in begin) == ("compatible" in said)


def test_a_recipe_of_another_contract_is_untested(tmp_path: Path) -> None:
    """What the history says of a release holds by the bundled contract alone."""
    (tmp_path / "engines").mkdir()
    copyfile(contract_files()["codex"], tmp_path / "engines/codex.yaml")
    use_overlay(tmp_path)
    try:
        assert recipe("codex", "0.169.0").verdict is None
    finally:
        use_overlay(None)
    assert recipe("codex", "0.169.0").verdict is Verdict.COMPATIBLE


def test_a_recipe_of_no_version_is_that_of_the_newest_release() -> None:
    """The newest release is named; a version that nobody published has no recipe."""
    newest = history.load("codex").newest
    assert f"({newest})" in " ".join(recipe("codex").markdown.split())
    with pytest.raises(NotFoundError, match=r"codex 0\.168\.9 is not a release that turngate knows of"):
        recipe("codex", "0.168.9")


@pytest.mark.parametrize("release", [RUN[0], *(pytest.param(other, marks=pytest.mark.long) for other in RUN[1:])])
@each("mode", ["interactive", "auto"])
def test_the_commands_of_a_recipe_run_as_they_are(release: str, mode: str, tmp_path: Path) -> None:
    """Pasted into a shell they start a session and resume it, in an environment that has more than the engine gets."""
    engine, _, version = release.partition("@")
    contract, found = load.load_contract(engine, version), recipe(engine, version)
    install(contract, tmp_path / "bin")
    for folder in ("work", "home", "out"):
        (tmp_path / folder).mkdir(exist_ok=True)
    which = 0 if mode == "interactive" else 1
    guards, environment = code(found, "Files and guards"), code(found, "Environment")
    env = {
        **os.environ,
        **{name.upper(): str(tmp_path / name) for name in ("home", "out", "files")},
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PLANTED": "a secret",
        "PROMPT": "- one\n  and two",
    }

    def ran(*lines: str) -> str:
        script = "\n".join((*lines, "ended=$?", 'env > "$OUT/env"', "exit $ended"))
        subprocess.run(["sh", "-c", script], cwd=tmp_path / "work", env=env, check=True, timeout=120)
        return (tmp_path / "out" / contract.handle.stream).read_text()

    begun = re.search(contract.handle.shape, ran(*guards, *environment, code(found, "Start")[which]))
    assert begun
    env["SESSION"] = begun[0]
    assert begun[0] in ran(*environment, code(found, "Resume")[which])
    kept = {line.partition("=")[0] for line in (tmp_path / "out" / "env").read_text().splitlines()}
    assert "HOME" in kept
    assert "PLANTED" not in kept
