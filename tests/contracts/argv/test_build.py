from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from tests.contracts.invocations import (
    AUTO,
    CODEX,
    GEMINI,
    IFLOW,
    INTERACTIVE,
    OPENCODE,
    both,
    carried,
    every_engine,
)
from tests.contracts.releases import IDS, name_of, session_of
from tests.tables import each
from turngate import engine_names
from turngate.argv.auto_flags import AUTO_WORDS
from turngate.argv.build import (
    AutoFlagRefusedError,
    check_kept_prompt,
    first_turn,
    resumed_turn,
    sticky,
    without_guards,
)
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import Sticky
from turngate.errors import ContractError, RefusedError
from turngate.model import EngineSessionHandle, Mode, ModeName

_BY_ARGUMENT = tuple(channel for channel in IFLOW.launch.prompt if channel.via == "argument")


ARGUMENT_ONLY = replace(IFLOW, launch=replace(IFLOW.launch, prompt=_BY_ARGUMENT))


FLAGS = ("--yolo", "-y", "\ud800")  # no argument can hold the last one


OPAQUE = (
    "{ID}",
    "{id} ",
    "latest",
    "1",
    "ses_x",
    "not-a-session-id",
    "../x",
    "*",
    "[a]?",
    "{prompt}",
    "{handle}",
    "é" * 256,
)
UNSAFE = (
    *FLAGS,
    "-",
    "--last",
    "-{id}",
    "",
    " ",
    "\0",
    "{id}\n",
    "\n{id}",
    "{id}\x1b[0m",
    "{id}\x9b",
    "x" * 513,
    "é" * 257,
)


def test_codex_resume_in_full() -> None:
    """Options stand between `exec` and `resume`, the id before the prompt, and the prompt is on stdin."""
    built = resumed_turn(CODEX, "--yolo", INTERACTIVE, IDS["codex"], options=["-s", "read-only"], model="m")
    assert built.arguments == (
        *("exec", "--json", "--skip-git-repo-check", "--model", "m"),
        *("--config", 'approvals_reviewer="user"', "--ignore-rules", "-s", "read-only"),
        *("resume", IDS["codex"], "-"),
    )
    assert (built.stdin, built.prompt_at) == (b"--yolo", ())


@pytest.mark.parametrize("contract", [CODEX, GEMINI, OPENCODE], ids=name_of)
def test_large_prompt_travels_by_standard_input(contract: EngineContract) -> None:
    """A prompt of a megabyte goes to stdin where the engine reads it."""
    for built in both(contract, "x" * 2**20, INTERACTIVE):
        assert built.stdin == b"x" * 2**20
        assert max(map(len, built.arguments)) < 100


def test_prompt_longer_than_an_engine_takes_is_refused() -> None:
    """Characters count, not bytes: on the first turn, on a resume, and in a sticky process."""
    most = CODEX.launch.prompt[0].max_chars
    assert most == CODEX.sticky.max_chars == 2**20
    assert carried(first_turn(CODEX, "é" * most, INTERACTIVE)) == "é" * most
    check_kept_prompt(CODEX, "é" * most)
    said, too_long = "1048577 characters exceed the limit of 1048576", "é" * (most + 1)
    with pytest.raises(RefusedError, match=said):
        first_turn(CODEX, too_long, INTERACTIVE)
    with pytest.raises(RefusedError, match=said):
        resumed_turn(CODEX, too_long, INTERACTIVE, CODEX.handle.nonexistent_id)
    with pytest.raises(RefusedError, match=said):
        check_kept_prompt(CODEX, too_long)


def test_prompt_too_long_for_an_argument_is_refused() -> None:
    """Where a prompt must be an argument, its size in bytes is limited."""
    assert carried(first_turn(ARGUMENT_ONLY, "é" * 65_000, INTERACTIVE)) == "é" * 65_000
    with pytest.raises(RefusedError, match="131002 bytes exceed the limit of 131000"):
        first_turn(ARGUMENT_ONLY, "é" * 65_501, INTERACTIVE)


