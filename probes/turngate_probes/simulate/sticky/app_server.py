"""The app server's protocol from its own side: threads, turns and items over JSON-RPC."""

from collections.abc import Mapping
from typing import Any, ClassVar

from turngate_probes.simulate.printing import fill
from turngate_probes.simulate.sticky.client import Message
from turngate_probes.simulate.sticky.engine import Action, Talk
from turngate_probes.simulate.sticky.rpc import BAD_PARAMS, NO_METHOD, Rpc, RpcError

_FOREVER = "acceptForSession"


class SimulatedAppServer(Rpc):
    """A server with one thread; its messages name no version."""

    VERSION: ClassVar[Mapping[str, str]] = {}
    _turn = ""

    def hear(self, method: str, params: Message, message: Message) -> None:
        """Answer what a client asks; an interruption outside of a turn has nothing to interrupt."""
        match method:
            case "initialize":
                said = f"{self.engine.contract.engine}/{self.engine.contract.version} (simulated)"
                self.reply(message, {"userAgent": said, "platformFamily": "unix", "platformOs": "linux"})
            case "thread/start":
                self._start_thread(params, message)
            case "turn/start":
                self._start_turn(params, message)
            case "initialized" | "turn/interrupt":
                self.reply(message, {})
            case _:
                raise RpcError(NO_METHOD, f"Method not found: {method}")

    def _start_thread(self, params: Message, message: Message) -> None:
        """Open a session, and say what is in force in it, by the names that the contract knows."""
        engine = self.engine
        engine.fields = params
        if isinstance(params.get("model"), str):
            engine.model = params["model"]
        session = engine.open(params.get("cwd"))
        thread = {"id": session.handle, "cwd": session.cwd, "status": {"type": "idle"}}
        told: Message = {"thread": thread, "model": engine.model, "cwd": session.cwd}
        for path, value in engine.stance.expect.items():
            _put_at(told, path, value)
        self.reply(message, told)
        self.tell("thread/started", {"thread": thread})

    def _start_turn(self, params: Message, message: Message) -> None:
        if params.get("threadId") != self.engine.session.handle:
            raise RpcError(BAD_PARAMS, f"thread not found: {params.get('threadId')}")
        blocks = params.get("input")
        blocks = blocks if isinstance(blocks, list) else []
        prompt = "\n".join(str(block.get("text")) for block in blocks if isinstance(block, dict))
        self._turn = str(fill("{uuid}", {}))
        self.reply(message, {"turn": self._turn_as("inProgress")})
        self._tell("turn/started", turn=self._turn_as("inProgress"))
        end = self.engine.turn(prompt, Talk(self._called, self._permit, self._acted))
        if end.failure:
            error = {"message": end.failure.error}
            self._tell("error", error=error, willRetry=False)
            self._tell("turn/completed", turn=self._turn_as("failed", error))
        else:
            self._say(end.text)
            self._tell("turn/completed", turn=self._turn_as("completed"))
        self.engine.turn_told()

    def _say(self, text: str) -> None:
        item = {"type": "agentMessage", "id": f"msg_{fill('{hex:24}', {})}", "text": ""}
        self._tell("item/started", item=item)
        self._tell("item/agentMessage/delta", itemId=item["id"], delta=text)
        self._tell("item/completed", item={**item, "text": text})

    def _called(self, action: Action) -> None:
        self._tell("item/started", item=self._item(action, "inProgress"))

    def _permit(self, action: Action, times: int) -> bool:
        asks, once = self.engine.contract.sticky.permission_requests, self.engine.contract.sticky.one_time
        if not asks or once is None:
            return False
        about = {"itemId": action.call_id, "command": action.text, "cwd": self.engine.session.cwd}
        decisions = [once.allow, _FOREVER, once.deny]
        answers = self.request_each(asks[0], self._named({**about, "availableDecisions": decisions}), times)
        return all(_decision(answer) in {once.allow, _FOREVER} for answer in answers)

    def _acted(self, action: Action, done: bool) -> None:  # noqa: FBT001 - a fact of its own
        self._tell("item/completed", item=self._item(action, "completed" if done else "declined"))

    def _item(self, action: Action, status: str) -> Message:
        # asks names the kind of the item, as in item/commandExecution/requestApproval
        kind = (self.engine.contract.sticky.permission_requests or ("item/commandExecution",))[0].split("/")[1]
        cwd = self.engine.session.cwd
        return {"type": kind, "id": action.call_id, "command": action.text, "cwd": cwd, "status": status}

    def _turn_as(self, status: str, error: Message | None = None) -> Message:
        return {"id": self._turn, "items": [], "status": status, "error": error}

    def _tell(self, method: str, **params: Any) -> None:
        self.tell(method, self._named(params))

    def _named(self, params: Message) -> Message:
        return {"threadId": self.engine.session.handle, "turnId": self._turn, **params}


def _decision(answer: Message) -> object:
    result = answer.get("result")
    return result.get("decision") if isinstance(result, dict) else None


def _put_at(document: Message, path: str, value: str) -> None:
    """Put a value where a dotted path leads."""
    *folders, name = path.split(".")
    for folder in folders:
        document = document.setdefault(folder, {})
    document[name] = value
