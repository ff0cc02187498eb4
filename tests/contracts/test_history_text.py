from typing import get_args

from tests.tables import each
from turngate.contract.clauses import Result
from turngate.contract.verdict import Verdict
from turngate.history import HIDDEN, Change, Kind
from turngate.history_text import only_guarded, sentences
from turngate_probes.journal.tool_access import CallOutcome

FIRST, BOTH = ("first turn",), ("first turn", "resumed turn")


def test_what_only_guards_make_compatible_is_said_once() -> None:
    """Compatible releases share a sentence; others, and those that the contract doesn't cover, have none."""
    known = [("codex", "0.169.0", Verdict.COMPATIBLE), ("gemini", "0.61.0", Verdict.BROKEN)]
    one = "codex@0.169.0 is compatible only with turngate's guards, which `turngate explain codex@0.169.0` prints."
    assert only_guarded(known) == one
    assert only_guarded([*known[1:], ("copilot", "0.0.1", Verdict.COMPATIBLE)]) == ""
    many = [("codex", f"0.16{number}.0", Verdict.COMPATIBLE) for number in range(6)]
    assert only_guarded(many).startswith("codex@0.160.0, codex@0.161.0, codex@0.162.0, codex@0.163.0 and 2 more are")
    assert "`turngate explain ENGINE@VERSION`" in only_guarded(many)


def change(kind: str, subject: str, before: str | None, after: str | None, where: tuple[str, ...] = FIRST) -> Change:
    """Return a change of a release."""
    return Change(release="2.0.0", since="1.0.0", kind=kind, subject=subject, before=before, after=after, where=where)


