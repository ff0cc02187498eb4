"""A client of a simulated engine in the test's own process; it answers each message as it comes."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from typing import Any, Literal

from tests.probes.simulate.played import HungError, hang
from turngate.argv import build
from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import PermissionMode, Stream
from turngate.model import Mode
from turngate_probes.simulate.backend import Answer, Called, EngineContext, ModelRequest
from turngate_probes.simulate.engine import run
from turngate_probes.simulate.faults import NONE, Faults

Message = dict[str, Any]
LONGEST = 60.0  # seconds for an answer
ENGINES = ("codex", "gemini", "opencode", "claude", "qwen", "iflow")


def calls(contract: EngineContract, tool: str | None = None) -> Called:
    """Return a model's call of the contract's tool, or of another one, with a path below the working directory."""
    known = contract.hermetic.tool_call
    assert known
    arguments = json.dumps(dict(known.arguments)).replace("{work}/", "")
    function = {"name": tool or known.name, "arguments": arguments}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "call-1", "function": function}]}
    return Called(tool or known.name, "call-1", message)


@dataclass
class RawClient:
    """Opens a session, prompts, decides each permission request, and closes the input.

    It sends nothing before the engine has answered the last message, or the turn that it began is over, and decides
    only once `together` requests are open: the engine reads its input in another thread, and a conversation must not
    depend on which of its threads is faster.

    The model gives `answers` in order, then `ok`. The engine is started and configured as the contract says for mode
    interactive, unless the test sets another permission mode. `lines` are messages to send before the prompts. `sent`
    has the methods of requests by their ids, `asked_for` is the number of permission requests.
    """

    contract: EngineContract
    root: Path
    answers: Sequence[Answer] = ()
    prompts: Sequence[str] = ("first", "again")
    allow: bool = True
    faults: Faults = NONE
    approval: PermissionMode | None = None
    lines: Sequence[bytes] = ()
    said: list[Message] = field(default_factory=list)
    asked: list[ModelRequest] = field(default_factory=list)
    sent: dict[object, str] = field(default_factory=dict)
    stderr: bytes = b""
    noise: int = 0
    together: int = 1
    asked_for: int = 0
    _open: list[Message] = field(default_factory=list)
    _heard: Condition = field(default_factory=Condition)
    _is_over: bool = False

    @property
    def work(self) -> Path:
        """The directory of the session."""
        return self.root / "work"

    @property
    def touched(self) -> bool:
        """Whether the tool has created its file."""
        return (self.work / "touched.txt").exists()

    @property
    def requests(self) -> list[list[Any]]:
        """The contents of all messages of each request to the model."""
        return [[message["content"] for message in request.messages] for request in self.asked]

    def run(self, *more: str) -> int | Literal["hangs"]:
        """Run the conversation, and return the engine's exit code."""
        self.work.mkdir(parents=True, exist_ok=True)
        answers = iter(self.answers)

        def backend(request: ModelRequest) -> Answer:
            self.asked.append(ModelRequest(request.model, tuple(request.messages), request.tools))
            return next(answers, "ok")

        env = {"HOME": str(self.root / "home"), **self._stance.env}
        world = EngineContext(
            env=env,
            cwd=str(self.work),
            stdin=_Input(self._script()),
            write=self._hear,
            hang=hang,
            clock=lambda: 0.0,
            backend=backend,
            faults_in=lambda *_: self.faults,
        )
        built = build.sticky(self.contract, Mode.INTERACTIVE)
        plain = self.contract.sticky.interactive or PermissionMode()
        rest = built[: len(built) - len(plain.options)] if plain.options else built
        try:
            return run(self.contract, (*rest, *self._stance.options, *more), world)
        except HungError:
            return "hangs"
        finally:
            with self._heard:
                self._is_over = True
                self._heard.notify()

    def kinds(self) -> list[str]:
        """Name each message that the engine sent."""
        return [str(message.get("method") or message.get("type") or "answer") for message in self.said]

    def texts(self) -> list[str]:
        """Return what the agent said, one text per turn."""
        if self.contract.sticky.transport == "app_server":
            items = [message["params"]["item"] for message in self.said if message.get("method") == "item/completed"]
            return [item["text"] for item in items if item["type"] == "agentMessage"]
        if self.contract.sticky.transport == "stream_json":
            return [message["result"] for message in self.said if message.get("type") == "result"]
        updates = [message.get("params", {}).get("update", {}) for message in self.said]
        said = "".join(
            update["content"]["text"] for update in updates if update.get("sessionUpdate") == "agent_message_chunk"
        )
        return [said]

    def ids(self) -> list[str]:
        """Return the session ids that the engine reported, in order."""
        key = {"acp": "sessionId", "app_server": "threadId"}.get(self.contract.sticky.transport)
        places = [message.get("params", {}) if key else message for message in self.said]
        return list(dict.fromkeys(place[key or "session_id"] for place in places if (key or "session_id") in place))

    @property
    def _stance(self) -> PermissionMode:
        return self.approval or self.contract.sticky.interactive or PermissionMode()

    def _hear(self, stream: Stream, data: bytes) -> None:
        if stream == "stderr":
            self.stderr += data
            return
        for line in data.splitlines():
            try:
                message = json.loads(line)
            except ValueError:
                self.noise += 1
                continue
            with self._heard:
                self.said.append(message)
                asks = message.get("method") in self.contract.sticky.permission_requests
                if asks or message.get("type") == "control_request":
                    self.asked_for += 1
                    self._open.append(message)
                self._heard.notify()

    def _script(self) -> Iterator[bytes]:
        speak = {"acp": self._acp, "app_server": self._app_server, "stream_json": self._stream_json}
        speak["json_commands"] = self._json_commands
        yield from self.lines
        for message in speak[self.contract.sticky.transport]():
            self.sent[message.get("id")] = str(message.get("method"))
            ended = self._ended_turns()
            yield json.dumps(message).encode()
            while asked := self._asked_before_the_answer(message, ended + 1):
                yield from (json.dumps(self._decide(one)).encode() for one in asked)

    def _asked_before_the_answer(self, message: Message, ended: int) -> list[Message]:
        """Wait for permission requests, and return them; none if the message is answered and `ended` turns are over."""
        begins_turn = message.get("method") == "turn/start" or message.get("type") in ("user", "prompt")

        def is_answered() -> bool:
            if begins_turn and self._ended_turns() >= ended:
                return True
            answers = [one for one in self.said if _number(one) == _number(message) and "method" not in one]
            return any("error" in one for one in answers) or (bool(answers) and not begins_turn)

        if "id" not in message and "type" not in message:
            return []
        with self._heard:
            told = self._heard.wait_for(
                lambda: self._is_over or len(self._open) >= self.together or is_answered(), LONGEST
            )
            assert told, f"{message} was not answered"
            asked, self._open = self._open, []
        return asked

    def _ended_turns(self) -> int:
        ends = ("turn/completed", "result", "agent_settled")
        return sum(str(one.get("method") or one.get("type")) in ends for one in self.said)

    def _decide(self, asked: Message) -> Message:
        once = self.contract.sticky.one_time
        assert once
        word = once.allow if self.allow else once.deny
        if "params" not in asked and "request_id" not in asked:
            return {"type": "extension_ui_response", "id": asked["id"], "confirmed": self.allow}
        if "request_id" in asked:
            response = {"request_id": asked["request_id"], "subtype": "success", "response": {"behavior": word}}
            return {"type": "control_response", "response": response}
        if "options" not in asked["params"]:
            return {"id": asked["id"], "result": {"decision": word}}
        (chosen,) = [option["optionId"] for option in asked["params"]["options"] if option["kind"] == word]
        return {"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": chosen}}}

    def _acp(self) -> Iterator[Message]:
        yield {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
        yield {"id": 1, "method": "session/new", "params": {"cwd": str(self.work), "mcpServers": []}}
        session = next(one["result"] for one in reversed(self.said) if one.get("id") == 1 and "result" in one)
        chosen = {option["id"]: option["currentValue"] for option in session.get("configOptions", ())}
        in_force = session["modes"]["currentModeId"] if "modes" in session else chosen.get("mode")
        params = {"sessionId": session["sessionId"]}
        if self._stance.mode and self._stance.mode != in_force:
            if "configOptions" in session:
                option = {**params, "configId": "mode", "value": self._stance.mode}
                yield {"id": 2, "method": "session/set_config_option", "params": option}
            else:
                yield {"id": 2, "method": "session/set_mode", "params": {**params, "modeId": self._stance.mode}}
        for number, prompt in enumerate(self.prompts, 3):
            yield {
                "id": number,
                "method": "session/prompt",
                "params": {**params, "prompt": [{"type": "text", "text": prompt}]},
            }

    def _app_server(self) -> Iterator[Message]:
        yield {"id": 0, "method": "initialize", "params": {}}
        yield {"method": "initialized"}
        yield {"id": 1, "method": "thread/start", "params": {"cwd": str(self.work), **self._stance.session}}
        for number, prompt in enumerate(self.prompts, 2):
            threads = [
                message["params"]["threadId"] for message in self.said if "threadId" in message.get("params", {})
            ]
            thread = threads[-1] if threads else self.said[-1]["params"]["thread"]["id"]
            text = {"type": "text", "text": prompt}
            yield {"id": number, "method": "turn/start", "params": {"threadId": thread, "input": [text]}}

    def _json_commands(self) -> Iterator[Message]:
        for number, prompt in enumerate(self.prompts):
            yield {"id": str(number), "type": "prompt", "message": prompt}

    def _stream_json(self) -> Iterator[Message]:
        request = {"subtype": "set_permission_mode", "mode": self._stance.mode}
        yield {"type": "control_request", "request_id": "1", "request": request}
        for prompt in self.prompts:
            yield {"type": "user", "message": {"role": "user", "content": prompt}}


def _number(message: Message) -> object:
    """Return the id of a request, which its answer repeats."""
    about = message["response"] if message.get("type") == "control_response" else message
    return about.get("id", about.get("request_id"))


class _Input(io.BytesIO):
    """Standard input whose lines are created when they are read."""

    def __init__(self, script: Iterator[bytes]) -> None:
        super().__init__()
        self._script = script

    def readline(self, _size: int | None = -1, /) -> bytes:
        """Return the next line, or an empty string at the end."""
        line = next(self._script, None)
        return b"" if line is None else line + b"\n"
