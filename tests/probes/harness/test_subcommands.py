"""Reading the subcommands on help pages."""

import pytest

from turngate_probes.harness.subcommands import subcommands

CLAP = """Codex CLI

Usage: codex [OPTIONS] [PROMPT]
       codex [OPTIONS] <COMMAND> [ARGS]

Commands:
  exec         Run Codex non-interactively [aliases: e]
  apply        Apply the latest diff as a `git apply` to your local
               working tree
  help         Print this message

Options:
  -c, --config <key=value>
"""
COMMANDER = """Usage: claude mcp [options] [command]

Commands:
  add [options] <name> <commandOrUrl> [args...]
      Add an MCP server
  plugin|plugins                        Manage plugins
  help [command]                        display help for command
"""
YARGS = """gemini mcp

Commands:
  gemini mcp add <name> <commandOrUrl>  Add a server
  gemini mcp list                       List all servers
  gemini [query..]                      Launch it  [default]

Options:
  -d, --debug  Run in debug mode?  [boolean]
"""
ARGPARSE = """usage: hermes [-h] {chat,mcp,login} ...

positional arguments:
  {chat,mcp,login}
                        Command to run
    chat                Talk
    mcp                 Manage servers
"""


@pytest.mark.parametrize(
    "page, command, names",
    [
        (CLAP, "codex", ("exec", "apply")),
        (COMMANDER, "claude mcp", ("add", "plugin")),
        (YARGS, "gemini mcp", ("add", "list")),
        (ARGPARSE, "hermes", ("chat", "mcp")),
        ("No list\n  exec\n", "codex", ()),
    ],
)
def test_subcommands_are_read_from_the_pages_of_the_usual_parsers(
    page: str, command: str, names: tuple[str, ...]
) -> None:
    """Aliases, descriptions, the program itself and the command for help are no subcommands."""
    assert subcommands(page, command.split()) == names
