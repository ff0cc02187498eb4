"""Conversations: turn, question, answer and resume, until the agent is done."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from turngate.argv.build import first_turn, resumed_turn
from turngate.argv.environment import engine_environment
from turngate.argv.trust import NO_TRUST, Trust
from turngate.contract.engine_contract import EngineContract
from turngate.model import AdapterTurnResult, EngineSessionHandle, Interaction, Mode
from turngate.process.execution import ProcessRequest, Stop
from turngate.process.turn_run import TIMEOUT, TurnRun, process_request, run_turn, run_turn_async
from turngate.turn.mode_patch import mode_patch
from turngate.turn.read import TurnReader


class Conversation(Struct, frozen=True):
    """A conversation that has ended.

    `result` is that of the last turn: `final`, or an `error` with its reason. `handle` continues the session later
    (None: the last turn shows no session id). `turns` are all turns, in order.

    >>> turngate.Conversation.__struct_fields__
    ('result', 'handle', 'turns')
    """

    result: AdapterTurnResult
    handle: EngineSessionHandle | None
    turns: tuple[TurnRun, ...]


class ConversationSetup(Struct, frozen=True):
    """What all turns of a conversation share, as for `first_turn` and `process_request`.

    `timeout` is in seconds of wall time, for each turn. `env` is the environment of the engine (None: what
    `engine_environment` takes from that of this process). A turn that nothing makes safe is refused unless `trust`
    allows it.

    >>> from pathlib import Path
    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> turngate.ConversationSetup(codex, turngate.find_executable(codex), Path.cwd()).timeout
    1200.0
    """

    contract: EngineContract
    executable: Path
    workspace: Path
    options: Sequence[str] = ()
    model: str | None = None
    env: Mapping[str, str] | None = None
    timeout: float = TIMEOUT
    trust: Trust = NO_TRUST

    def turn(self, message: str, handle: EngineSessionHandle | None = None) -> tuple[ProcessRequest, TurnReader]:
        """Return the process that runs a turn with the user's message, and its reader; the errors of `first_turn`.

        RefusedError, too, if settings of the user or files of the workspace would let the engine act unasked.
        """
        env = engine_environment(self.contract, os.environ) if self.env is None else self.env
        self.trust.check(self.contract, Mode.INTERACTIVE, self.workspace, env)
        contract, rules = self.trust.applied(self.contract, self.workspace), mode_patch(Mode.INTERACTIVE)
        build = partial(first_turn, contract, f"{message}\n\n{rules}")
        if handle is not None:
            # words before the message keep engines from reading a leading `/` or `@` as a command
            prompt = f"The user's reply:\n\n{message}\n\n{rules}"
            build = partial(resumed_turn, contract, prompt, session=handle)
        built = build(mode=Mode.INTERACTIVE, options=self.options, model=self.model, workspace=self.workspace)
        request = process_request(built, self.executable, self.workspace, env=env, timeout=self.timeout)
        return request, TurnReader.for_turn(built)


def converse(
    setup: ConversationSetup,
    task: str,
    answer: Callable[[Interaction], str],
    *,
    handle: EngineSessionHandle | None = None,
    on_turn: Callable[[TurnRun], None] | None = None,
    stop: Stop | None = None,
) -> Conversation:
    """Run turns in mode interactive until the agent no longer asks, and return the conversation.

    `answer` gets each question and returns the user's reply, which the same session gets in a new process. To continue
    an earlier session, pass its `handle`; `task` is then the next message. `on_turn` gets each turn before its question
    is answered: store the session of its reading there, so that a crash loses nothing. The errors are those of
    `first_turn`, `process_request` and `run_turn`.

    >>> from pathlib import Path
    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> setup = turngate.ConversationSetup(codex, turngate.find_executable(codex), Path.cwd())
    >>> turngate.converse(setup, "Paint the door", lambda question: "red").result.final_data
    {'colour': 'red'}
    """
    turns, message = list[TurnRun](), task
    while True:
        turns.append(run_turn(*setup.turn(message, handle), stop=stop))
        if on_turn:
            on_turn(turns[-1])
        reading = turns[-1].reading
        handle, question = reading.session, reading.result.interaction
        if question is None or handle is None:
            return Conversation(reading.result, handle, tuple(turns))
        message = answer(question)


async def converse_async(
    setup: ConversationSetup,
    task: str,
    answer: Callable[[Interaction], Awaitable[str]],
    *,
    handle: EngineSessionHandle | None = None,
    on_turn: Callable[[TurnRun], None] | None = None,
) -> Conversation:
    """Run a conversation as `converse` does, without blocking the event loop; `answer` is awaited.

    If the awaiting task is canceled, the engine and everything that it started end first.

    >>> import asyncio
    >>> from pathlib import Path
    >>> async def answer(question: turngate.Interaction) -> str:
    ...     return question.options[0]
    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> setup = turngate.ConversationSetup(codex, turngate.find_executable(codex), Path.cwd())
    >>> asyncio.run(turngate.converse_async(setup, "Paint the door", answer)).result.final_data
    {'colour': 'red'}
    """
    import asyncio  # noqa: PLC0415 - slow to import; who awaits this has it

    turns, message = list[TurnRun](), task
    while True:
        # looks at every folder of the workspace, of which there may be many
        request, reader = await asyncio.to_thread(setup.turn, message, handle)
        turns.append(await run_turn_async(request, reader))
        if on_turn:
            on_turn(turns[-1])
        reading = turns[-1].reading
        handle, question = reading.session, reading.result.interaction
        if question is None or handle is None:
            return Conversation(reading.result, handle, tuple(turns))
        message = await answer(question)
