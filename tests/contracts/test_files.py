import multiprocessing
import os
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import platformdirs
import pytest

from tests.longer import first_quick
from tests.tables import each
from turngate import cli
from turngate.contract import load
from turngate.files import (
    contract_files,
    default_cache,
    default_data,
    keep_newest,
    locked,
    make_private,
    name_of,
    open_private,
    overlay,
    read_own,
    real_path,
    state_of,
    use_overlay,
    write_atomically,
)


def _take(path: Path, shared: bool) -> None:  # noqa: FBT001 - multiprocessing hands it over by position
    try:
        with locked(path, shared=shared, wait=False):
            os._exit(0)
    except BlockingIOError:
        os._exit(1)


def taken_elsewhere(path: Path, *, shared: bool = False) -> bool:
    """Whether another process can take the lock."""
    process = multiprocessing.get_context("fork").Process(target=_take, args=(path, shared))
    process.start()
    process.join()
    return process.exitcode == 0


@pytest.mark.parametrize("folder", [True, False], ids=["folder", "file"])
def test_a_lock_keeps_others_out_until_its_holder_is_done(tmp_path: Path, *, folder: bool) -> None:
    """A locked file or folder can't be locked by another process until it is released."""
    path = tmp_path if folder else tmp_path / "lock"
    with locked(path):
        assert not taken_elsewhere(path)
        assert not taken_elsewhere(path, shared=True)
    assert taken_elsewhere(path)


