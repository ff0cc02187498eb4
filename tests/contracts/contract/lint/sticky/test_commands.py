from tests.contracts.contract.small import SMALL, mistakes_in
from tests.tables import each

NONE = "  - {transport: none, unverified: true}\n"
COMMANDS = """\
  - transport: json_commands
    argv: [--rpc, "{options}"]
    interactive: {files: {ask.js: ask}, options: [--auto, "{files}/ask.js"]}
    permission_requests: [confirm]
    one_time: {allow: allow, deny: deny}
    keeps_session_id: true
    private_store: false
    commands:
      id: id
      reply: {match: {type: response}, accepted: {success: true}, error: error}
      session: {command: {type: get_state}, session_id: data.id}
      prompt: {type: prompt, parts: [{text: "{text}"}]}
      abort: {type: abort}
      ended: {kind: settled}
      questions: {match: {type: ask}, kind: method, title: title, shown: [title], answer: {type: answer},
                  allow: {yes: true}, deny: {yes: false}, refuse: {cancelled: true}}
    evidence: [{clause: resume.accepted}]
"""


def test_complete_commands_are_valid() -> None:
    """The complete sample, from which the other tests are made, has no errors."""
    assert SMALL.count(NONE) == 1
    assert mistakes_in(SMALL.replace(NONE, COMMANDS)) == []


@each(
    "old, new, path, message",
    [
        ('"{text}"', "'say {text}'", "commands.prompt", "has no slot for the prompt"),
        ("abort: {type: abort}", 'abort: {type: "{text}"}', "commands.abort", "can't hold the prompt"),
        ("{type: get_state}", '{type: "{text}"}', "commands.session.command", "can't hold the prompt"),
        ("abort: {type: abort}", "abort: {type: abort, id: x}", "commands.abort.id", "can't have a fixed id"),
        (', "{files}/ask.js"', "", "interactive.files", "nothing uses these files"),
        ("files: {ask.js: ask}, ", "", "interactive.options", "{files} is empty"),
        (
            "    argv: [--rpc",
            "    model: session\n    argv: [--rpc",
            "model",
            "json_commands chooses no model by request",
        ),
        ("      id: id\n", "", "commands", "'id' is a required property"),
        ("files: {ask.js", "files: {../ask.js", "interactive.files", "does not match"),
    ],
)
def test_commands_that_can_not_work_are_reported(old: str, new: str, path: str, message: str) -> None:
    """A prompt that is lost, an id that repeats, and a file that nothing uses are reported with their place."""
    assert COMMANDS.count(old) == 1
    (error, *_) = mistakes_in(SMALL.replace(NONE, COMMANDS.replace(old, new)))
    assert (error.path, bool(error.hint)) == (f"$.sticky[0].{path}", True)
    assert message in error.what


def test_an_unknown_final_event_and_missing_questions_are_reported() -> None:
    """The event that ends a turn must be known, and permission can be asked only by a question."""
    unasked = COMMANDS[: COMMANDS.index("      questions:")] + COMMANDS[COMMANDS.index("    evidence:") :]
    (error, *_) = mistakes_in(SMALL.replace(NONE, unasked))
    assert (error.path, error.what) == ("$.sticky[0].permission_requests", "the commands define no questions")
    without = mistakes_in(SMALL.replace(NONE, COMMANDS.replace("    commands:", "    orders:")))
    assert any("'commands' is a required property" in error.what for error in without)
