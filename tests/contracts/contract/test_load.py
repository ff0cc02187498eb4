import errno
import os
import re
from pathlib import Path

import pytest

from tests.contracts.contract.small import SMALL, mistakes_in, small
from tests.tables import each
from turngate.contract import load
from turngate.contract.load import Contract, parse
from turngate.errors import ContractError, NotCoveredError, NoVersionError
from turngate.files import contract_files


def test_file_that_is_no_utf_8_is_a_contract_error(tmp_path: Path) -> None:
    """A file that isn't valid UTF-8 is a contract error that says so."""
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"title: caf\xe9\n")
    with pytest.raises(ContractError, match=r"latin\.yaml"):
        load.read(file)


@pytest.mark.parametrize("kind", ["pipe", "folder", "absent", "device"])
def test_what_is_no_file_is_a_contract_error(tmp_path: Path, kind: str) -> None:
    """A pipe or a device, which would block the reader or never end, a folder and a missing file are refused."""
    file = tmp_path / "acme.yaml"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "device":
        file.symlink_to("/dev/zero")
    with pytest.raises(ContractError, match=r"acme\.yaml: can't be read: "):
        load.read(file)


def test_too_many_open_files_are_no_fault_of_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine can't read any file, which the caller of a server may try again."""

    def none_free(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(load, "read_regular", none_free)
    with pytest.raises(OSError, match="Too many open files"):
        load.read(tmp_path / "acme.yaml")


@pytest.mark.parametrize("ours", [True, False])
def test_a_long_file_is_refused_before_it_is_read(tmp_path: Path, *, ours: bool) -> None:
    """A file of gigabytes is refused with the place where it is too long."""
    file = tmp_path / "acme.yaml"
    with file.open("wb") as long:
        long.write(b"a: 1\n# ")
        long.truncate(2**36)
    with pytest.raises(ContractError, match=r"acme\.yaml:2:262140: longer than 256 KiB"):
        load.read(file, ours=ours)


def test_claims_are_chosen_by_version() -> None:
    """Each release gets the claims of its range; without a version the newest claims are used."""
    contract = small()
    assert contract.at("0.139.9").launch.start[0] == "old"
    assert contract.at("0.140.0").launch.start[0] == "new"
    assert contract.at().launch.start[0] == "new"
    assert [option.flag for option in contract.at("0.139.9").options] == ["--auto"]
    assert [option.flag for option in contract.at("1.0.0").options] == ["--auto", "--late"]
    assert contract.at("1.0.0").version == "1.0.0"


def test_a_section_of_one_entry_may_be_that_entry() -> None:
    """A section with one entry may be written without a list."""
    plain = SMALL.replace("end:\n  - {", "end:\n  {")
    assert mistakes_in(plain) == []
    assert Contract(parse(plain, "f")).at("1.0.0") == small().at("1.0.0")


def test_claims_that_nobody_saw_hold_are_listed() -> None:
    """A section is unverified at a release if one of its claims there is marked so, or has no evidence."""
    assert "launch" in small().at("0.1.0").unverified
    assert "launch" not in small().at("0.140.0").unverified
    silent = SMALL.replace("    evidence: [{clause: resume.accepted}]\n", "")
    assert mistakes_in(silent) == []
    assert "launch" in Contract(parse(silent, "f")).at("0.140.0").unverified


@each("version", ["9z", "banana", "1.2", "", "v1.2.3", "1.2.3\n"])
def test_release_that_is_no_version_is_reported(version: str) -> None:
    """An invalid version is an error with a hint of what to write."""
    with pytest.raises(NoVersionError, match=r"isn't a version of small \(write the version"):
        small().at(version)


def test_optional_section_may_be_absent() -> None:
    """A contract without a store is valid; session ids can't be looked up then."""
    assert small().at().store is None


def test_error_points_at_the_innermost_part_that_is_there() -> None:
    """The line of an error is that of the deepest existing part of the path; an empty file has line 1."""
    assert str(parse("a:\n  b:\n    c: 1\n", "f").error(("a", "b", "d"), "absent")) == "f:3:5: $.a.b.d: absent"
    assert str(parse("", "f").error(("a",), "absent")) == "f:1:1: $.a: absent"


def test_errors_name_what_they_are_about() -> None:
    """The error names the unknown engine, or the uncovered release with its file and known ranges."""
    with pytest.raises(ContractError) as unknown:
        load.contract("kodex")
    assert str(unknown.value) == "no contract for engine 'kodex' (did you mean codex?)"
    for name in ("codex@0.169.0", "codex=./codex"):
        with pytest.raises(ContractError, match="name the engine alone: codex"):
            load.contract(name)
    ranged = SMALL.replace("  - until: 0.140.0\n", "  - since: 0.100.0\n    until: 0.140.0\n")
    with pytest.raises(NotCoveredError) as raised:
        Contract(parse(ranged, "small.yaml")).at("0.99.0")
    assert str(raised.value) == (
        "small.yaml: $.launch: the contract doesn't cover small 0.99.0: "
        "`launch` covers 0.100.0 up to but not including 0.140.0, from 0.140.0"
    )


@pytest.mark.long
@each("engine", load.engine_names())
def test_packaged_contracts_read_the_same_either_way(engine: str) -> None:
    """The fast reader gives the same data and positions as the thorough one."""
    assert load.contract(engine).document == load.read(contract_files()[engine], f"engines/{engine}.yaml")


@pytest.mark.parametrize("section", ["handle", "launch", "events"])
def test_contract_that_lacks_a_section_is_an_error_with_its_place(section: str) -> None:
    """An incomplete contract that was not validated fails with the same error as in `turngate contracts check`."""
    document = parse(re.sub(rf"^{section}:.*\n([ -].*\n)*", "", SMALL, flags=re.MULTILINE), "small.yaml")
    with pytest.raises(ContractError) as raised:
        Contract(document).at()
    assert (raised.value.file, raised.value.path, bool(raised.value.hint)) == ("small.yaml", "$", True)
    assert raised.value.what == f"{section!r} is a required property"


def test_a_release_that_no_claim_covers_has_no_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release without claims, or with an unreadable version, has no contract."""
    ranged = SMALL.replace("  - until: 0.140.0\n", "  - since: 0.100.0\n    until: 0.140.0\n")
    contract = Contract(parse(ranged, "small.yaml"))
    monkeypatch.setattr(load, "contract", lambda _: contract)
    assert load.find_contract("small", "0.99.0") is None
    assert load.find_contract("small", "no version") is None
    assert load.find_contract("small", "0.120.0") == contract.at("0.120.0")
