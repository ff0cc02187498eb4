"""Checks of options, prompts and stdin, on hand-made turns."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.contract import load
from turngate.contract.launch import PromptChannel
from turngate.model import Mode
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.clauses.prompt import acts_unasked
from turngate_probes.harness.cases import FORGED, IMITATION, LONG_ANSWER
from turngate_probes.harness.driver import QUESTION
from turngate_probes.harness.observations import NotObservedError, Turn
from turngate_probes.stub_model import Exchange

AUTO = (t.turn("auto/first", mode=Mode.AUTO), t.resumed("auto/again", "auto/first", mode=Mode.AUTO))
STDIN_ALONE = replace(t.CODEX, launch=replace(t.CODEX.launch, prompt=(PromptChannel("stdin", ("-",)),)))


def flag(name: str, prompt: str, arrived: str | None, **changes: Any) -> Turn:
    """Return a turn with this prompt; the model received `arrived`."""
    requests = () if arrived is None else (t.exchange(texts=("You are codex.", arrived)),)
    return t.turn(name, prompt=prompt, nonce="", **{"requests": requests} | changes)


def showing(name: str, sandbox: str, **changes: Any) -> Turn:
    """Return a turn whose request tells the model about its sandbox."""
    body = f"`sandbox_mode` is `{sandbox}`".encode()
    return t.turn(name, requests=(t.exchange(t.nonce(name), body=body),), **changes)


def imitating(stdout: bytes | None = None, **changes: Any) -> Turn:
    """Return the turn in which the model imitates the protocol."""
    stdout = t.printed(t.ANOTHER, IMITATION) if stdout is None else stdout
    return t.turn("imitation/first", stdout, **{"scripted": IMITATION} | changes)


def test_interactive_turns_without_auto_flags_pass() -> None:
    """Interactive turns without auto-approve flags pass; turns in auto mode are not checked."""
    widened = t.turn("auto/first", mode=Mode.AUTO, own_arguments=("exec", "--yolo"))
    finding = t.check("interactive.no-auto-flags", t.turn("main/first"), t.resumed("main/again"), widened)
    assert finding.ok
    assert finding.detail == "2 interactive turns"


@pytest.mark.parametrize(
    "own",
    [("exec", "--yolo"), ("exec", "-s", "workspace-write"), ("exec", "-c", "approval_policy=never")],
    ids=" ".join,
)
def test_an_auto_flag_in_any_interactive_turn_fails(own: tuple[str, ...]) -> None:
    """An auto-approve flag in any interactive turn fails, in every spelling."""
    widened = t.resumed("later-minute/a-again", own_arguments=own)
    finding = t.check("interactive.no-auto-flags", t.turn("main/first"), widened)
    assert (finding.ok, finding.evidence) == (False, ("later-minute/a-again",))


def test_a_request_that_shows_wide_approval_fails() -> None:
    """An interactive request that shows wide approval fails, whatever the argv is."""
    narrow, wide = showing("main/first", "read-only"), showing("main/again", "danger-full-access")
    assert t.check("interactive.no-auto-flags", narrow).ok
    finding = t.check("interactive.no-auto-flags", narrow, wide)
    assert (finding.ok, finding.evidence) == (False, ("main/again",))
    assert "danger-full-access" in finding.detail


def test_auto_flags_that_change_nothing_fail() -> None:
    """In auto mode a request that still shows narrow approval fails; wide approval passes."""
    wide, narrow = (showing("auto/first", said, mode=Mode.AUTO) for said in ("workspace-write", "read-only"))
    assert t.check("auto.flags-accepted", wide, AUTO[1]).ok
    finding = t.check("auto.flags-accepted", narrow, AUTO[1])
    assert (finding.ok, "shows no effect" in finding.detail) == (False, True)


def test_a_prompt_that_looks_like_a_flag_is_none() -> None:
    """A prompt that looks like an auto-approve flag does not count as one."""
    argv = ("/opt/codex", "exec", "--", "--yolo")
    asked = t.turn("main/first", argv=argv, own_arguments=("exec", "--"))
    assert t.check("interactive.no-auto-flags", asked).ok


@pytest.mark.parametrize("turn", [t.refused("main/first"), t.turn("main/first", t.printed(text=None))])
def test_an_engine_that_gives_no_answer_without_auto_flags_fails(turn: Turn) -> None:
    """An engine that gives no answer without auto-approve flags fails."""
    assert not t.check("interactive.no-auto-flags", turn).ok


def test_accepted_auto_flags_pass() -> None:
    """Two good turns in auto mode pass, and the detail names the flags."""
    assert t.check("auto.flags-accepted", *AUTO).detail == "accepted: --sandbox workspace-write"


@pytest.mark.parametrize(
    "turns",
    [
        (t.refused("auto/first"),),
        (AUTO[0], t.refused("auto/again")),
        (t.turn("auto/first", requests=()), AUTO[1]),
    ],
    ids=["first refused", "resume refused", "never sent"],
)
def test_refused_auto_flags_fail(turns: tuple[Turn, ...]) -> None:
    """Rejected auto-approve flags fail, even if no second turn was run."""
    assert not t.check("auto.flags-accepted", *turns).ok


def test_prompts_like_flags_that_arrive_pass() -> None:
    """A prompt passes if it is a user text in the request, or a line of one."""
    turns = (
        flag("flag-prompts/first", "--help", "--help\n"),
        flag("flag-prompts/again", "--yolo", "<context>\n--yolo"),
    )
    assert t.check("prompt.not-a-flag", *turns).ok
    between = flag("flag-prompts/first", "--help", "<time>\n\n--help\n\n<reminder>")
    assert t.check("prompt.not-a-flag", between, turns[1]).ok


@each("arrived", [None, "", "help", "say --help", "--help me", "<time>\n--help me\n<reminder>"])
def test_a_prompt_like_a_flag_that_does_not_arrive_fails(arrived: str | None) -> None:
    """A turn without a request, or without the exact prompt in it, fails."""
    finding = t.check("prompt.not-a-flag", flag("flag-prompts/first", "--help", arrived))
    assert (finding.ok, finding.evidence) == (False, ("flag-prompts/first",))


def test_a_reply_like_a_flag_must_arrive_too() -> None:
    """The prompt of a resumed turn must reach the model as well."""
    turns = (flag("flag-prompts/first", "--help", "--help"), flag("flag-prompts/again", "--yolo", None))
    assert t.check("prompt.not-a-flag", *turns).evidence == ("flag-prompts/again",)


def test_a_large_prompt_is_not_sent_if_the_contract_limits_prompts() -> None:
    """If no way to pass a prompt carries 200 KB, the clause is skipped."""
    limited = tuple(replace(channel, max_bytes=99_000) for channel in t.CODEX.launch.prompt)
    contract = replace(t.CODEX, launch=replace(t.CODEX.launch, prompt=limited))
    with pytest.raises(SkippedError, match="limits prompts"):
        t.check("prompt.large", contract=contract)


def test_a_large_prompt_must_arrive_whole() -> None:
    """A large prompt must reach the model completely; the detail says what was sent instead."""
    text = "x" * 1000
    assert t.check("prompt.large", flag("large-prompt/first", text, text)).ok
    cut = t.check("prompt.large", flag("large-prompt/first", text, text[:900]))
    assert (cut.ok, cut.detail) == (False, "1000 characters were not sent completely; the largest request has 2 bytes")
    refused = t.refused("large-prompt/first", stderr=b"Argument list too long")
    assert "Argument list too long" in t.check("prompt.large", refused).detail


SENT = "  tgn-first é 你\r\nbelow\u2028it\n\tindented  "


def whole(name: str, arrived: str | None = SENT, answer: str | None = LONG_ANSWER, **changes: Any) -> Turn:
    """Return a turn with a prompt of odd lines; the model received `arrived`, the caller read `answer`."""
    word = "tgn-first" if "first" in name else "tgn-again"
    requests = () if arrived is None else (t.exchange(word, texts=("Hello.", arrived.replace("tgn-first", word))),)
    usual = {"prompt": SENT.replace("tgn-first", word), "nonce": word, "requests": requests, "scripted": LONG_ANSWER}
    return t.turn(name, t.printed(text=answer), **usual | changes)


@each(
    "arrived, symptoms",
    [
        (SENT, None),
        (f"<hint>x</hint>\n{SENT}\n\n<end>", None),
        (SENT.strip(), ("blanks",)),
        (SENT.replace("\r\n", "\n"), ("lines",)),
        (" ".join(SENT.split()), ("lines",)),
        (SENT.replace("é", "?").replace("你", "?"), ("characters",)),
        (SENT.encode().decode("latin-1"), ("characters",)),
        (SENT.splitlines()[0], ("cut",)),
        (None, ()),
    ],
)
def test_what_a_prompt_loses_is_told(arrived: str | None, symptoms: tuple[str, ...] | None) -> None:
    """A prompt, and a reply, must reach the model as it was written; the symptom is the worst that happened to it."""
    for turns in (
        (whole("large-prompt/first", arrived), whole("large-prompt/again", resumed=t.SESSION)),
        (whole("large-prompt/first"), whole("large-prompt/again", arrived, resumed=t.SESSION)),
    ):
        finding = t.check("prompt.whole", *turns)
        assert (finding.ok, finding.symptoms) == (symptoms is None, symptoms or ())


@each(
    "answer, symptoms",
    [
        (LONG_ANSWER, None),
        (f"\n{LONG_ANSWER} ", None),
        (LONG_ANSWER[:65_536], ("cut",)),
        (LONG_ANSWER[-65_536:], ("cut",)),
        (None, ("cut",)),
        (LONG_ANSWER.replace("\r\n", "\n"), ("lines",)),
        (LONG_ANSWER.replace("\u2028", ""), ("lines",)),
        # the whole of it, in records that were read as text
        (json.dumps(LONG_ANSWER), ("lines",)),
        (json.dumps(LONG_ANSWER, ensure_ascii=False), ("lines",)),
        (LONG_ANSWER.encode("ascii", "replace").decode(), ("characters",)),
        (LONG_ANSWER[::-1].replace("你", "\ufffd\ufffd", 1)[::-1], ("characters",)),
    ],
)
def test_what_an_answer_loses_is_told(answer: str | None, symptoms: tuple[str, ...] | None) -> None:
    """An answer must be read as the model wrote it; the symptom is the worst that happened to it."""
    finding = t.check("answer.whole", whole("large-prompt/first", answer=answer))
    assert (finding.ok, finding.symptoms) == (symptoms is None, symptoms or ())


def test_an_answer_in_a_file_must_be_whole() -> None:
    """Where turns get a file, a cut in a pipe has a symptom, and a cut in the file has none: nothing would help."""
    contract = replace(t.CODEX, streams=replace(t.CODEX.streams, stdout_file=True))
    cut, good = LONG_ANSWER[:1000], LONG_ANSWER
    for file, pipe, ok, symptoms in ((good, good, True, ()), (good, cut, False, ("cut",)), (cut, good, False, ())):
        turns = whole("large-prompt/first", answer=file), whole("large-prompt/again", answer=pipe, resumed=t.SESSION)
        finding = t.check("answer.whole", *turns, contract=contract)
        assert (finding.ok, finding.symptoms) == (ok, symptoms)


@pytest.mark.parametrize("clause", ["prompt.whole", "answer.whole"])
def test_recordings_without_a_long_answer_show_nothing(clause: str) -> None:
    """A recorded turn with another prompt and answer is no observation of either."""
    with pytest.raises(NotObservedError, match="has no long answer"):
        t.check(clause, t.turn("large-prompt/first"))


def test_open_stdin_is_told_by_its_end() -> None:
    """With stdin open, a good turn passes, a hang has a symptom, and other failures have none."""
    good, hung, bad = (
        t.check("stdin.open", turn)
        for turn in (t.turn("stdin-open/first"), t.hung("stdin-open/first"), t.refused("stdin-open/first"))
    )
    assert good.ok
    assert (hung.ok, hung.symptoms) == (False, ("hang",))
    assert (bad.ok, bad.symptoms) == (False, ())


def test_open_stdin_is_no_question_where_prompts_travel_by_it() -> None:
    """The clause is skipped for an engine that reads prompts only from stdin."""
    with pytest.raises(SkippedError, match="only on standard input"):
        t.check("stdin.open", contract=STDIN_ALONE)


def test_imitation_that_changes_nothing_passes() -> None:
    """A turn with the engine's own id and the model's unchanged text passes."""
    assert t.check("text.imitation", imitating()).ok


def test_an_id_of_another_home_is_no_imitation() -> None:
    """An id that a session of another case has too passes: each case has a home of its own."""
    assert t.check("text.imitation", t.turn("main/first"), imitating(t.printed(t.SESSION, IMITATION))).ok


@pytest.mark.parametrize(
    "turn, detail",
    [
        (imitating(t.printed(t.ANOTHER, IMITATION) + t.printed(FORGED, None)), "no session id could be read"),
        (imitating(t.printed(FORGED, IMITATION)), "comes from the model's text"),
        (imitating(t.printed(t.ANOTHER, "Done.")), "differs from the model's"),
        (imitating(t.printed(t.ANOTHER, IMITATION, "forged")), "no session id could be read"),
        (imitating(t.printed(t.ANOTHER), scripted=QUESTION), "read as a question"),
    ],
    ids=["second id", "forged id", "text cut", "forged failure", "question"],
)
def test_imitation_that_moves_something_fails(turn: Turn, detail: str) -> None:
    """The clause fails if the imitation changes the id, the text, the failure or the outcome."""
    finding = t.check("text.imitation", turn)
    assert not finding.ok
    assert detail in finding.detail


@pytest.mark.parametrize("clause", ["prompt.not-a-flag", "prompt.large"])
def test_what_arrived_in_a_recording_is_unknown(clause: str) -> None:
    """Without recorded requests the clause is not run."""
    turn = t.turn("flag-prompts/first" if "flag" in clause else "large-prompt/first", requests=None)
    with pytest.raises(NotObservedError):
        t.check(clause, turn)


GEMINI = load.contract("gemini").at("0.61.0")


@each(
    "requests, shown",
    [
        ((t.exchange(tools=("read_file", "write_file", "replace")),), "write_file, replace"),
        ((t.exchange(tools=("read_file",)), t.exchange(tools=("run_shell_command",))), "run_shell_command"),
        ((t.exchange(tools=("read_file",)), t.exchange(tools=())), ""),
        ((t.exchange(tools=()),), None),
        ((), None),
    ],
)
def test_tools_show_the_approval(requests: tuple[Exchange, ...], shown: str | None) -> None:
    """Offered tools that write show approval, only reading tools show none, and without tools it is unknown."""
    assert acts_unasked(t.turn("main/first", requests=requests), GEMINI) == shown


def test_unwatched_requests_show_nothing() -> None:
    """Without recorded requests the approval is unknown."""
    assert acts_unasked(t.turn("main/first", requests=None), GEMINI) is None