@each(
    "contract, prompt, why",
    [
        (CODEX, "", None),
        (CODEX, "-", None),
        (CODEX, "\0", None),
        (GEMINI, "", "rejects empty prompts"),
        (GEMINI, " \n", "rejects empty prompts"),
        (GEMINI, "/help", "leading slash"),
        (GEMINI, " @file", "leading @"),
        (GEMINI, "-y", None),
        (OPENCODE, "\t", "rejects empty prompts"),
        (IFLOW, "", "rejects an empty prompt"),
        (IFLOW, " /help", "leading slash"),
        (IFLOW, "-p", None),
        (ARGUMENT_ONLY, "-p", None),
        (ARGUMENT_ONLY, "a\0b", "NUL"),
        (CODEX, "\ud800", "not valid Unicode"),
        (GEMINI, "ok \udcff", "not valid Unicode"),
        (IFLOW, "\udfff" * 3, "not valid Unicode"),
    ],
)
def test_prompt_that_an_engine_would_alter_is_refused(contract: EngineContract, prompt: str, why: str | None) -> None:
    """A prompt is passed unchanged (no `why`) or rejected with the reason, on a first turn and on a resume."""
    if why is None:
        assert [carried(built) for built in both(contract, prompt, INTERACTIVE)] == [prompt, prompt]
        return
    with pytest.raises(RefusedError, match=why):
        first_turn(contract, prompt, AUTO)
    with pytest.raises(RefusedError, match=why):
        resumed_turn(contract, prompt, AUTO, session_of(contract))


def test_empty_prompt_of_codex_is_an_argument() -> None:
    """Codex rejects an empty stdin but accepts an empty argument."""
    built = first_turn(CODEX, "", INTERACTIVE)
    assert (built.arguments[-2:], built.stdin, built.own_arguments[-1]) == (("--", ""), None, "--")


def test_dash_is_never_codex_argument() -> None:
    """Codex reads `-` as stdin even after `--`, so this prompt always goes to stdin."""
    with pytest.raises(RefusedError, match="standard input"):
        first_turn(CODEX, "-", INTERACTIVE, via="argument")


def test_channel_that_the_engine_lacks_is_refused() -> None:
    """Stdin is rejected for an engine that reads prompts only from an argument."""
    with pytest.raises(RefusedError, match="doesn't accept prompts by stdin"):
        first_turn(ARGUMENT_ONLY, "hello", INTERACTIVE, via="stdin")


@every_engine
def test_an_id_that_can_not_be_passed_on_is_refused(contract: EngineContract) -> None:
    """A session id that is blank, a flag, not printable or too long never gets into an argv."""
    for handle in UNSAFE:
        value = handle.replace("{id}", session_of(contract))
        with pytest.raises(RefusedError, match="can't be passed") as refused:
            resumed_turn(contract, "hello", INTERACTIVE, value)
        assert refused.value.subject == value


@every_engine
def test_an_id_is_opaque(contract: EngineContract) -> None:
    """A session id of an unfamiliar shape is passed on unchanged, and never filled in."""
    session = session_of(contract)
    for handle in OPAQUE:
        value = handle.replace("{id}", session).replace("{ID}", session.upper())
        built = resumed_turn(contract, "hello", INTERACTIVE, value)
        assert sum(argument.endswith(value) for argument in built.own_arguments) == 1


@every_engine
def test_the_handle_of_a_turn_resumes_its_session(contract: EngineContract) -> None:
    """A handle object works like its value, and the contract of another engine rejects it."""
    session = session_of(contract)
    handle = EngineSessionHandle(contract.engine, contract.handle.handle_type, session, 1)
    built = resumed_turn(contract, "hello", AUTO, handle)
    assert built == resumed_turn(contract, "hello", AUTO, session)
    assert built.resumed == session
    other = replace(handle, engine="acme")
    with pytest.raises(RefusedError, match=f"{contract.engine} can't resume a session of acme"):
        resumed_turn(contract, "hello", AUTO, other)