def test_shared_locks_exclude_only_exclusive_ones(tmp_path: Path) -> None:
    """Shared locks don't exclude each other; an exclusive one waits for all of them."""
    path = tmp_path / "lock"
    with locked(path, shared=True):
        assert taken_elsewhere(path, shared=True)
        assert not taken_elsewhere(path)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The new text replaces the old one, no other file is left, and missing folders are created."""
    path = tmp_path / "made" / "file"
    for text in ("old", "new", "newest"):
        write_atomically(path, text, durable=text == "newest")
        assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mask", [0, 0o22, 0o277, 0o777])
def test_private_files_and_folders_do_not_depend_on_the_umask(tmp_path: Path, mask: int) -> None:
    """Files have mode 0600 and new folders 0700; files with wider permissions are tightened."""
    old, made = tmp_path / "old", tmp_path / "above" / "made"
    old.touch(0o644)
    before = os.umask(mask)
    try:
        make_private(made)
        write_atomically(made / "deep" / "file", "text", private=True)
        for path in (old, made / "lock"):
            with locked(path, private=True):
                pass
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"old": 0o600, "above": 0o700, "made": 0o700, "deep": 0o700, "file": 0o600, "lock": 0o600}


def test_a_file_of_somebody_else_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file's mode can't be set, the file is closed and the error raised."""
    opened = list[int]()

    def refuse(descriptor: int, _mode: int) -> None:
        opened.append(descriptor)
        raise PermissionError(1, "not the owner")

    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(PermissionError, match="not the owner"):
        open_private(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_what_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If renaming fails, the old text stays and the temporary file is removed."""
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    """A named pipe stays one and carries the text."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(path, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert path.is_fifo()


def test_the_cache_is_where_the_user_or_the_platform_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """`TURNGATE_CACHE_DIR` takes precedence over the platform's cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setenv("TURNGATE_CACHE_DIR", "/chosen")
    assert default_cache() == Path("/chosen")
    monkeypatch.delenv("TURNGATE_CACHE_DIR")
    assert default_cache().name == "turngate"


@pytest.mark.parametrize("home", ["/home/me", "/home/me/", "", "relative", None])
@pytest.mark.parametrize("xdg", ["/x", "/x/", " /x", "relative", "", None])
def test_the_platform_folders_are_those_of_platformdirs(
    home: str | None, xdg: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its slow import, the folders are the same."""
    monkeypatch.delenv("TURNGATE_CACHE_DIR", raising=False)
    for name, value in (("HOME", home), ("XDG_CACHE_HOME", xdg), ("XDG_DATA_HOME", xdg)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    folders = default_cache(), default_data()
    if xdg in (" /x", "relative") and (home or "").startswith("/"):
        # XDG demands to ignore it, which not every version of platformdirs does
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.delenv("XDG_DATA_HOME")
    assert folders[0] == platformdirs.user_cache_path("turngate", appauthor=False)
    assert folders[1] == platformdirs.user_data_path("turngate", appauthor=False)


def test_the_state_of_a_folder_changes_with_its_files(tmp_path: Path) -> None:
    """A changed, new or removed file with the suffix changes the state; another file does not."""
    states = [state_of(tmp_path, ".py")]
    for name, text in (("a.py", "1"), ("a.py", "22"), ("b.py", "")):
        (tmp_path / name).write_text(text)
        states.append(state_of(tmp_path, ".py"))
    (tmp_path / "b.py").unlink()
    (tmp_path / "a.txt").write_text("")
    assert state_of(tmp_path, ".py") == states[2]
    assert len({*states}) == 4


def test_the_files_written_last_are_kept(tmp_path: Path) -> None:
    """The oldest files are removed, also hidden ones; folders and links are neither counted nor removed."""
    for age, name in enumerate(("new", ".middle", "old", "oldest")):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    keep_newest(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"new", ".middle", "folder", "link"}
    keep_newest(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"new", ".middle", "folder", "link"}


def test_files_may_vanish_while_old_ones_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may remove the same files at the same time."""
    for name in "abc":
        (tmp_path / name).write_text("")
    found = [*os.scandir(tmp_path)]
    (tmp_path / "a").unlink()
    unlink = Path.unlink

    def unlinked_twice(path: Path, *, missing_ok: bool = False) -> None:
        unlink(path)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlinked_twice)
    monkeypatch.setattr(os, "scandir", lambda _: nullcontext(found))
    keep_newest(tmp_path, 1)
    assert len(os.listdir(tmp_path)) == 1  # noqa: PTH208 - `iterdir` uses the replaced function


def test_only_an_own_short_file_is_read(tmp_path: Path) -> None:
    """A file that others may write, a link, or one that is too long is refused."""
    file = tmp_path / "file"
    file.write_text("12345")
    assert read_own(file, 5) == b"12345"
    with pytest.raises(ValueError, match="longer than 4 bytes"):
        read_own(file, 4)
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(OSError, match="symbolic links"):
        read_own(tmp_path / "link", 5)
    file.chmod(0o620)
    with pytest.raises(ValueError, match="somebody else could have written"):
        read_own(file, 5)
    file.chmod(0o604)
    assert read_own(file, 5) == b"12345"
    with pytest.raises(ValueError, match="somebody else could have read"):
        read_own(file, 5, secret=True)
    file.chmod(0o600)
    assert read_own(file, 5, secret=True) == b"12345"


def test_a_real_path_is_that_of_what_would_be_opened(tmp_path: Path) -> None:
    """Links are followed, also if nothing is there; what doesn't exist yet is kept."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "dangling").symlink_to("/absent/folder")
    for path, real in (
        ("folder", "folder"),
        ("link/new/file", "folder/new/file"),
        ("file/below", "file/below"),
        ("dangling/x", "/absent/folder/x"),
        ("link/../file", "file"),
        ("absent/../file", "file"),
    ):
        assert real_path(tmp_path / path) == tmp_path.resolve() / real


@each("path", ["itself", "itself/x", "there", "there/x/y", "x" * 300, "folder/" + "x" * 300, "a/" * 10**6])
def test_a_path_that_nobody_can_open_has_no_real_path(tmp_path: Path, path: str) -> None:
    """Links that lead to themselves, and names that are too long, are errors in every version of Python."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "there").symlink_to("back")
    (tmp_path / "back").symlink_to("there")
    with pytest.raises(OSError, match=r"symbolic links|too long"):
        real_path(tmp_path / path)


CODEX = contract_files()["codex"]


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Remove the overlay after the test."""
    yield
    use_overlay(None)


def written(folder: Path, name: str = "codex", title: str = "My Codex") -> Path:
    """Write a contract into an overlay folder and return the folder."""
    text = CODEX.read_text().replace("engine: codex", f"engine: {name}").replace("title: Codex CLI", f"title: {title}")
    text = text.replace("status: active", "status: deprecated")
    (folder / "engines").mkdir(exist_ok=True)
    (folder / f"engines/{name}.yaml").write_text(text)
    return folder


def test_a_contract_of_ones_own_goes_first_and_others_stay(tmp_path: Path) -> None:
    """A contract in the overlay replaces the bundled one of that name or is added, and is reported by its path."""
    written(tmp_path)
    use_overlay(written(tmp_path, "mine"))
    assert load.contract("codex").at().title == "My Codex"
    assert load.contract("codex").document.file == str(tmp_path / "engines/codex.yaml")
    assert {"mine", "codex", "gemini"} <= set(load.engine_names())
    assert list(load.engine_names()) == sorted(load.engine_names())
    use_overlay(None)
    assert load.contract("codex").at().title == "Codex CLI"
    assert "mine" not in load.engine_names()
    assert overlay() is None
    assert name_of(CODEX) == "engines/codex.yaml"


def test_the_command_takes_it_from_option_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The option and the variable work with every subcommand."""
    written(tmp_path)
    assert cli.run(["--contracts", str(tmp_path), "engines", "list"]) == 0
    assert re.search("codex +deprecated", capsys.readouterr().out)
    use_overlay(None)
    monkeypatch.setenv("TURNGATE_CONTRACTS", str(tmp_path))
    assert cli.run(["engines", "list"]) == 0
    assert re.search("codex +deprecated", capsys.readouterr().out)


@pytest.mark.parametrize(
    "title, more, why",
    [
        ("My Codex", "nonsense: 1\nmore: 1\n", ("unknown key 'nonsense'", "1 more: turngate contracts check")),
        ("GAP", "", ("codex.yaml: 1 gap: $.title",)),
    ],
)
def test_a_contract_that_can_not_be_used_leaves_out_only_its_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], title: str, more: str, why: tuple[str, ...]
) -> None:
    """A contract with mistakes or gaps is named on stderr; only commands for its engine fail, others go on."""
    file = written(tmp_path, title=title) / "engines/codex.yaml"
    file.write_text(file.read_text() + more)
    (tmp_path / "engines/gemini.yaml").write_text(contract_files()["gemini"].read_text())
    used = ["--contracts", str(tmp_path)]
    assert cli.run([*used, "engines", "list"]) == 0
    said = capsys.readouterr()
    assert f"Warning: codex is left out: {file}" in said.err
    assert all(part in said.err for part in why)
    assert "gemini" not in said.err
    assert re.findall("^(codex|gemini) ", said.out, re.MULTILINE) == ["gemini"]
    assert cli.run([*used, "contracts", "options", "codex"]) == 2
    assert f"the contract of codex can't be used yet (`turngate contracts check {file}`" in capsys.readouterr().err
    assert cli.run([*used, "contracts", "options", "gemini"]) == 0


def test_a_folder_without_contracts_is_no_error_but_a_missing_one(tmp_path: Path) -> None:
    """An empty folder overrides nothing; a missing one is a mistake."""
    assert cli.run(["--contracts", str(tmp_path), "engines", "list"]) == 0
    assert cli.run(["--contracts", str(tmp_path / "none"), "engines", "list"]) == 2


def test_contracts_in_a_wrong_place_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever passes the folder `engines` itself, or keeps contracts beside it, learns where they belong."""
    engines = written(tmp_path) / "engines"
    assert cli.run(["--contracts", str(engines), "engines", "list"]) == 0
    assert f"Warning: {engines} has no contracts: they are read from {engines}/engines" in capsys.readouterr().err
    assert cli.run(["--contracts", str(tmp_path), "engines", "list"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", ["engines", "simulations", "pins"])
@pytest.mark.parametrize("what", first_quick(["pipe", "bomb", "long"], 2))
def test_no_file_of_a_user_holds_up_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, what: str
) -> None:
    """A pipe, a few aliases that stand for gigabytes, and a long comment end at once; an error names the file."""
    file = tmp_path / kind / ("codex/package.json" if kind == "pins" else "codex.yaml")
    file.parent.mkdir(parents=True)
    if what == "pipe":
        os.mkfifo(file)
    elif what == "long":
        file.write_text("a: 1\n#" + "x" * 60_000_000)
    else:
        lines = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
        file.write_text("a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(lines))
    code, said = cli.run(["--contracts", str(tmp_path), "engines", "list"]), capsys.readouterr()
    assert code == (2 if kind == "pins" else 0)
    assert f"{file}:" in said.err
