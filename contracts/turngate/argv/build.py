"""Builds the arguments and standard input of an engine for a first turn or a resume.

`without_guards` takes the guards from a contract, for runs that show what an engine does where nothing holds it back.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from turngate.argv.artifacts import check_artifacts
from turngate.argv.auto_flags import AUTO_WORDS, accepted_auto_words, auto_flags_in
from turngate.argv.file_marks import check_file_marks
from turngate.argv.interactive import PlacedOption, check_interactive, read_options
from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import Guards, Option, PromptChannel
from turngate.contract.session_ids import unsafe
from turngate.errors import ContractError, RefusedError
from turngate.model import EngineSessionHandle, Mode, ModeName


def without_guards(contract: EngineContract) -> EngineContract:
    """Return the contract with every option of its canaries and redirects declared, and without guards or modes."""
    declared = {name for option in contract.options for name in (option.flag, *option.aliases)}
    more = dict[str, Option]()
    offered = [(*canary.options, *canary.control.options) for canary in contract.canaries]
    for options in (*offered, *(redirect.control.options for redirect in contract.redirects)):
        for token, following in pairwise((*options, "-")):
            if token.startswith("-") and token not in declared:
                more[token] = Option(token, "none" if following.startswith("-") else "many")
    launch = replace(contract.launch, auto=(), interactive=(), interactive_env={})
    free = replace(contract, launch=launch, guards=Guards(), artifacts=None, instruction_files=())
    return replace(free, options=(*contract.options, *more.values()))


class AutoFlagRefusedError(RefusedError):
    """In mode interactive, the option `subject` of a caller would let the engine act without asking."""


class Invocation(Struct, frozen=True):
    """A turn that is ready to run: arguments after the executable, and bytes for standard input (None: closed).

    `prompt_at` lists the indexes in `arguments` of the tokens that contain the prompt. `resumed` is the session id that
    the turn resumes (None: it is a first turn). `env` are variables that the turn needs, whatever else
    is in its environment. In mode interactive it may write below `artifacts` (None: nothing).

    >>> turn = turngate.first_turn(turngate.load_contract("codex", "0.169.0"), "Paint the door", "auto")
    >>> turn.stdin, turn.prompt_at, turn.resumed
    (b'Paint the door', (), None)
    """

    contract: EngineContract
    mode: Mode
    arguments: tuple[str, ...]
    stdin: bytes | None
    prompt_at: tuple[int, ...]
    resumed: str | None
    env: Mapping[str, str] = field(default_factory=dict)
    artifacts: Path | None = None

    @property
    def own_arguments(self) -> tuple[str, ...]:
        """The arguments without the prompt."""
        return tuple(token for i, token in enumerate(self.arguments) if i not in self.prompt_at)


def first_turn(
    contract: EngineContract,
    prompt: str,
    mode: Mode | ModeName,
    *,
    options: Sequence[str] = (),
    model: str | None = None,
    via: str | None = None,
    workspace: Path | None = None,
    allow_file_marks: bool = False,
    artifacts: Path | None = None,
) -> Invocation:
    """Build a first turn, without running it.

    `options` are arguments for the engine, with flags and values as separate strings. `model` is a name that the engine
    knows. The prompt is passed through the first channel of the contract that can carry it, or only through `via`
    (`argument`, `stdin`). Mode interactive accepts only options that the contract allows, and only paths in
    `workspace`, after resolving symbolic links at the time of the call. There, a prompt in which a mark of the engine
    names a file outside `workspace` is refused unless `allow_file_marks` is true. There the engine may write below
    `artifacts`, an existing directory in `workspace`, and nowhere else. RefusedError: an option, its value, the prompt
    or the directory can't be passed safely, or the engine can't be held to the directory.

    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> turngate.first_turn(codex, "Paint the door", "auto", model="gpt-5").arguments
    ('exec', '--json', '--skip-git-repo-check', '--model', 'gpt-5', '--sandbox', 'workspace-write', '-')
    """
    mode = Mode(mode)
    if mode is Mode.INTERACTIVE and not allow_file_marks:
        check_file_marks(contract, prompt, workspace)
    placed = turn_options(contract, mode, options, model, workspace, artifacts)
    return _invocation(contract, prompt, mode, placed, via=via, artifacts=artifacts)


def resumed_turn(
    contract: EngineContract,
    prompt: str,
    mode: Mode | ModeName,
    session: EngineSessionHandle | str,
    *,
    options: Sequence[str] = (),
    model: str | None = None,
    workspace: Path | None = None,
    allow_file_marks: bool = False,
    artifacts: Path | None = None,
) -> Invocation:
    """Build a turn that resumes a session without running it.

    `session` is the `session` of the first turn's reading, or its `handle_value`. `options` and `model` are those of
    the first turn. RefusedError: as for `first_turn`, or the session belongs to another engine, or its id can't be
    passed on: it is blank, begins with a dash, has control characters or is longer than 512 bytes.

    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> turngate.resumed_turn(codex, "Blue", "interactive", "0198c6a1-6d70-7000-8000-000000000001").arguments[-3:]
    ('resume', '0198c6a1-6d70-7000-8000-000000000001', '-')
    """
    if isinstance(session, EngineSessionHandle) and session.engine != contract.engine:
        what = f"{contract.engine} can't resume a session of {session.engine}"
        raise RefusedError(what, f"use the contract of {session.engine}", session.engine)
    handle = session if isinstance(session, str) else session.handle_value
    if why := unsafe(handle):
        hint = f"a session id of {contract.engine} usually matches {contract.handle.shape}"
        raise RefusedError(f"the session id can't be passed to {contract.engine}: {why}", hint, handle)
    mode = Mode(mode)
    if mode is Mode.INTERACTIVE and not allow_file_marks:
        check_file_marks(contract, prompt, workspace)
    placed = turn_options(contract, mode, options, model, workspace, artifacts)
    return _invocation(contract, prompt, mode, placed, handle=handle, artifacts=artifacts)


def sticky(
    contract: EngineContract,
    mode: Mode,
    *,
    options: Sequence[str] = (),
    model: str | None = None,
    workspace: Path | None = None,
    files: Path | None = None,
) -> tuple[str, ...]:
    """Build the arguments of a sticky process; RefusedError if it doesn't accept an option.

    `files` is the folder with the files of the contract's permission mode.
    """

    def built(folder: Path | None) -> tuple[str, ...]:
        filling = {"{options}": sticky_options(contract, mode, options, model, workspace, folder)}
        return tuple(part for token in contract.sticky.argv for part in filling.get(token, (token,)))

    # a contract allows its own files by their slot, not by a path
    _assert_asks(contract, mode, built(None), f"a sticky {contract.engine} would be passed")
    return built(files)


def sticky_options(
    contract: EngineContract,
    mode: Mode,
    options: Sequence[str] = (),
    model: str | None = None,
    workspace: Path | None = None,
    files: Path | None = None,
) -> tuple[str, ...]:
    """Return the options that `sticky` passes for the mode, the model and the caller; RefusedError: as for `sticky`."""
    sticky = contract.sticky
    if sticky.transport == "none":
        raise RefusedError(f"{contract.engine} can't be sticky", "its contract names no transport")
    chosen, callers = _chosen(contract, mode, options, model if sticky.model == "argument" else None, (), workspace)
    for placed in callers:
        if placed.option.flag not in sticky.options:
            hint = "remove it, or use the profile `resumable`"
            raise RefusedError(f"a sticky {contract.engine} doesn't accept {placed.tokens[0]}", hint, placed.tokens[0])
    approval = sticky.interactive if mode is Mode.INTERACTIVE else sticky.auto
    ours = approval.options if approval else ()
    if files:
        ours = tuple(token.replace("{files}", str(files)) for token in ours)
    return (*ours, *(token for placed in (*chosen, *callers) for token in placed.tokens))


def turn_options(
    contract: EngineContract,
    mode: Mode,
    options: Sequence[str] = (),
    model: str | None = None,
    workspace: Path | None = None,
    artifacts: Path | None = None,
) -> tuple[PlacedOption, ...]:
    """Return the options that `first_turn` and `resumed_turn` place; RefusedError if a caller's option is rejected."""
    launch = contract.launch
    by_mode = launch.auto if mode is Mode.AUTO else launch.interactive
    if mode is Mode.INTERACTIVE and artifacts is not None:
        check_artifacts(contract, artifacts, workspace, options)
        by_mode = contract.artifacts.options if contract.artifacts else ()
    chosen, callers = _chosen(contract, mode, options, model, (*contract.guards.options, *by_mode), workspace)
    return (*chosen, *callers)