@each(
    "kind, subject, before, after, where, said",
    [
        ("verdict", "2.0.0", "compatible", "degraded", (), "It is degraded; 1.0.0 was compatible."),
        (
            "verdict",
            "2.0.0",
            "compatible",
            "unanswered",
            (),
            "It could not be tested; 1.0.0 was compatible.",
        ),
        (
            "clause",
            "stdin.open",
            "deviates: hang",
            "pass",
            (),
            "`stdin.open` passes; before, it had a known caveat (hang).",
        ),
        ("command", "codex x", None, "", ("any list",), "Command `codex x` is new."),
        ("command", "codex x", "codex x", "codex y x", ("any list",), "Command `codex x` is now `codex y x`."),
        (
            "command",
            "codex x",
            "",
            "hidden",
            ("any list",),
            "Command `codex x` is no longer on a help page, but still there.",
        ),
        ("command", "codex x: --y", "", None, ("any list",), "Command `codex x` no longer shows the option `--y`."),
        (
            "command",
            "codex x: --y",
            "",
            "<Z>",
            ("any list",),
            "The option `--y` of command `codex x` takes `<Z>` instead of no value.",
        ),
        (
            "protocol",
            "request x: y",
            None,
            "required",
            ("any list",),
            "In the protocol, `request x` has the new field `y` (required).",
        ),
        (
            "protocol",
            "item x: y",
            "optional",
            None,
            ("any list",),
            "In the protocol, `item x` no longer has the field `y`.",
        ),
        (
            "protocol",
            "item x: y",
            "required",
            "optional",
            ("any list",),
            "In the protocol, the field `y` of `item x` is optional instead of required.",
        ),
        (
            "protocol",
            "item x: y",
            "required: a|b",
            "required: b|c",
            ("type file",),
            "In the protocol, the field `y` of `item x` also takes `c` and no longer takes `a`.",
        ),
        (
            "protocol",
            "response to x: y",
            "false",
            "true",
            ("any list",),
            "In the protocol, the field `y` of `response to x` is true instead of false.",
        ),
        ("protocol", "item x", "", None, ("any list",), "In the protocol, `item x` is gone."),
        (
            "default model",
            "default model",
            "gpt-1",
            "gpt-2",
            ("any turn",),
            "The default model is `gpt-2` instead of `gpt-1`.",
        ),
        ("tool", "x", "", None, ("mode auto",), "Tool `x` is no longer offered (mode auto)."),
        ("tool", "x", None, "", ("mode auto",), "Tool `x` is offered (mode auto)."),
        ("tool", "x", "", "only by a search", (), "Tool `x` is found only by a search now."),
        ("tool", "x", "only by a search", "", (), "Tool `x` is offered without a search now."),
        ("session", "meta: a.b", None, "", ("any list",), "Files of sessions now have `a.b` in `meta`."),
        ("session", "meta", "", None, ("any list",), "Files of sessions no longer have `meta`."),
        ("feature", "goals", None, "", ("any list",), "Feature `goals` is on by default."),
        ("model", "gpt-1", "", None, ("any list",), "Model `gpt-1` is no longer listed."),
        ("variable", "A_B", None, "", ("any list",), "Environment variable `A_B` is now on a help page."),
        ("clause", "stdin.open", "pass", "fail: hang", (), "`stdin.open` fails (hang); before, it passed."),
        (
            "clause",
            "backend.failure-told",
            "deviates: a, b, c",
            "deviates: d, b",
            (),
            "`backend.failure-told` has the new known caveat d and no longer has the known caveats a and c.",
        ),
        (
            "clause",
            "backend.failure-told",
            "deviates: hang-401, hang-500",
            "deviates: hang-500",
            (),
            "`backend.failure-told` no longer has the known caveat hang-401.",
        ),
        (
            Kind.OPTION,
            "--acp",
            "[boolean]",
            HIDDEN,
            ("qwen --help",),
            "Option `--acp` is no longer on the help page, but still accepted (`qwen`).",
        ),
        (Kind.OPTION, "--acp", HIDDEN, "", ("qwen --help",), "Option `--acp` is on the help page again (`qwen`)."),
        (Kind.RECORD, "result", None, "", BOTH, "Record `result` is new (first turn and resumed turn)."),
        (Kind.RECORD, "result", "", None, FIRST, "Record `result` is gone (first turn)."),
        (Kind.RECORD, "done: at.ms", None, "number", FIRST, "Records `done` have the new key `at.ms` (first turn)."),
        (Kind.RECORD, "done: at", "number", None, FIRST, "Records `done` no longer have the key `at` (first turn)."),
        (
            Kind.RECORD,
            "done: at",
            "number",
            "null|string",
            FIRST,
            "In records `done`, `at` is null or string instead of number (first turn).",
        ),
        (Kind.OPTION, "--trust", None, "", ("codex exec --help",), "Option `--trust` is new (`codex exec`)."),
        (Kind.OPTION, "--trust", "<A>", None, ("codex -h",), "Option `--trust` is gone (`codex`)."),
        (Kind.OPTION, "--trust", "", "<A>", ("x",), "Option `--trust` takes `<A>` instead of no value (`x`)."),
        (Kind.EXIT_CODE, "exit code", "0", "1", BOTH, "The exit code is 1 instead of 0 (first turn and resumed turn)."),
        (
            Kind.EXIT_CODE,
            "exit code",
            "1",
            "did not end",
            FIRST,
            "The engine does not end any more (first turn); before, it ended with exit code 1.",
        ),
        (
            Kind.EXIT_CODE,
            "exit code",
            "did not end",
            "1",
            FIRST,
            "The engine ends, with exit code 1 (first turn); before, it did not end.",
        ),
        (Kind.TOOL, "Write", None, "", ("mode auto",), "Tool `Write` is offered (mode auto)."),
        (Kind.TOOL, "Write", "", None, ("mode auto",), "Tool `Write` is no longer offered (mode auto)."),
        (Kind.TOOL_CALL, "Write", None, "denied", ("mode auto",), "A call of `Write` is denied (mode auto)."),
        (Kind.TOOL_CALL, "Write", "denied", None, ("mode auto",), "`Write` is no longer called (mode auto)."),
        (
            Kind.TOOL_CALL,
            "Write",
            "executed",
            "hangs",
            ("mode auto",),
            "A call of `Write` hangs (mode auto); before, it was executed.",
        ),
        (Kind.REQUEST, "POST /v1", None, "", FIRST, "Request `POST /v1` is new (first turn)."),
        (Kind.REQUEST, "POST /v1", "", None, FIRST, "Request `POST /v1` is no longer made (first turn)."),
        (Kind.HEADER, "x-id", None, "", FIRST, "Request header `x-id` is new (first turn)."),
        (Kind.HEADER, "x-id", "", None, FIRST, "Request header `x-id` is no longer sent (first turn)."),
        (Kind.HOST, "a.example", None, "", ("any turn",), "It now tries to reach `a.example`."),
        (Kind.HOST, "a.example", "", None, ("any turn",), "It no longer tries to reach `a.example`."),
    ],
)
def test_a_change_is_a_sentence(
    kind: str, subject: str, before: str | None, after: str | None, where: tuple[str, ...], said: str
) -> None:
    """Each kind of change is told in plain words, with where it was observed."""
    assert sentences([change(kind, subject, before, after, where)]) == (said,)


