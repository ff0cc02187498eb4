"""What plain commands list of a release: subcommands with their options, variables, features and models."""

from msgspec.structs import replace

from tests.probes.report import journals as j
from turngate import Ended
from turngate.contract.launch import Listing
from turngate_probes.journal.events import PageEvent
from turngate_probes.journal.listings import choices, listed, sections, variables


def test_the_form_of_a_session_is_listed_too() -> None:
    """Whichever case began the session."""
    stored = replace(page({"session": {"meta": ""}}), case="main", step="session")
    assert sections([stored]) == {"session/any list": {"meta": ""}}


def test_placeholders_of_values_are_no_variables() -> None:
    """A variable is a word of capitals with an underscore, outside the place of a value."""
    page = "--profile <PROFILE_V2>  set $CODEX_HOME\n --env KEY_NAME  or [env: API_KEY=]  [SESSION_ID] CLAUDE_*"
    assert variables(page) == ("API_KEY", "CODEX_HOME")


def page(listed: dict[str, dict[str, str]] | None, ended: str = "exit") -> PageEvent:
    """Return the event of a page that lists something."""
    output = {"bytes": 0, "excerpt": ""}
    rest = {"argv": [], "exit_code": 0, "ended": ended, "cpu_seconds": 0, "stdout": output, "stderr": output}
    event: PageEvent = j.read(
        {"event": "page", "release": "codex@1.0.0", "case": "listings", "step": "1", "listed": listed} | rest
    )
    return event


def test_possible_values_are_read_below_an_option() -> None:
    """In brackets after an empty line, or one a line with a description."""
    page = """Options:
  -a, --approve <POLICY>
          When to ask

          Possible values:
          - never:      Never ask
          - on-request: If the model says so

  -s, --sandbox <MODE>
          Its sandbox

          [possible values: read-only,
          full]

      --json
          Possible values of nothing
"""
    assert choices(page) == {
        "--approve": " [possible values: never, on-request]",
        "--sandbox": " [possible values: read-only, full]",
    }
    listing = Listing(what="command", argv=("--help",))
    taken = ("--approve <POLICY>", "--json", "--sandbox <MODE> [possible values: read-only, full]")
    assert listed(listing, ("x",), page, taken)["command"] == {
        "x: --approve": "<POLICY> [possible values: never, on-request]",
        "x: --json": "",
        "x: --sandbox": "<MODE> [possible values: read-only, full]",
    }


def test_options_of_the_contract_s_pages_are_told_there() -> None:
    """They are facts of their own, so the list leaves them out."""
    listing = page({"command": {"codex exec": "", "codex exec: --json": "", "codex a: --json": ""}})
    own = replace(page(None), case="static", argv=("codex", "exec", "--help"), options=("--json",))
    assert sections([listing, own]) == {"command/any list": {"codex exec": "", "codex a: --json": ""}}


def test_pages_are_one_list() -> None:
    """An option of the command above is left out, and a command that a page names is not hidden."""
    first = {"command": {"codex a": "", "codex: --config": "<x>", "codex: --json": ""}}
    second = {"command": {"codex a b": "", "codex a: --config": "<x>", "codex a: --json": "<y>"}}
    completion = {"command": {"codex a": "hidden", "codex z": "hidden"}}
    whole = sections([page(completion), page(first), page(second)])
    assert whole == sections([page(first), page(second), page(completion), page(None)])
    assert whole == {
        "command/any list": {
            "codex a": "",
            "codex z": "hidden",
            "codex: --config": "<x>",
            "codex: --json": "",
            "codex a b": "",
            "codex a: --json": "<y>",
        }
    }


def test_a_cut_page_makes_no_list() -> None:
    """What it did not print would be shown as gone."""
    assert sections([page({"command": {"codex a": ""}}), page(None, Ended.TIMEOUT)]) == {}


def test_a_pattern_finds_what_a_command_lists() -> None:
    """Its names are kept once; commands of a completion script are hidden."""
    models = Listing(what="model", argv=("models",), pattern='"id":"(?P<name>[^"]+)"')
    assert listed(models, ("codex",), '{"id":"b"},{"id":"a"},{"id":"b"}', ()) == {"model": {"a": "", "b": ""}}
    hidden = Listing(what="command", argv=("completion",), pattern=r"codex,(?P<name>\w+)")
    found = listed(hidden, ("codex",), "codex,secret codex,help", ())
    assert found == {"command": {"codex secret": "hidden"}}