@every_engine
def test_a_mode_can_be_written_as_text(contract: EngineContract) -> None:
    """A mode may be text; a mistyped one is an error."""
    session = session_of(contract)
    for mode in Mode:
        name: ModeName = "auto" if mode is AUTO else "interactive"
        assert first_turn(contract, "hello", name) == first_turn(contract, "hello", mode)
        assert resumed_turn(contract, "hello", name, session) == resumed_turn(contract, "hello", mode, session)
    for mistyped in ("Interactive", "interactve", ""):
        with pytest.raises(ValueError, match="is not a valid Mode"):
            first_turn(contract, "hello", mistyped)  # type: ignore[arg-type]


def test_options_are_kept_on_resume() -> None:
    """All options of the caller are in both argv, except those that a resume can't take."""
    options = ["--include-directories", "/a", "--include-directories=/b", "--session-id", IDS["gemini"], "-d"]
    first, again = both(GEMINI, "hello", AUTO, options=options)
    kept = [token for token in options if token not in ("--session-id", IDS["gemini"])]
    assert " ".join(options) in " ".join(first.own_arguments)
    assert " ".join(kept) in " ".join(again.own_arguments)
    assert "--session-id" not in again.own_arguments


def test_callers_own_choice_replaces_ours() -> None:
    """A model or sandbox in the caller's options replaces the default and is passed once."""
    built = first_turn(CODEX, "hello", AUTO, options=["-s", "read-only", "-m", "mine"], model="ours")
    assert built.own_arguments == ("exec", "--json", "--skip-git-repo-check", "-s", "read-only", "-m", "mine", "-")


@each(
    "contract, options, what",
    [
        (CODEX, ["--json"], "not a known option"),
        (CODEX, ["resume"], "not a known option"),
        (CODEX, ["--"], "not a known option"),
        (CODEX, ["-"], "not a known option"),
        (CODEX, [""], "not a known option"),
        (CODEX, ["-mgpt"], "not a known option"),
        (CODEX, ["--mod", "gpt"], "not a known option"),
        (CODEX, ["--model"], "needs a value"),
        (CODEX, ["--model", "--oss"], "needs a value"),
        (CODEX, ["--model", "a\0b"], "needs a value"),
        (CODEX, ["--model=a\0b"], "not a known option"),
        (CODEX, ["--model", "\ud800"], "needs a value"),
        (CODEX, ["--model=\ud800"], "not a known option"),
        (CODEX, ["--oss=true"], "takes no value"),
        (CODEX, ["--oss", "--oss"], "occurs twice"),
        (CODEX, ["--model", "a", "-m", "b"], "occurs twice"),
        (CODEX, ["--model=a", "--model=a"], "occurs twice"),
        (GEMINI, ["--sandbox=false"], "takes no value"),
        (GEMINI, ["--no-sandbox"], "not a known option"),
        (GEMINI, ["--resume", IDS["gemini"]], "not a known option"),
        (GEMINI, ["--prompt", "hello"], "not a known option"),
        (OPENCODE, ["--continue"], "not a known option"),
    ],
)
def test_option_that_can_not_be_placed_is_refused(contract: EngineContract, options: list[str], what: str) -> None:
    """An option that is unknown, lacks its value, or occurs twice is rejected by name, with a hint."""
    with pytest.raises(RefusedError, match=what) as refused:
        first_turn(contract, "hello", AUTO, options=options)
    assert refused.value.hint
    assert refused.value.subject in options


def test_repeatable_option_may_stand_twice() -> None:
    """Repeatable options keep the caller's order."""
    options = ["-c", "a=1", "--config=b=2"]
    assert " ".join(options) in " ".join(first_turn(CODEX, "hello", AUTO, options=options).own_arguments)


def test_callers_repeatable_option_never_replaces_ours() -> None:
    """What the contract denies stays denied, whatever else the caller denies."""
    grok = load.contract("grok").at()
    ours = grok.launch.interactive
    for options in (["--deny=WebFetch"], ["--deny", "Bash"]):
        built = first_turn(grok, "hello", INTERACTIVE, options=options)
        assert " ".join((*ours, *options)) in " ".join(built.own_arguments)


