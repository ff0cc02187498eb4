"""Files that a contract supplies to its engine."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from turngate import MachineError, first_turn, process_request
from turngate.argv import build
from turngate.argv.file_slot import as_in_contract, digest
from turngate.contract import load
from turngate.contract.launch import AutoFlag, Guards, Option, PermissionMode
from turngate.model import Mode
from turngate.process.supplied_files import supplied_folder

FILES = {"ask.toml": "ask = true\n"}
CODEX = load.contract("codex").at("0.169.0")
GUARDED = replace(
    CODEX,
    guards=Guards(env={"PRELOAD": "--require {files}/ask.toml", "MODE": "safe"}, files=FILES),
    launch=replace(CODEX.launch, interactive=("--policy", "{files}/ask.toml")),
    options=(*CODEX.options, Option("--policy", "required")),
    auto_flags=(*CODEX.auto_flags, AutoFlag("--policy", safe_values=("{files}/ask.toml",))),
)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the files of a test in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_turn_gets_the_files_outside_its_workspace(tmp_path: Path) -> None:
    """Arguments and variables name the folder, a prompt keeps its words, and the environment's own value wins."""
    turn = first_turn(GUARDED, "Read {files}", "interactive", via="argument")
    request = process_request(turn, Path("/opt/codex"), tmp_path / "work", env={"MODE": "mine"})
    folder = supplied_folder(FILES)
    assert request.argv[request.argv.index("--policy") + 1] == f"{folder}/ask.toml"
    assert request.argv[-1] == "Read {files}"
    assert (request.env["PRELOAD"], request.env["MODE"]) == (f"--require {folder}/ask.toml", "mine")
    assert (folder / "ask.toml").read_text() == FILES["ask.toml"]
    assert not folder.is_relative_to(tmp_path / "work")


def test_a_variable_that_names_a_supplied_file_outranks_the_environment(tmp_path: Path) -> None:
    """Whoever runs a debugger has NODE_OPTIONS set, and would run the engine unguarded without a word."""
    turn = first_turn(GUARDED, "hi", "auto")
    request = process_request(turn, Path("/opt/codex"), tmp_path, env={"PRELOAD": "--inspect"})
    assert request.env["PRELOAD"] == f"--require {supplied_folder(FILES)}/ask.toml"


def test_a_file_that_was_changed_or_replaced_is_written_again(tmp_path: Path) -> None:
    """Neither other content, nor a link to the right content, nor a file that others may write is used."""
    path = supplied_folder(FILES) / "ask.toml"
    path.write_text("ask = false\n")
    assert supplied_folder(FILES).joinpath("ask.toml").read_text() == FILES["ask.toml"]
    path.unlink()
    (tmp_path / "elsewhere").write_text(FILES["ask.toml"])
    path.symlink_to(tmp_path / "elsewhere")
    supplied_folder(FILES)
    assert not path.is_symlink()
    path.chmod(0o666)
    supplied_folder(FILES)
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_engine_starts_without_its_files(tmp_path: Path) -> None:
    """If the files can't be written, the error says what to do, and there is no request."""
    (tmp_path / "cache").write_text("")
    with pytest.raises(MachineError, match="guard the engine") as raised:
        process_request(first_turn(GUARDED, "hi", "interactive"), Path("/opt/codex"), tmp_path)
    assert "XDG_CACHE_HOME" in raised.value.hint


def test_a_sticky_process_gets_the_files_of_its_mode_too() -> None:
    """Its options name the folder, and are recognised as the contract's own."""
    asking = PermissionMode(files={"hook.ts": "x"}, options=("--policy", "{files}/ask.toml"))
    contract = replace(GUARDED, sticky=replace(CODEX.sticky, interactive=asking))
    folder = supplied_folder({**FILES, "hook.ts": "x"})
    argv = build.sticky(contract, Mode.INTERACTIVE, files=folder)
    assert f"{folder}/ask.toml" in argv
    assert as_in_contract(argv, contract)[-1] == "{files}/ask.toml"
    assert folder.name == digest({"hook.ts": "x", **FILES})
