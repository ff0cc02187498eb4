"""Targets: what users write."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each
from turngate.contract import load
from turngate.errors import UsageError
from turngate_probes.releases.target import Target, parse_target


@each(
    "text, target",
    [
        ("codex", Target("codex")),
        ("codex@0.169.0", Target("codex", version="0.169.0")),
        ("codex@v0.147.0", Target("codex", "0.147.0")),
        ("codex@latest", Target("codex", version="latest")),
        ("codex=./bin/codex", Target("codex", path=Path("bin/codex"))),
        ("codex=/a b@1/c=d", Target("codex", path=Path("/a b@1/c=d"))),
    ],
)
def test_a_target_is_read(text: str, target: Target) -> None:
    """Engine, version and executable are read; a path may contain the separators."""
    assert parse_target(text) == target


def test_a_path_in_the_home_directory_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` in a path is the user's home, since shells don't expand it after `=`."""
    monkeypatch.setenv("HOME", "/home/someone")
    assert parse_target("codex=~/codex").path == Path("/home/someone/codex")


@each("text", ["", "vim", "codex@", "codex=", "codex@1=x", "-h"])
def test_what_is_no_target_is_refused(text: str) -> None:
    """An invalid target is rejected; the error quotes it and lists the known engines."""
    with pytest.raises(UsageError, match="is not an engine") as refused:
        parse_target(text)
    assert repr(text) in refused.value.what
    assert all(engine in refused.value.hint for engine in load.engine_names())


@each("text", ["kodex", "Codex", "codx@0.169.0", "codex-cli=/bin/codex", "codex 0.1", "codex\n"])
def test_a_mistyped_engine_is_answered_by_the_one_that_was_meant(text: str) -> None:
    """A mistyped engine gets the nearest name as a suggestion, whatever follows it."""
    with pytest.raises(UsageError, match="is not an engine") as refused:
        parse_target(text)
    assert refused.value.hint == "did you mean codex?"


def test_an_engine_whose_contract_is_in_a_folder_here_is_answered_by_the_option_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that only a folder of contracts in the working directory has gets the option that reads this folder."""
    (tmp_path / "my/engines").mkdir(parents=True)
    (tmp_path / "my/engines/acme.yaml").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="is not an engine") as refused:
        parse_target("acme@1.0")
    assert refused.value.hint == "to use my/engines/acme.yaml, pass --contracts my"


@pytest.mark.parametrize("text, meant", [("./codex", "codex=./codex"), ("/opt/agent", "ENGINE=/opt/agent")])
def test_an_executable_alone_is_answered_by_the_way_to_write_it(text: str, meant: str) -> None:
    """A path without an engine gets the engine that its name has, if any."""
    with pytest.raises(UsageError, match="is not an engine") as refused:
        parse_target(text)
    assert refused.value.hint == f"did you mean {meant}?"


@each(
    "text, meant",
    [
        ("@openai/codex@0.169.0", "codex@0.169.0"),
        ("openai/codex", "codex"),
        ("hermes-agent@0.19.0", "hermes@0.19.0"),
        ("0.169.0", "ENGINE@0.169.0"),
    ],
)
def test_a_package_or_a_version_is_answered_by_the_way_to_write_it(text: str, meant: str) -> None:
    """The package of an engine gets the engine with the same version, and a version the place where it belongs."""
    with pytest.raises(UsageError, match="is not an engine") as refused:
        parse_target(text)
    assert refused.value.hint.endswith(f"write {meant}")


@pytest.mark.parametrize("text", ["-", "report.json"])
def test_a_file_after_json_is_answered_by_the_option_for_files(text: str) -> None:
    """A path after `--json`, which takes no value, is read as a target; the error names the option for files."""
    with pytest.raises(UsageError, match="is not an engine") as refused:
        parse_target(text)
    assert refused.value.hint == "--json takes no value; write files with --report FILE"


@given(st.sampled_from(load.engine_names()), st.from_regex(r"[^=@]+", fullmatch=True))
def test_a_target_is_written_as_it_is_read(engine: str, version: str) -> None:
    """The text of a target is the text it was read from."""
    assert str(parse_target(f"{engine}@{version}")) == f"{engine}@{version}"
