"""The names by which version managers and distributions know an engine."""

from tests.tables import each
from turngate import load_contract
from turngate_probes.releases.engine_names import tool_names


@each(
    "engine, names",
    [
        ("codex", {"codex", "openai-codex-cli-bin"}),
        ("gemini", {"gemini", "gemini-cli"}),
        ("claude", {"claude", "claude-code"}),
        ("kilo", {"kilo"}),
        ("kimi", {"kimi", "kimi-cli"}),
    ],
)
def test_a_tool_has_the_name_of_the_engine_or_of_its_package(engine: str, names: set[str]) -> None:
    """The package's last part counts only if it names the engine; the address of a script never does."""
    assert tool_names(load_contract(engine)) == names