@each("result", Result)
def test_every_result_of_a_clause_has_words(result: Result) -> None:
    """A clause may come from any result, and end in any."""
    for before, after in ((result, "pass"), ("pass", result)):
        (said,) = sentences([change("clause", "stdin.open", before, after, ())])
        assert said.startswith("`stdin.open` ")


def test_changes_of_one_kind_share_a_sentence() -> None:
    """New keys of a record are one sentence, and so are new options of a command; keys of other records are not."""
    keys = [change(Kind.RECORD, f"done: {key}", None, "string") for key in ("a", "b", "c")]
    other = change(Kind.RECORD, "start: a", None, "string")
    gone = [change(Kind.RECORD, kind, "", None) for kind in ("x", "y")]
    options = [change(Kind.OPTION, name, None, "", ("codex exec --help",)) for name in ("--a", "--b")]
    assert sentences([*options, *keys, other, *gone]) == (
        "Records `done` have the new keys `a`, `b` and `c` (first turn).",
        "Records `start` have the new key `a` (first turn).",
        "Records `x` and `y` are gone (first turn).",
        "Options `--a` and `--b` are new (`codex exec`).",
    )


def test_changes_in_other_places_are_sentences_of_their_own() -> None:
    """What was observed in one turn is not told of another."""
    keys = [change(Kind.RECORD, "done: a", None, "string"), change(Kind.RECORD, "done: b", None, "string", BOTH)]
    assert len(sentences(keys)) == 2


def test_what_matters_most_is_first() -> None:
    """The verdict leads, then clauses, then the output."""
    told = [
        change(Kind.HOST, "a.example", None, ""),
        change(Kind.RECORD, "done", None, ""),
        change("clause", "stdin.open", "pass", "fail"),
        change("verdict", "2.0.0", "compatible", "broken"),
    ]
    assert [said.split()[0] for said in sentences(told)] == ["It", "`stdin.open`", "Record", "It"]


def test_keys_of_records_without_a_kind_are_named_alone() -> None:
    """They come, go or change their type."""
    assert sentences([change(Kind.KEY, "stats.models", None, "object")]) == ("Key `stats.models` is new (first turn).",)
    (said,) = sentences([change(Kind.KEY, "stats", "object", "null|object")])
    assert said == "Key `stats` is null or object instead of object (first turn)."


def test_every_kind_of_fact_has_a_sentence() -> None:
    """A new kind of fact needs words."""
    without_value = [change(kind, "x", None, "") for kind in Kind if kind not in (Kind.EXIT_CODE, Kind.TOOL_CALL)]
    assert len(sentences(without_value)) == len(Kind) - 2


@each("outcome", get_args(CallOutcome))
def test_every_outcome_of_a_tool_call_has_words(outcome: str) -> None:
    """A tool call may come from any outcome, and to any."""
    for before, after in ((outcome, "executed"), ("executed", outcome), (None, outcome)):
        (said,) = sentences([change(Kind.TOOL_CALL, "Write", before, after)])
        assert said.startswith("A call of `Write` ")