def test_file_name_of_any_bytes_can_be_passed() -> None:
    """A directory name that isn't valid UTF-8 is passed unchanged."""
    assert "/w/\udcff" in first_turn(CODEX, "hello", AUTO, options=["--cd", "/w/\udcff"]).own_arguments


@each("model", ["--yolo", "-y", "a\0", "\udbff"])
@every_engine
def test_model_that_is_no_name_is_refused(contract: EngineContract, model: str) -> None:
    """A model's name must be a valid option value."""
    with pytest.raises(RefusedError):
        first_turn(contract, "hello", AUTO, model=model)


def test_slots_in_values_are_not_filled() -> None:
    """Slots in the caller's text are not filled."""
    built = first_turn(CODEX, "{handle}{options}", AUTO, options=["--cd", "{prompt}"], model="{handle}", via="argument")
    assert built.arguments[-2:] == ("--", "{handle}{options}")
    assert {"{prompt}", "{handle}"} < set(built.own_arguments)


@pytest.mark.parametrize("build", ["start", "resume"])
def test_template_that_widens_is_never_filled_in_interactive(build: Literal["start", "resume"]) -> None:
    """If a contract's own template holds an auto-approve flag, turns are built only in mode auto."""
    document = deepcopy(load.contract("codex").document)
    document.data["launch"][build].insert(1, "--yolo")
    contract = load.Contract(document).at()
    given_ = (CODEX.handle.nonexistent_id,) if build == "resume" else ()
    made = resumed_turn if build == "resume" else first_turn
    with pytest.raises(ContractError, match="the template of codex passes --yolo in mode interactive"):
        made(contract, "hello", INTERACTIVE, *given_)
    assert made(contract, "hello", AUTO, *given_).arguments[1] == "--yolo"


def test_option_that_widens_is_refused_by_name() -> None:
    """The error names the option and says what to do."""
    with pytest.raises(RefusedError) as refused:
        first_turn(CODEX, "hello", INTERACTIVE, options=["--oss", "-s", "danger-full-access"])
    assert refused.value.subject == "-s danger-full-access"
    assert str(refused.value) == (
        "-s danger-full-access lets codex act without asking (remove it: only mode auto accepts it)"
    )


def test_refused_handle_is_reported_in_part_with_the_shape_that_is_meant() -> None:
    """The error shows the first eighty characters of the handle, and the hint says what a valid one looks like."""
    with pytest.raises(RefusedError) as refused:
        resumed_turn(CODEX, "hello", INTERACTIVE, "x" * 1000)
    why = f"'{'x' * 80}' and more is longer than 512 bytes"
    assert refused.value.what == f"the session id can't be passed to codex: {why}"
    assert refused.value.hint == f"a session id of codex usually matches {CODEX.handle.shape}"


def test_prompt_that_no_way_carries_is_refused_with_every_reason() -> None:
    """The error lists, for each channel, why it can't carry the prompt; an argument of exactly the limit fits."""
    assert carried(first_turn(ARGUMENT_ONLY, "x" * 131_000, INTERACTIVE)) == "x" * 131_000
    with pytest.raises(RefusedError) as refused:
        first_turn(OPENCODE, " ", INTERACTIVE)
    empty = "opencode rejects empty prompts"
    quoted = "opencode puts quotes around an argument that contains a space"
    assert refused.value.what == f"opencode can't receive this prompt unaltered: {empty}; {empty}; {quoted}"
    assert refused.value.hint == "change the prompt"
    with pytest.raises(RefusedError) as refused:
        first_turn(OPENCODE, "\ud800", INTERACTIVE)
    assert refused.value.hint


