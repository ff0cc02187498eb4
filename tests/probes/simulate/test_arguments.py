from pathlib import Path

import pytest

from tests.probes.simulate.played import SimulatedMachine, at_known_release, every_simulation
from tests.probes.simulate.vectors import REMEMBERED, Outcome, Vector, vectors
from tests.tables import each
from turngate import load_contract
from turngate.argv import build
from turngate.contract.engine_contract import EngineContract
from turngate.errors import RefusedError
from turngate.model import Mode
from turngate.process.turn_run import process_request
from turngate_probes.simulate.arguments import DEFAULT_MODEL, UsageProblem, in_plain_text, read, refusal

RECORDED = [(name, vector) for name in vectors() for vector in vectors()[name]]


@every_simulation
@each("mode", list(Mode))
@each("via", ["argument", "stdin"])
def test_a_first_turn_is_read_back_as_built(contract: EngineContract, mode: Mode, via: str) -> None:
    """The arguments of `first_turn` are parsed to the same prompt, channel, model and approval mode."""
    if all(channel.via != via for channel in contract.launch.prompt):
        with pytest.raises(RefusedError):
            build.first_turn(contract, "Which-colour?", mode, via=via)
        return
    model = f"{contract.hermetic.model}-1" if contract.launch.model else None
    built = build.first_turn(contract, "Which-colour?", mode, model=model, via=via)
    asked = read(contract, built.arguments)
    assert (asked.handle, asked.channel.via, asked.model) == (None, via, model or _default(contract))
    assert asked.prompt == (None if via == "stdin" else "Which-colour?")
    assert asked.auto == (mode is Mode.AUTO and bool(contract.launch.auto))


@every_simulation
def test_a_prompt_that_looks_like_an_option_widens_nothing(contract: EngineContract) -> None:
    """A prompt as an argument is no option, even if it is the one that approves everything."""
    if not contract.launch.auto or all(channel.via != "argument" for channel in contract.launch.prompt):
        return
    built = build.first_turn(contract, contract.launch.auto[0], Mode.INTERACTIVE, via="argument")
    assert not read(contract, built.arguments).auto


def test_a_supplied_file_is_known_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that makes Gemini ask widens nothing, another one of the same name does."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    gemini = at_known_release("gemini")
    built = process_request(build.first_turn(gemini, "hi", Mode.INTERACTIVE), Path("/gemini"), tmp_path, env={})
    other = [token.replace(str(tmp_path), "/elsewhere/x") for token in built.argv[1:]]
    assert not read(gemini, built.argv[1:]).auto
    assert read(gemini, [token.replace("/ask.toml", "/../ask.toml") for token in other]).auto


@every_simulation
def test_a_resume_is_read_back_as_built(contract: EngineContract) -> None:
    """The arguments of `resumed_turn` are parsed to the same session id, even an invalid one."""
    for handle in (contract.handle.nonexistent_id, "not-a-session-id"):
        options, model = (["--model=m"], "m") if contract.launch.model else ([], _default(contract))
        built = build.resumed_turn(contract, "blue", Mode.INTERACTIVE, handle, options=options)
        asked = read(contract, built.arguments)
        assert (asked.handle, asked.model, asked.auto) == (handle, model, False)


@every_simulation
def test_without_a_model_option_there_is_a_default(contract: EngineContract) -> None:
    """Without a model option, the model is the release's own, or the one in the contract's setup."""
    assert read(contract, build.first_turn(contract, "hi", Mode.INTERACTIVE).arguments).model == _default(contract)


def _default(contract: EngineContract) -> str:
    return DEFAULT_MODEL if contract.hermetic.default_model else contract.hermetic.model


@every_simulation
@each("extra", ["--no-such-option", "-Z"])
def test_arguments_beyond_the_templates_are_refused(contract: EngineContract, extra: str) -> None:
    """An argument that the contract doesn't know is a usage error that names it."""
    with pytest.raises(UsageProblem, match=extra):
        read(contract, [*contract.launch.start[: contract.launch.start.index("{options}")], extra])


def test_an_option_without_its_value_is_refused() -> None:
    """An option without its value, at the end, leaves no prompt."""
    with pytest.raises(UsageProblem, match="missing"):
        read(at_known_release("codex"), ["exec", "--json", "--skip-git-repo-check", "--model"])


@every_simulation
def test_a_prompt_that_the_contract_refuses_is_refused(contract: EngineContract) -> None:
    """An empty prompt on stdin, or as iFlow's argument, is rejected with the contract's reason."""
    channel = contract.launch.prompt[0]
    assert refusal(channel, "hello") is None
    assert refusal(channel, " ") == next((r.why for r in channel.refuses), None)


@each("engine, vector", RECORDED, shown=lambda value: value if isinstance(value, str) else value.name)
def test_arguments_do_what_they_do_with_the_real_cli(engine: str, vector: Vector, tmp_path: Path) -> None:
    """The simulator accepts and refuses the arguments as recorded of the real release, with the same message."""
    contract, machine = at_known_release(engine), SimulatedMachine(tmp_path)
    for folder in ("work", "other"):
        (tmp_path / folder).mkdir()
    handle = machine.start(contract, REMEMBERED).session(contract)
    argv = vector.filled(work=tmp_path / "work", other=tmp_path / "other", handle=handle)
    played = machine.call(contract, argv, vector.stdin.encode())
    said = [m for m in played.requests[0].messages if m["role"] == "user"] if played.requests else None
    texts = tuple(str(message["content"]) for message in said) if said is not None else None
    model = played.requests[0].model if played.requests else None
    Outcome(played.exit_code, played.stdout.decode(), played.stderr.decode(), model, texts).assert_is(vector)


@each(
    "engine, argv, plain",
    [
        ("claude", ("--print", "hello"), True),
        ("claude", ("--print", "--output-format", "json", "hello"), False),
        ("claude", ("--print", "--verbose", "--output-format", "stream-json", "hello"), False),
        ("gemini", ("-p", "hello"), True),
        ("codex", ("exec", "hello"), False),
        ("codex", ("exec", "--json", "hello"), False),
        ("codex", ("exec", "--no-such-option", "hello"), False),
    ],
)
def test_a_plain_text_is_one_that_no_output_mode_describes(engine: str, argv: tuple[str, ...], *, plain: bool) -> None:
    """The contract of Codex describes its text."""
    assert in_plain_text(load_contract(engine), argv) is plain
