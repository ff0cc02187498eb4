"""Instruction files that are links: those that lead out of the workspace refuse the turn."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from turngate import RefusedError, first_turn, process_request, resumed_turn
from turngate.argv.trust import Trust
from turngate.contract import load
from turngate.contract.home_and_workspace import InstructionFile, NamingSetting
from turngate.process import instruction_files
from turngate.process.instruction_files import check_instruction_files

FILES = (InstructionFile("ACME.md", r"@(?P<path>\S+)"), InstructionFile(".acme/rules"))
CONTRACT = replace(load.contract("codex").at("0.169.0"), instruction_files=FILES)
LINKS = ("ACME.md", "deep/ACME.md", "deep/.acme/rules/r.md", "deep/.acme/rules/more/x", "deep/.acme/rules")


@pytest.fixture(name="work")
def _work(tmp_path: Path) -> Path:
    """Return a workspace; beside it lies a secret."""
    (tmp_path / "secret").write_text("secret")
    work = tmp_path / "work"
    (work / "deep/.acme/rules/more").mkdir(parents=True)
    return work


@pytest.mark.parametrize("link", LINKS)
def test_a_link_that_leads_out_is_refused_and_named(work: Path, link: str) -> None:
    """In any folder, and also below a folder of rules, or in its place."""
    if (work / link).is_dir():
        (work / link).rename(work / "moved")
    (work / link).symlink_to("/" if link.endswith("rules") else work.parent / "secret")
    with pytest.raises(RefusedError, match=f"{link} leads out of the workspace, and codex would send it"):
        check_instruction_files(CONTRACT, work, {})


def test_an_import_that_leads_out_is_refused(work: Path) -> None:
    """Also that of an imported file, and in spite of a circle."""
    (work / "ACME.md").write_text("See @deep/a.md and @ACME.md and @missing and @~/mine.\n")
    (work / "deep/a.md").write_text("See @./b.md\n")
    check_instruction_files(CONTRACT, work, {})
    (work / "deep/b.md").symlink_to(work.parent / "secret")
    with pytest.raises(RefusedError, match=r"deep/b\.md leads out"):
        check_instruction_files(CONTRACT, work, {})


@pytest.mark.parametrize("secret", ["sec.md", "docs/sec.md", "more/sec.md"])
def test_an_import_of_a_linked_file_is_looked_for_beside_both(work: Path, secret: str) -> None:
    """Engines differ: some resolve it beside the link, others beside the file; and some take `x/..` for nothing."""
    (work / "docs").mkdir()
    (work / "more").symlink_to("deep")
    (work / "ACME.md").symlink_to("docs/in.md")
    (work / "docs/in.md").write_text("See @./sec.md and @deep/../ACME.md and @more/sec.md\n")
    check_instruction_files(CONTRACT, work, {})
    (work / secret).symlink_to(work.parent / "secret")
    with pytest.raises(RefusedError, match=f"{secret} leads out"):
        check_instruction_files(CONTRACT, work, {})


def test_a_file_that_is_too_long_to_be_searched_is_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could import anything; one that has no imports may have any length, and links to folders go on for ever."""
    monkeypatch.setattr(instruction_files, "MOST_FILES", 50)
    (work / "deep/.acme/rules/long").write_text("x" * 2**20 + "x")
    (work / "ACME.md").write_text("x" * 2**20)
    check_instruction_files(CONTRACT, work, {})
    (work / "ACME.md").write_text("x" * 2**20 + "x")
    with pytest.raises(RefusedError, match=r"^ACME\.md has more than 1048576 bytes"):
        check_instruction_files(CONTRACT, work, {})
    (work / "round").symlink_to(".")
    (work / "ACME.md").write_text("See @round/ACME.md\n")
    with pytest.raises(RefusedError, match="more than 50 instruction files"):
        check_instruction_files(CONTRACT, work, {})


def test_other_links_are_fine(work: Path) -> None:
    """One that stays in the workspace, one to itself, one to nothing in it, and one that is no instruction file."""
    (work / "README.md").write_text("hello")
    (work / "ACME.md").symlink_to("README.md")
    (work / "deep/ACME.md").symlink_to("ACME.md")
    (work / "deep/.acme/rules/r.md").symlink_to("../../missing")
    (work / "notes").symlink_to(work.parent / "secret")
    check_instruction_files(CONTRACT, work, {})


def test_a_file_that_is_left_out_in_both_modes_may_be_a_link(work: Path) -> None:
    """The engine sends it in no turn; if it is left out in one mode, the other still sends it."""
    (work / "ACME.md").symlink_to(work.parent / "secret")
    guarded = {"auto": "ACME_SAFE", "interactive": "ACME_SAFE"}
    check_instruction_files(replace(CONTRACT, instruction_files=(replace(FILES[0], left_out=guarded),)), work, {})
    del guarded["auto"]
    with pytest.raises(RefusedError, match=r"ACME\.md leads out"):
        check_instruction_files(replace(CONTRACT, instruction_files=(replace(FILES[0], left_out=guarded),)), work, {})


def test_a_link_above_the_workspace_is_refused_in_its_repository_alone(work: Path) -> None:
    """An engine that is started in a folder of a repository reads those of the folders above too."""
    (work / "deep/ACME.md").symlink_to("../README.md")
    (work / "ACME.md").symlink_to(work.parent / "secret")
    check_instruction_files(CONTRACT, work / "deep/.acme", {})
    (work / ".git").mkdir()
    with pytest.raises(RefusedError, match=r"^\.\./\.\./ACME\.md leads out"):
        check_instruction_files(CONTRACT, work / "deep/.acme", {})
    (work / "ACME.md").unlink()
    check_instruction_files(CONTRACT, work / "deep/.acme", {})


