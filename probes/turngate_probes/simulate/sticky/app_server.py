"""The app server's protocol from the engine's side: threads, turns and items over JSON-RPC."""

from collections.abc import Mapping
from typing import Any, ClassVar

from turngate.contract.launch import OneTime
from turngate_probes.simulate.backend import Called, Failed
from turngate_probes.simulate.printing import fill
from turngate_probes.simulate.sticky.approval import in_force
from turngate_probes.simulate.sticky.engine import dict_at, text_of
from turngate_probes.simulate.sticky.inbox import Message
from turngate_probes.simulate.sticky.rpc import BAD_PARAMS, NO_METHOD, Rpc, RpcError

_FOREVER = "acceptForSession"


class SimulatedAppServer(Rpc):
    """A server with one thread; its messages name no version."""

    VERSION: ClassVar[Mapping[str, str]] = {}
    mode = None
    _turn = ""

    def request(self, method: str, params: Message, message: Message) -> None:
        """Answer a request of the client; an interruption outside of a turn does nothing."""
        match method:
            case "initialize":
                said = f"{self.contract.engine}/{self.contract.version} (simulated)"
                self.reply(message, {"userAgent": said, "platformFamily": "unix", "platformOs": "linux"})
            case "thread/start":
                self._start_thread(params, message)
            case "turn/start":
                self._start_turn(params, message)
            case "initialized" | "turn/interrupt":
                self.reply(message, {})
            case _:
                raise RpcError(NO_METHOD, f"Method not found: {method}")

    def stops(self, message: Message) -> bool:
        """Whether a message interrupts the turn, which is confirmed."""
        stops = message.get("method") == "turn/interrupt"
        if stops:
            self.reply(message, {})
        return stops

    def _start_thread(self, params: Message, message: Message) -> None:
        """Open a session, and report its settings under the names that the contract knows."""
        self.fields = params
        if isinstance(params.get("model"), str):
            self.model = params["model"]
        session = self.open(params.get("cwd"))
        thread = {"id": session.handle, "cwd": session.cwd, "status": {"type": "idle"}}
        told: Message = {"thread": thread, "model": self.model, "cwd": session.cwd}
        for path, value in in_force(self.contract.sticky, params).expect.items():
            _put_at(told, path, value)
        self.reply(message, told)
        self.tell("thread/started", {"thread": thread})

    def _start_turn(self, params: Message, message: Message) -> None:
        if params.get("threadId") != self.session.handle:
            raise RpcError(BAD_PARAMS, f"thread not found: {params.get('threadId')}")
        self._turn = str(fill("{uuid}", {}))
        self.reply(message, {"turn": self._turn_as("inProgress")})
        self._tell("turn/started", turn=self._turn_as("inProgress"))
        end = self.turn(text_of(params.get("input")))
        if isinstance(end, Failed):
            error = {"message": end.error}
            self._tell("error", error=error, willRetry=False)
            self._tell("turn/completed", turn=self._turn_as("failed", error))
        elif end is None:
            self._tell("turn/completed", turn=self._turn_as("interrupted"))
        else:
            self._say(end)
            self._tell("turn/completed", turn=self._turn_as("completed"))
        self.turn_told()

    def _say(self, text: str) -> None:
        item = {"type": "agentMessage", "id": f"msg_{fill('{hex:24}', {})}", "text": ""}
        self._tell("item/started", item=item)
        self._tell("item/agentMessage/delta", itemId=item["id"], delta=text)
        self._tell("item/completed", item={**item, "text": text})

    def tell_action(self, call: Called, *, done: bool | None, result: str = "") -> None:  # noqa: ARG002
        """Start an item, or complete it."""
        # permission_requests name the kind of the item, as in item/commandExecution/requestApproval
        kind = (self.contract.sticky.permission_requests or ("item/commandExecution",))[0].split("/")[1]
        status = {None: "inProgress", True: "completed", False: "declined"}[done]
        item = {"type": kind, "id": call.call_id, "command": call.text, "cwd": self.session.cwd, "status": status}
        self._tell("item/started" if done is None else "item/completed", item=item)

    def permission_params(self, call: Called, once: OneTime) -> Message:
        """Offer to allow the action once or always, or to refuse it."""
        about = {"itemId": call.call_id, "command": call.text, "cwd": self.session.cwd}
        return self._named({**about, "availableDecisions": [once.allow, _FOREVER, once.deny]})

    def is_granted(self, answer: Message, once: OneTime) -> bool:
        """Whether the client decided to allow."""
        return dict_at(answer, "result").get("decision") in (once.allow, _FOREVER)

    def _turn_as(self, status: str, error: Message | None = None) -> Message:
        return {"id": self._turn, "items": [], "status": status, "error": error}

    def _tell(self, method: str, **params: Any) -> None:
        self.tell(method, self._named(params))

    def _named(self, params: Message) -> Message:
        return {"threadId": self.session.handle, "turnId": self._turn, **params}


def _put_at(document: Any, path: str, value: str) -> Any:
    """Set the value at a dotted path, in which a number is an index of a list; return the object or list."""
    step, dot, below = path.partition(".")
    if not step.isdecimal():
        fields = document if isinstance(document, dict) else {}
        fields[step] = _put_at(fields.get(step), below, value) if dot else value
        return fields
    items = document if isinstance(document, list) else []
    items += [None] * (int(step) + 1 - len(items))
    items[int(step)] = _put_at(items[int(step)], below, value) if dot else value
    return items
