"""The cache of contracts for single releases."""

import json
import multiprocessing
import os
import stat
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.contracts.contract.small import SMALL
from turngate.contract import cached, load
from turngate.contract.cached import cached_contract
from turngate.errors import ContractError, NotCoveredError
from turngate.files import contract_files, use_overlay


@pytest.fixture(name="cache", autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty cache."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _only_file(cache: Path) -> Path:
    [file] = cache.glob("*/*")
    return file


@pytest.fixture(name="parsed")
def _parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Provide the names of the files that are parsed from now on."""
    names, parse = list[str](), load.parse

    def noted(text: str, file: str, *, ours: bool = False) -> load.Document:
        names.append(file)
        return parse(text, file, ours=ours)

    monkeypatch.setattr(load, "parse", noted)
    return names


@pytest.mark.parametrize("engine", load.engine_names())
def test_a_cached_contract_equals_the_loaded_one(engine: str, parsed: list[str]) -> None:
    """The second time, the same contract comes from the cache, without parsing."""
    first = cached_contract(engine)
    assert parsed == [f"engines/{engine}.yaml"]
    assert cached_contract(engine) == first
    assert len(parsed) == 1
    assert first == load.load_contract(engine)


def test_each_release_has_its_own_claims(parsed: list[str]) -> None:
    """Two releases and the newest one are cached side by side."""
    versions = ("0.140.0", "0.169.0", None)
    for version in versions * 2:
        assert cached_contract("codex", version).version == version
    assert len(parsed) == 3


@pytest.mark.parametrize("asked, found", [("0.169.0", "0.140.0"), ("0.169.0", None), (None, "0.169.0")])
def test_the_contract_of_another_release_is_ignored(
    asked: str | None, found: str | None, cache: Path, parsed: list[str]
) -> None:
    """A file that holds another release than its name says is ignored and replaced."""
    right, _ = cached_contract("codex", asked), cached_contract("codex", found)
    for _ in range(2):
        file, other = (cache / f"contracts/codex@{version or 'newest'}.json" for version in (asked, found))
        file.write_bytes(other.read_bytes())
        assert cached_contract("codex", asked) == right
    assert cached_contract("codex", asked) == right
    assert len(parsed) == 4


def test_the_contract_of_another_engine_is_ignored(cache: Path, parsed: list[str]) -> None:
    """A file that holds the contract of another engine is ignored, even if it names the right source."""
    codex, gemini = cached_contract("codex"), cached_contract("gemini")
    file, other = (json.loads((cache / f"contracts/{name}@newest.json").read_text()) for name in ("codex", "gemini"))
    (cache / "contracts/codex@newest.json").write_text(json.dumps(file | {"contract": other["contract"]}))
    assert (cached_contract("codex"), cached_contract("gemini")) == (codex, gemini)
    assert parsed == [f"engines/{name}.yaml" for name in ("codex", "gemini", "codex")]


def test_the_newest_contract_is_not_that_of_a_release_called_newest(cache: Path) -> None:
    """What is no version is the usual error, even where a file has its name."""
    cached_contract("codex")
    with pytest.raises(NotCoveredError):
        cached_contract("codex", "newest")


def test_old_files_are_removed(cache: Path, monkeypatch: pytest.MonkeyPatch, parsed: list[str]) -> None:
    """Only the files written last are kept; what a killed writer left counts as well."""
    monkeypatch.setattr(cached, "KEPT", 2)
    cached_contract("codex", "0.140.0")
    left = _only_file(cache).with_name(".codex@0.140.0.json.1-1.part")
    left.write_text("{")
    os.utime(left, (0, 0))
    for version in ("0.150.0", "0.169.0"):
        cached_contract("codex", version)
    assert {file.name for file in cache.glob("*/*")} == {"codex@0.150.0.json", "codex@0.169.0.json"}
    cached_contract("codex", "0.140.0")
    assert len(parsed) == 4


def test_what_is_too_long_is_not_cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contract that would be too long to be read from the cache isn't written to it."""
    monkeypatch.setattr(cached, "_MAX_BYTES", 1000)
    assert cached_contract("codex") == load.load_contract("codex")
    assert not cache.exists()


def test_the_cache_is_private(cache: Path) -> None:
    """Only the user can read it or write to it."""
    cached_contract("codex")
    file = _only_file(cache)
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)


def _text(text: str) -> Callable[[Path], object]:
    return lambda file: file.write_text(text)