def test_an_import_from_the_repository_above_is_checked(work: Path) -> None:
    """An engine may import what is in the repository of its workspace; a link must not lead out of that."""
    (work / ".git").mkdir()
    (work / "deep/ACME.md").write_text("See @../a.md and @../../secret\n")
    (work / "a.md").symlink_to("deep/ACME.md")
    check_instruction_files(CONTRACT, work / "deep", {})
    (work / "a.md").unlink()
    (work / "a.md").symlink_to(work.parent / "secret")
    with pytest.raises(RefusedError, match=r"^\.\./a\.md leads out"):
        check_instruction_files(CONTRACT, work / "deep", {})


def test_a_link_in_a_repository_above_a_submodule_is_refused(work: Path) -> None:
    """Engines go on above a submodule; a file in a submodule may not lead out of that, though it stays in the other."""
    (work / ".git").mkdir()
    (work / "deep/.git").write_text("gitdir: ../.git/modules/deep\n")
    (work / "ACME.md").symlink_to("README.md")
    check_instruction_files(CONTRACT, work / "deep", {})
    (work / "deep/ACME.md").symlink_to("../README.md")
    with pytest.raises(RefusedError, match=r"^\.\./ACME\.md leads out"):
        check_instruction_files(CONTRACT, work / "deep/.acme", {})
    (work / "deep/ACME.md").unlink()
    (work / "ACME.md").unlink()
    (work / "ACME.md").symlink_to(work.parent / "secret")
    with pytest.raises(RefusedError, match=r"^\.\./ACME\.md leads out"):
        check_instruction_files(CONTRACT, work / "deep", {})


@pytest.mark.parametrize("names", ["'NOTES.md'", '"a.md",\n  "docs/NOTES.md"'])
def test_a_file_that_the_user_s_settings_name_is_checked(work: Path, names: str) -> None:
    """Wherever the user keeps the settings; without them there is nothing to check."""
    setting = NamingSetting("{CODEX_HOME}/config.toml", r"fallbacks = \[(?P<names>[^\]]*)\]")
    contract = replace(CONTRACT, instruction_files=(InstructionFile(named_in=setting),))
    (work / "docs").mkdir()
    for name in ("NOTES.md", "docs/NOTES.md"):
        (work / name).symlink_to(work.parent / "secret")
    env = {"HOME": str(work.parent), "CODEX_HOME": str(work.parent / "own")}
    check_instruction_files(contract, work, env)
    (work.parent / "own").mkdir()
    (work.parent / "own/config.toml").write_text(f'model = "x"\nfallbacks = [{names}]\n')
    with pytest.raises(RefusedError, match=r"NOTES\.md leads out"):
        check_instruction_files(contract, work, env)


@pytest.mark.parametrize(
    "engine, file, text",
    [
        ("codex", ".codex/config.toml", 'project_doc_fallback_filenames = ["CLAUDE.md"]'),
        ("gemini", ".gemini/settings.json", '{"context": {"fileName": "CLAUDE.md"}}'),
        ("gemini", ".gemini/settings.json", '{"context": {"fileName": [\n "GEMINI.md",\n "CLAUDE.md"]}}'),
    ],
)
def test_settings_of_engines_that_name_files_are_read(work: Path, engine: str, file: str, text: str) -> None:
    """Those of Codex and Gemini CLI, in the user's home."""
    contract = load.contract(engine).at(None)
    (work.parent / file).parent.mkdir()
    (work / "CLAUDE.md").symlink_to(work.parent / "secret")
    check_instruction_files(contract, work, {"HOME": str(work.parent)})
    (work.parent / file).write_text(text)
    with pytest.raises(RefusedError, match=r"CLAUDE\.md leads out"):
        check_instruction_files(contract, work, {"HOME": str(work.parent)})


def test_it_is_checked_when_a_turn_is_about_to_start(work: Path) -> None:
    """On a first turn and on a resume, unless the operator trusts the workspace."""
    first = first_turn(CONTRACT, "hi", "interactive")
    resumed = resumed_turn(CONTRACT, "hi", "auto", "0198c6a1-6d70-7000-8000-000000000001")
    process_request(first, Path("/opt/codex"), work, env={})
    (work / "ACME.md").symlink_to(work.parent / "secret")
    for turn in (first, resumed):
        with pytest.raises(RefusedError, match="leads out"):
            process_request(turn, Path("/opt/codex"), work, env={})
    trusted = first_turn(Trust(workspaces=(work,)).applied(CONTRACT, work), "hi", "auto")
    process_request(trusted, Path("/opt/codex"), work, env={})


def test_a_workspace_with_too_many_folders_is_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be looked at could be a link."""
    monkeypatch.setattr(instruction_files, "MOST_FOLDERS", 3)
    with pytest.raises(RefusedError, match="more than 3 folders"):
        check_instruction_files(CONTRACT, work, {})
    check_instruction_files(replace(CONTRACT, instruction_files=()), work, {})


def test_a_repository_is_not_searched(work: Path) -> None:
    """Git's own files are no instruction files."""
    (work / ".git").mkdir()
    (work / ".git/ACME.md").symlink_to(work.parent / "secret")
    check_instruction_files(CONTRACT, work, {})
