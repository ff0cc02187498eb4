from pathlib import Path

import pytest

from turngate import cli
from turngate.contract import load


def test_a_wrong_contract_is_told_by_line_and_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each error has file, line and path; the exit code is 2, and a good file next to it is still called valid."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    text = (Path(load.__file__).parents[1] / "engines/codex.yaml").read_text()
    good.write_text(text)
    bad.write_text(text.replace("status: active", "status: asleep"))
    assert cli.run(["contracts", "check", str(bad), str(good)]) == 2
    said = capsys.readouterr()
    line = 1 + text[: text.index("status: active")].count("\n")
    assert said.err.startswith(f"{bad}:{line}:")
    assert "$.lifecycle.status" in said.err
    assert said.out.startswith(f"{good}: valid")


@pytest.mark.parametrize("text, line", [("engine: [", 1), ("engine: codex\nengine: codex\n", 2)])
def test_a_file_that_is_no_document_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int
) -> None:
    """A syntax error and a duplicate key end with exit code 2 and their place."""
    (tmp_path / "bad.yaml").write_text(text)
    assert cli.run(["contracts", "check", str(tmp_path / "bad.yaml")]) == 2
    assert f"{tmp_path}/bad.yaml:{line}:" in capsys.readouterr().err


def test_all_packaged_contracts_are_checked_without_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against the recordings of one folder, if one is named: of an empty one nothing is shown."""
    assert cli.run(["contracts", "check", "--fixtures", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert all(f"{engine}.yaml:" in said for engine in ("codex", "gemini", "opencode"))
    assert "there is no recording codex/" in said