def _changed(**changes: object) -> Callable[[Path], object]:
    return lambda file: file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def _piped(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _linked(file: Path) -> None:
    other = file.with_name("other")
    file.rename(other)
    file.symlink_to(other)


@pytest.mark.parametrize(
    "harm",
    [
        _text(""),
        _text("[]"),
        _text("{"),
        _text("[" * 100_000),
        lambda file: file.write_bytes(b"\xff"),
        _changed(source="another"),
        _changed(code="another"),
        _changed(contract={}),
        _changed(contract=None),
        lambda file: file.chmod(0o666),
        _piped,
        _folder,
        _linked,
    ],
)
def test_a_cache_that_is_not_ours_is_ignored(harm: Callable[[Path], object], cache: Path, parsed: list[str]) -> None:
    """A damaged, outdated or unsafe file is ignored, and the contract is parsed again."""
    contract = cached_contract("codex")
    harm(_only_file(cache))
    assert cached_contract("codex") == contract
    assert len(parsed) == 2


def test_a_file_of_another_user_is_ignored(monkeypatch: pytest.MonkeyPatch, parsed: list[str]) -> None:
    """A file that another user owns is ignored, even in a shared cache."""
    cached_contract("codex")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    cached_contract("codex")
    assert len(parsed) == 2


def test_a_damaged_file_is_replaced(cache: Path, parsed: list[str]) -> None:
    """After a damaged file was ignored once, the cache works again."""
    cached_contract("codex")
    _only_file(cache).write_text("{")
    cached_contract("codex")
    cached_contract("codex")
    assert len(parsed) == 2


def test_another_turngate_makes_its_own(monkeypatch: pytest.MonkeyPatch, parsed: list[str]) -> None:
    """A contract that other code has cached is made anew."""
    cached_contract("codex")
    monkeypatch.setattr(cached, "_code", lambda: "another")
    cached_contract("codex")
    assert len(parsed) == 2


@pytest.mark.parametrize("place", ["/dev/null/cache", "/proc/cache", "~nobody-has-this-name/cache"])
def test_a_cache_that_can_not_be_written_only_costs_time(
    place: str, monkeypatch: pytest.MonkeyPatch, parsed: list[str]
) -> None:
    """Without a usable folder, each contract is parsed."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", place)
    assert cached_contract("codex") == cached_contract("codex")
    assert len(parsed) == 2


def test_an_overlay_has_contracts_of_its_own(tmp_path: Path, parsed: list[str]) -> None:
    """A contract in an overlay, and each change to it, counts at once; the packaged one stays cached."""
    packaged = cached_contract("codex")
    text = contract_files()["codex"].read_text("utf-8")
    file = tmp_path / "own/engines/codex.yaml"
    file.parent.mkdir(parents=True)
    use_overlay(tmp_path / "own")
    try:
        for title in ("One", "Two", "Two"):
            file.write_text(text.replace(f"title: {packaged.title}", f"title: {title}"))
            assert cached_contract("codex").title == title
    finally:
        use_overlay(None)
    assert cached_contract("codex") == packaged
    assert len(parsed) == 3


@pytest.mark.parametrize("engine, version", [("codex", "banana"), ("codex", "../../x"), ("small", "0.99.0")])
def test_a_release_without_claims_is_the_same_error(engine: str, version: str, tmp_path: Path, cache: Path) -> None:
    """What the contract doesn't cover is an error each time, and nothing is cached."""
    file = tmp_path / "own/engines/small.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(SMALL.replace("  - until: 0.140.0\n", "  - since: 0.100.0\n    until: 0.140.0\n"))
    use_overlay(tmp_path / "own")
    try:
        with pytest.raises(NotCoveredError) as expected:
            load.load_contract(engine, version)
        for _ in range(2):
            with pytest.raises(NotCoveredError) as raised:
                cached_contract(engine, version)
            assert str(raised.value) == str(expected.value)
    finally:
        use_overlay(None)
    assert not [*cache.glob("*/*")]


def test_an_unknown_engine_is_the_same_error() -> None:
    """The nearest name is suggested."""
    with pytest.raises(ContractError, match="did you mean codex"):
        cached_contract("codx")


def test_processes_may_fill_it_at_once(cache: Path) -> None:
    """Several processes that cache the same contract all get it, and leave one whole file."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        contracts = [*pool.map(cached_contract, ["gemini"] * 6)]
    assert contracts == [load.load_contract("gemini")] * 6
    assert json.loads(_only_file(cache).read_text())["source"] == contract_files()["gemini"].read_text("utf-8")