def _chosen(
    contract: EngineContract,
    mode: Mode,
    options: Sequence[str],
    model: str | None,
    by_mode: Sequence[str],
    workspace: Path | None,
) -> tuple[tuple[PlacedOption, ...], tuple[PlacedOption, ...]]:
    """Return the options for model and mode, and the caller's, which are checked.

    The caller's replace those of the same name, except options that can be repeated: there each one counts. In mode
    auto, `AUTO_WORDS` that the release has mean what `by_mode` passes.
    """
    if mode is Mode.INTERACTIVE and (found := auto_flags_in(options, contract)):
        hint = "remove it: only mode auto accepts it"
        raise AutoFlagRefusedError(f"{found[0]} lets {contract.engine} act without asking", hint, found[0])
    callers = read_options(contract, _without_auto_words(contract, mode, options), mode)
    if model is not None and not contract.launch.model:
        hint = f"choose it in the settings of {contract.engine}"
        raise RefusedError(f"{contract.engine} has no option that chooses a model", hint, model)
    named = [token.replace("{model}", model) for token in contract.launch.model] if model is not None else []
    chosen = read_options(contract, named, mode)
    if mode is Mode.INTERACTIVE:
        # the contract itself has the place for a model; what it allows of the option holds for the name too
        check_interactive(contract, (*(p for p in chosen if p.option.interactive), *callers), workspace)
    given = {placed.option.flag for placed in callers}
    ours = (*chosen, *read_options(contract, by_mode))
    return tuple(placed for placed in ours if placed.option.value == "many" or placed.option.flag not in given), callers