def test_options_stand_where_the_template_says() -> None:
    """Options of the mode come first, then the model and the caller's options; the caller's model wins."""
    claude = load.contract("claude").at()
    assert claude.sticky.interactive is not None
    asking = claude.sticky.interactive.options
    built = sticky(claude, Mode.INTERACTIVE, options=("--add-dir", "x"), model="m-1", workspace=Path("/w"))
    assert built[-len(asking) - 4 :] == (*asking, "--model", "m-1", "--add-dir", "x")
    own = sticky(claude, Mode.INTERACTIVE, options=("--model", "mine"), model="m-1")
    assert own[-len(asking) - 2 :] == (*asking, "--model", "mine")
    assert claude.sticky.auto is not None
    assert claude.sticky.auto.options != asking
    in_auto = sticky(claude, Mode.AUTO, model="m-1")
    assert in_auto[-len(claude.sticky.auto.options) - 2 :] == (*claude.sticky.auto.options, "--model", "m-1")


@pytest.mark.parametrize(
    "mode, options, what",
    [
        (Mode.INTERACTIVE, ("--sandbox", "danger-full-access"), "without asking"),
        (Mode.AUTO, ("--sandbox", "read-only"), "a sticky codex doesn't accept"),
        (Mode.AUTO, ("--what",), "not a known option"),
    ],
)
def test_an_option_that_a_kept_engine_can_not_take_is_refused(mode: Mode, options: tuple[str, ...], what: str) -> None:
    """An option that a sticky process can't take, or that widens approval in interactive, is an error."""
    with pytest.raises(RefusedError, match=what):
        sticky(load.contract("codex").at(), mode, options=options)


def test_an_engine_without_transport_is_not_sticky() -> None:
    """The error gives the reason why the engine can't be sticky."""
    codex = replace(load.contract("codex").at(), sticky=Sticky("none"))
    with pytest.raises(RefusedError, match="can't be sticky"):
        sticky(codex, Mode.AUTO)


def test_a_contract_that_widens_a_kept_engine_is_wrong() -> None:
    """Arguments in a contract that let the engine act without asking are an error in the contract."""
    codex = load.contract("codex").at()
    widened = replace(codex, sticky=replace(codex.sticky, argv=("app-server", "--yolo")))
    with pytest.raises(ContractError, match="--yolo"):
        sticky(widened, Mode.INTERACTIVE)
    assert sticky(widened, Mode.AUTO) == ("app-server", "--yolo")


def test_a_model_is_refused_if_no_option_chooses_it() -> None:
    """A model that a caller names is never left out in silence."""
    without = replace(IFLOW, launch=replace(IFLOW.launch, model=()))
    first_turn(without, "hi", "interactive")
    with pytest.raises(RefusedError, match="iflow has no option that chooses a model"):
        first_turn(without, "hi", "interactive", model="m")


def auto_words() -> Iterator[str]:
    """Return the rows of the table of docs/handles.md: what becomes of a caller's `--yolo` and `--full-auto`."""
    for name in engine_names():
        contract = load.contract(name).at()
        cells = []
        for word in AUTO_WORDS:
            with pytest.raises(AutoFlagRefusedError):
                first_turn(contract, "hello", INTERACTIVE, options=[word])
            try:
                built = first_turn(contract, "hello", AUTO, options=[word])
            except RefusedError as refused:
                cells.append("refused" if " ".join(contract.launch.auto) in refused.hint else "refused without a word")
            else:
                assert built == first_turn(contract, "hello", AUTO)
                cells.append("accepted")
        yield f"| {contract.title} | {cells[0]} | {cells[1]} | `{' '.join(contract.launch.auto)}` |"


def test_the_words_for_mode_auto_mean_what_it_passes() -> None:
    """Mode auto accepts the words that a release has, and passes the same without them; interactive refuses each."""
    page = (Path(__file__).parents[3] / "docs/handles.md").read_text("utf-8")
    assert "\n".join(auto_words()) in page
    older = load.contract("codex").at("0.146.1")
    assert first_turn(older, "hello", AUTO, options=["--full-auto"]) == first_turn(older, "hello", AUTO)
    free = without_guards(load.contract("qwen").at())
    assert "--yolo" in first_turn(free, "hello", AUTO, options=["--yolo"]).arguments
