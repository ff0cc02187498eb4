"""The example of docs/writing-a-contract.md."""

import re
from pathlib import Path

import pytest

from turngate import cli
from turngate.contract import lint, load
from turngate.contract.load import Contract

TEXT = (Path(__file__).parents[2] / "docs/writing-a-contract.md").read_text("utf-8")


def test_the_example_is_valid_and_can_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints what the page shows, and the contract is resolved."""
    example, _ = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    file = tmp_path / "my/engines/acme.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(example)
    assert cli.run(["contracts", "check", str(file)]) == 0
    printed = capsys.readouterr().out.replace(f"{tmp_path}/", "")
    assert printed in TEXT
    assert Contract(load.read(file)).at("1.0.0").launch.auto == ("--yes",)


def test_the_example_of_a_change_is_valid() -> None:
    """In place of the section that it changes."""
    example, change = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    document = load.parse(re.sub(r"^end: .*\n", change, example, flags=re.MULTILINE), "acme.yaml")
    assert list(lint.problems(document)) == []
    ends = [Contract(document).at(version).end.match for version in ("1.3.2", "1.4.0")]
    assert ends == [{"type": "done"}, {"type": "turn.done"}]
