"""The conversations that docs/handles.md and docs/page.md show are what the commands print."""

import re
from pathlib import Path

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv, handle_in
from tests.reference.server_env import ASK, ServerEnv, final

DOCS = Path(__file__).parents[2] / "docs"
HANDLE = "k3n9x2ab"


def shown(page: str, command: str, handle: str) -> str:
    """Return the output of a command as a page shows it, with another handle."""
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"^\$ {re.escape(command)}\n(?P<output>.*?)^(?:\$ |```)", text, re.MULTILINE | re.DOTALL)
    assert found
    return found["output"].replace(HANDLE, handle)


def test_a_conversation_prints_what_the_page_shows(cli_env: CliEnv) -> None:
    """The first turn prints the question and how to continue, and three characters of a handle are enough."""
    cli_env.keep_session()
    cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="blue")))
    said = cli_env.type("start", "codex", "Which colour should the door have?")
    handle = handle_in(said.err)
    page = shown("handles.md", 'turngate start codex "Which colour should the door have?"', handle)
    assert said.out + said.err == page
    assert cli_env.type("resume", handle[:3], "blue").code == 0


def test_the_list_of_what_waits_is_what_the_page_shows(server_env: ServerEnv) -> None:
    """A run of the server stands there with its question and the command that replies."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    server_env.ask(prompt="Which colour should the door have?")
    printed = server_env.cli_env.type("handles", "--waiting").out
    page = shown("page.md", "turngate handles --waiting", printed[:8])
    assert without_time(printed) == without_time(page)


def without_time(text: str) -> str:
    """Return a list without the times of its rows."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", text)
