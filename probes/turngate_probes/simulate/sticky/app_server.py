"""The app server's protocol from the engine's side: threads, turns and items over JSON-RPC."""

from collections.abc import Mapping
from typing import Any, ClassVar

from turngate.contract.launch import OneTime
from turngate.contract.simulated_protocols import AppServerSimulation, Record
from turngate.messages import Decision, ThreadId, received
from turngate_probes.simulate.backend import Called, Failed
from turngate_probes.simulate.printing import fill, fill_all
from turngate_probes.simulate.sticky.engine import dict_at, text_of
from turngate_probes.simulate.sticky.message_queue import Message
from turngate_probes.simulate.sticky.paths import put_at
from turngate_probes.simulate.sticky.process_start import in_force
from turngate_probes.simulate.sticky.rpc import BAD_PARAMS, BAD_REQUEST, NO_METHOD, Rpc, RpcError
from turngate_probes.simulate.store import SimulatedSession

_FOREVER = "acceptForSession"
_PROVIDER = "simulated"
_SANDBOXES = {"workspace-write": "workspaceWrite", "danger-full-access": "dangerFullAccess"}


class SimulatedAppServer(Rpc):
    """A server with threads, one of which runs a turn; its messages name no version."""

    VERSION: ClassVar[Mapping[str, str]] = {}
    mode = None
    _turn = ""
    _began = 0.0

    def __init__(self, *engine: Any) -> None:
        super().__init__(*engine)
        self._threads: list[tuple[SimulatedSession, Mapping[str, Any], str]] = []  # with the settings and the model

    @property
    def is_kept(self) -> bool:
        """Whether the thread is saved; one that is resumed always is."""
        return super().is_kept and self.fields.get("ephemeral") is not True

    @property
    def _records(self) -> AppServerSimulation:
        return self.simulation.sticky.app_server

    def tell(self, method: str, params: Message) -> None:
        """Send a notification, with the fields of every notification."""
        self._put(**self._more(self._records.notified), method=method, params=params)

    def request(self, method: str, params: Message, message: Message) -> None:
        """Answer a request of the client; an interruption outside of a turn does nothing."""
        match method:
            case "initialize":
                client = dict_at(params, "clientInfo").get("name", self.contract.engine)
                agent = f"{client}/{self.contract.version} (simulated)"
                about = {"userAgent": agent, "platformFamily": "unix", "platformOs": "linux"}
                self.reply(message, {**self._more(self._records.initialized), **about})
                self._tell_more("initialized")
            case "thread/start":
                self._open_thread(self.open(params.get("cwd")), params, message, {})
                self.tell("thread/started", {"thread": self._thread()})
            case "thread/resume":
                handle = _thread_of(params)
                if (session := self.load(handle, params.get("cwd"))) is None:
                    raise RpcError(BAD_REQUEST, f"no rollout found for thread id {handle}")
                self._open_thread(session, {**params, "ephemeral": False}, message, self._records.resumed)
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

    def _open_thread(self, session: SimulatedSession, params: Message, message: Message, more: Record) -> None:
        """Report the settings of a session under the names that the contract knows."""
        auto = self.contract.sticky.auto
        self.fields = params = {**params, **auto.session} if self.faults.wrong_mode and auto else params
        if isinstance(params.get("model"), str):
            self.model = params["model"]
        self._threads.append((session, params, self.model))
        reported: Message = {
            **self._more({**self._records.opened, **more}),
            "thread": self._thread(),
            "model": self.model,
            "modelProvider": _PROVIDER,
            "serviceTier": None,
            "cwd": session.cwd,
            "approvalPolicy": params.get("approvalPolicy", "on-request"),
            "approvalsReviewer": params.get("approvalsReviewer", "user"),
            "sandbox": {"type": _SANDBOXES.get(str(params.get("sandbox")), "readOnly")},
            "reasoningEffort": None,
        }
        for path, value in in_force(self.contract.sticky, self.fields).expect.items():
            put_at(reported, path, value)
        self.reply(message, reported)

    def _thread(self) -> Message:
        """Describe the session as a thread."""
        session = self.session
        preview = next((str(m["content"]) for m in session.messages if m["role"] == "user"), "")
        began = int(session.began_at)
        return {
            **self._more(self._records.thread),
            "id": session.handle,
            "sessionId": session.handle,
            "cwd": session.cwd,
            "status": {"type": "idle"},
            "cliVersion": self.contract.version or "0.0.0",
            "createdAt": began,
            "updatedAt": began,
            "recencyAt": began,
            "ephemeral": not self.is_kept,
            "modelProvider": _PROVIDER,
            "path": None,
            "preview": preview,
            "source": "appServer",
            "turns": [],
        }

    def _start_turn(self, params: Message, message: Message) -> None:
        if (handle := _thread_of(params)) != self.session.handle:
            known = (thread for thread in self._threads if thread[0].handle == handle)
            if (found := next(known, None)) is None:
                raise RpcError(BAD_PARAMS, f"thread not found: {handle}")
            self._session, self.fields, self.model = found
        if isinstance(cwd := params.get("cwd"), str):
            self.session.cwd = cwd  # also of the turns after it
        self.begin(text_of(params.get("input")))
        self._turn, self._began = str(fill("{uuid}", {})), 0.0
        self.reply(message, {"turn": self._turn_as("inProgress")})
        self._began = self.world.clock()
        self._tell_more("started")
        self._tell("turn/started", turn=self._turn_as("inProgress"))
        self._show(self._item("userMessage", id=fill("{uuid}", {}), content=self._content(params)))
        end = self.turn(text_of(params.get("input")))
        if isinstance(end, Failed):
            error = {**self._more(self._records.error), "message": end.error}
            self._tell("error", error=error, willRetry=False)
            self._tell("turn/completed", turn=self._turn_as("failed", error))
        elif end is None:
            self._tell("turn/completed", turn=self._turn_as("interrupted"))
        else:
            if end:
                item = self._item("agentMessage", id=f"msg_{fill('{hex:24}', {})}", text=end)
                self._show(item, {"text": ""}, end)
            self._tell_more("answered")
            items = [item] if end else []
            answered = {**self._more(self._records.answered), "items": items}
            self._tell("turn/completed", turn={**self._turn_as("completed"), **answered})
        self.turn_told()

    def _show(self, item: Message, before: Message | None = None, delta: str | None = None) -> None:
        """Report an item, which was different `before` a delta was added."""
        self._tell_started({**item, **(before or {})})
        if delta is not None:
            self._tell("item/agentMessage/delta", itemId=item["id"], delta=delta)
        self._tell_completed(item)

    def _tell_started(self, item: Message) -> None:
        self._tell("item/started", item={**item, "completedAtMs": None}, startedAtMs=item["startedAtMs"])

    def _tell_completed(self, item: Message) -> None:
        self._tell(
            "item/completed", **self._more(self._records.completed), item=item, completedAtMs=item["startedAtMs"]
        )

    def tell_action(self, call: Called, *, done: bool | None, result: str = "") -> None:  # noqa: ARG002
        """Start an item, or complete it."""
        # permission_requests name the kind of the item, as in item/commandExecution/requestApproval
        kind = (self.contract.sticky.permission_requests or ("item/commandExecution",))[0].split("/")[1]
        status = {None: "inProgress", True: "completed", False: "declined"}[done]
        exit_code = None if done is None or self.refused else int(not done)
        about = {"command": call.text, "commandActions": [], "cwd": self.session.cwd, "source": "agent"}
        item = self._item(kind, id=call.call_id, status=status, exitCode=exit_code, **about)
        if done is None:
            self._tell_started(item)
        else:
            self._tell_completed(item)

    def permission_params(self, call: Called, once: OneTime) -> Message:
        """Offer to allow the action once or always, or to refuse it."""
        about = {**self._more(self._records.asked), "itemId": call.call_id}
        about |= {"command": call.text, "cwd": self.session.cwd}
        return self._named({**about, "availableDecisions": [once.allow, _FOREVER, once.deny]})

    def is_granted(self, answer: Message, once: OneTime) -> bool:
        """Whether the client decided to allow."""
        decided = received(Decision, answer.get("result"))
        return decided is not None and decided.decision in (once.allow, _FOREVER)

    def _turn_as(self, status: str, error: Message | None = None) -> Message:
        more = self._more(self._records.turn, ended=status != "inProgress")
        return {**more, "id": self._turn, "items": [], "status": status, "error": error}

    def _content(self, params: Message) -> list[Message]:
        more, sent = self._more(self._records.text), params.get("input")
        parts = [part for part in sent if isinstance(part, dict)] if isinstance(sent, list) else []
        return [{**more, **part} if part.get("type") == "text" else part for part in parts]

    def _item(self, kind: str, **fields: Any) -> Message:
        now = int(self.world.clock() * 1000)
        about = {"type": kind, "startedAtMs": now, "completedAtMs": now}
        return {**self._more(self._records.items.get(kind, {})), **about, **fields}

    def _more(self, fields: Record, *, ended: bool = False) -> Message:
        """Fill the fields that the simulation adds to a message; `ended` says whether the turn has."""
        now, began = self.world.clock(), self._began
        slots = {
            "thread": self._session.handle if self._session else "",
            "turn": self._turn,
            "home": self.world.env.get("HOME", ""),
            "model": self.model,
            "started_at": int(began) or None,
            "completed_at": int(now) if ended else None,
            "duration_ms": int((now - began) * 1000) if ended else None,
        }
        return dict(fill_all(fields, slots))

    def _tell_more(self, when: str) -> None:
        for notification in self._records.told.get(when, ()):
            self.tell(**self._more(notification))

    def _tell(self, method: str, **params: Any) -> None:
        self.tell(method, self._named(params))

    def _named(self, params: Message) -> Message:
        return {"threadId": self.session.handle, "turnId": self._turn, **params}


def _thread_of(params: Message) -> str:
    """Return the id of the thread that a request names; RpcError if it names none."""
    if (thread := received(ThreadId, params)) is None:
        raise RpcError(BAD_PARAMS, "threadId is not text")
    return thread.thread_id