def _without_auto_words(contract: EngineContract, mode: Mode, options: Sequence[str]) -> list[str]:
    """Return a caller's options without `AUTO_WORDS`, which mode auto replaces; RefusedError if one has no place."""
    kept = []
    for word in options:
        # a contract without options for mode auto, such as an unchecked one, replaces none
        if word not in AUTO_WORDS or not (contract.launch.auto or mode is Mode.INTERACTIVE):
            kept.append(word)
        elif mode is Mode.INTERACTIVE:
            hint = "remove it: only mode auto acts without asking"
            raise AutoFlagRefusedError(f"{word} is not a known option of {contract.engine}", hint, word)
        elif word not in accepted_auto_words(contract):
            hint = f"remove it: mode auto passes {' '.join(contract.launch.auto)}"
            raise RefusedError(f"{word} is not a known option of {contract.engine}", hint, word)
    return kept


def check_kept_prompt(contract: EngineContract, prompt: str) -> None:
    """Raise RefusedError if a prompt is longer than a sticky process takes."""
    if contract.sticky.max_chars is not None and len(prompt) > contract.sticky.max_chars:
        what = f"{len(prompt)} characters exceed the limit of {contract.sticky.max_chars} of a sticky {contract.engine}"
        raise RefusedError(what, "shorten the prompt")


def _invocation(
    contract: EngineContract,
    prompt: str,
    mode: Mode,
    placed: Sequence[PlacedOption],
    *,
    handle: str | None = None,
    via: str | None = None,
    artifacts: Path | None = None,
) -> Invocation:
    """Fill the template of a first turn, or of a resumed one if a handle is given."""
    launch = contract.launch
    template = launch.start if handle is None else launch.resume
    channel = prompt_channel(contract, prompt, via)
    arguments: list[str] = []
    prompt_at: list[int] = []
    for token in template:
        if token == "{prompt}":
            prompt_at += [len(arguments) + i for i, part in enumerate(channel.tokens) if "{text}" in part]
            arguments += [part.replace("{text}", prompt) for part in channel.tokens]
        elif token == "{options}":
            arguments += [t for p in placed if handle is None or p.option.on_resume == "keep" for t in p.tokens]
        else:
            arguments.append(token.replace("{handle}", handle or ""))
    stdin = prompt.encode() if channel.via == "stdin" else None
    if handle is not None and not any("{handle}" in token for token in template):
        raise ContractError(
            f"the resume template of {contract.engine} has no slot for the session id", hint="add {handle}"
        )
    if stdin is None and not prompt_at:
        raise ContractError(f"the template of {contract.engine} has no slot for the prompt", hint="add {prompt}")
    env = launch.interactive_env if mode is Mode.INTERACTIVE else {}
    artifacts = artifacts if mode is Mode.INTERACTIVE else None
    built = Invocation(contract, mode, tuple(arguments), stdin, tuple(prompt_at), handle, env, artifacts)
    _assert_asks(contract, mode, built.own_arguments, f"the template of {contract.engine} passes")
    return built


def _assert_asks(contract: EngineContract, mode: Mode, arguments: Sequence[str], who: str) -> None:
    """Raise ContractError if an engine in mode interactive would be allowed to act without asking."""
    if mode is Mode.INTERACTIVE and (found := auto_flags_in(arguments, contract)):
        raise ContractError(f"{who} {found[0]} in mode interactive")


def prompt_channel(contract: EngineContract, prompt: str, via: str | None = None) -> PromptChannel:
    """Return the first channel that carries the prompt unaltered; RefusedError if none does."""
    try:
        size = len(prompt.encode())
    except UnicodeEncodeError:
        raise RefusedError("the prompt is not valid Unicode text", "it contains an unpaired surrogate") from None
    reasons = []
    for channel in contract.launch.prompt:
        if via is not None and channel.via != via:
            continue
        refusals = [r.why for r in channel.refuses if re.search(r.pattern, prompt)]
        if channel.max_bytes is not None and size > channel.max_bytes:
            refusals.append(f"{size} bytes exceed the limit of {channel.max_bytes} for {channel.via}")
        if channel.max_chars is not None and len(prompt) > channel.max_chars:
            refusals.append(f"{len(prompt)} characters exceed the limit of {channel.max_chars} for {channel.via}")
        if channel.via == "argument" and "\0" in prompt:
            refusals.append("arguments can't contain NUL characters")
        if not refusals:
            return channel
        reasons += refusals
    why = "; ".join(reasons) or f"it doesn't accept prompts by {via}"
    raise RefusedError(f"{contract.engine} can't receive this prompt unaltered: {why}", "change the prompt")
