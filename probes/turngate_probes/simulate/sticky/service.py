"""A service for many sessions: requests of a client, and events to it, as the simulation describes them.

The wire turns each request into a message with an `id`, a `method` and `params`, and gets messages with the same `id`
and a `result` or an `error`, or with an `event`.
"""

import json
import re
from collections.abc import Callable, Iterable
from copy import copy
from http import HTTPStatus
from queue import SimpleQueue
from threading import Thread
from typing import Any, Never

from msgspec.structs import replace

from turngate import NotFoundError
from turngate.contract.launch import OneTime
from turngate.contract.simulated_protocols import Record, ServiceFailure, ServiceRequest
from turngate.turn.records import value_at
from turngate_probes.simulate.backend import Called, Failed
from turngate_probes.simulate.printing import Slots, fill, fill_all
from turngate_probes.simulate.sticky.engine import StickyEngine, dict_at, text_of
from turngate_probes.simulate.sticky.message_queue import Message
from turngate_probes.simulate.sticky.process_start import Approval
from turngate_probes.simulate.sticky.sticky_client import Client
from turngate_probes.simulate.sticky.tool_calls import slots_of
from turngate_probes.simulate.sticky.wires import over_http, with_headers, with_lines
from turngate_probes.simulate.store import SimulatedSession, store

# requests about the turn of a session, which wait for it; the others are answered at once
_OF_TURNS = ("prompts", "starts", "decides", "cancels", "drops")
_STARTING = ("prompts", "starts")
_PATH_SLOT = re.compile(r"\\\{(\w+)\\\}")


class Refused(Exception):  # noqa: N818 - an answer to the client
    """A request is refused."""

    def __init__(self, failure: ServiceFailure, slots: Slots) -> None:
        super().__init__()
        told = fill_all(failure.answer, slots)
        is_result = failure.status == HTTPStatus.OK
        self.answer: Message = {"result": told} if is_result else {"error": {"code": failure.status, "message": told}}


class _Lane:
    """The requests about the turns of one session, which a thread runs."""

    def __init__(self) -> None:
        self._lines, self.over, self.thread = SimpleQueue[bytes](), False, Thread()

    def readline(self) -> bytes:
        """Return the next request; empty at the end."""
        line = self._lines.get()
        self.over = not line
        return line

    def put(self, line: bytes) -> None:
        """Add a request, or the end."""
        self._lines.put(line)


class SimulatedService(StickyEngine):
    """A service. It runs one turn of a session at a time, and those of several sessions at once.

    Each session with a turn has a thread, and a copy of the service in it.
    """

    def __init__(self, *engine: Any) -> None:
        contract, simulation, world, start = engine
        described = simulation.sticky.service
        if described is None:
            raise NotFoundError(f"there is no simulation of {contract.engine} as a service")
        self.records = described
        match described.wire:
            case "http":
                wired = over_http(world, described, start.options)
            case "stdio":
                wired = with_headers(world)
            case "lines":
                wired = with_lines(world)
        super().__init__(contract, simulation, wired, start)
        self._sessions: dict[str, SimulatedSession] = {}
        self._lanes: dict[str, _Lane] | None = {}  # None in a copy
        self._requested: dict[object, str] = {}  # the session of each request for permission
        self._opened: dict[str, str] = {}  # the session of each prompt that opens one
        self._busy: dict[str, Any] = {}
        self._ended = SimpleQueue[BaseException]()
        self._ids: dict[str, Any] = {}
        self._about: dict[str, Any] = {}
        self._agent = simulation.sticky.starts_in or ""

    @property
    def mode(self) -> str | None:
        """The approval mode, which a client changes only with an agent that refuses every action."""
        interactive = self.contract.sticky.interactive
        usual = interactive.mode if interactive else None
        return self._agent if self._agent in self.simulation.sticky.denies else usual

    @property
    def approval(self) -> Approval:
        """What it does before it acts."""
        return super().approval if self.records.asked else "refuse"

    def serve(self) -> Never:
        """Answer requests until the process ends, which raises SystemExit."""
        self._in_thread(self._answer_all, lambda: True)
        raise self._ended.get()

    def _in_thread(self, function: Callable[[], Never], counts: Callable[[], bool]) -> Thread:
        """Run a function that ends with an exception, with which the process then ends if that counts."""

        def run() -> None:
            try:
                function()
            except BaseException as error:  # noqa: BLE001 - raised again by the main thread
                if counts():
                    self._ended.put(error)

        thread = Thread(target=run, daemon=True)
        thread.start()
        return thread

    def _answer_all(self) -> Never:
        """Answer requests; at their end, the turns come to theirs."""
        try:
            super().serve()
        except SystemExit:
            lanes = list((self._lanes or {}).values())
            for lane in lanes:
                lane.put(b"")
            for lane in lanes:
                lane.thread.join()
            raise

    def _lane_of(self, message: Message) -> _Lane | None:
        """Return where a request about a turn is answered, which begins with the first turn of its session."""
        found = self._found(message)
        if found is None or self._lanes is None or found[0].does not in _OF_TURNS:
            return None
        entry, values = found
        handle = str(values.get("handle") or self._requested.get(values.get("request"), ""))
        if not handle and entry.does in _STARTING:
            handle = self._opened[str(message.get("id"))] = self._new_session(values).handle
        if handle and handle not in self._lanes and entry.does in _STARTING:
            lane, turns = _Lane(), copy(self)
            turns._lanes = None  # noqa: SLF001 - its own
            turns.world = replace(self.world, stdin=lane, on_signal=lambda _: None)
            turns.client = Client(turns.world, turns)
            lane.thread = self._in_thread(super(SimulatedService, turns).serve, lambda: not lane.over)
            self._lanes[handle] = lane
        return self._lanes.get(handle)

    def hear(self, message: Message) -> None:
        """Answer a request."""
        if lane := self._lane_of(message):
            lane.put(json.dumps(message).encode() + b"\n")
            return
        try:
            self._handle(*self._known(message), message)
        except Refused as refused:
            if "id" in message:
                self.client.write({"id": message["id"], **refused.answer})

    def stops(self, message: Message) -> bool:
        """Whether a message cancels the turn, which is confirmed."""
        found = self._found(message)
        if found is None or found[0].does != "cancels":
            return False
        self._reply(found[0], message)
        return True

    def tell_action(self, call: Called, *, done: bool | None, result: str = "") -> None:
        """Send events about a tool call, or how it ended."""
        tool = self.contract.hermetic.tool_call
        self._about |= {**(slots_of(call, tool, self.session.cwd) if tool else {}), "error": result}
        events = {None: self.records.called, True: self.records.done, False: self.records.refused}
        self._tell(events[done])

    def permission_request(self, kind: str, call: Called, once: OneTime) -> tuple[object, Message]:  # noqa: ARG002
        """Return the event that asks, and a new id."""
        self._about["request"] = number = str(fill(self.records.ids.get("request", "{uuid}"), {}))
        self._requested[number] = self.session.handle
        return number, self._event(self.records.asked)

    def unknown_request(self) -> tuple[object, Message]:
        """Return an event of an unknown kind, with a new id."""
        number = str(fill("{uuid}", {}))
        return number, self._event({"type": "turngate.unknown", "id": number})

    def unknown_message(self, about: Message) -> Message:
        """Return an event of an unknown kind."""
        return self._event(about)

    def answered(self, message: Message) -> object:
        """Return the id of the request for permission that a message decides."""
        found = self._found(message)
        return found[1].get("request") if found and found[0].does == "decides" else None

    def is_granted(self, answer: Message, once: OneTime) -> bool:  # noqa: ARG002 - the simulation has the words
        """Whether the client allows the action; the decision is confirmed."""
        found = self._found(answer)
        if found is None:
            return False
        entry, slots = found
        self._about["decision"] = slots["decision"]
        self._tell(self.records.decided)
        self._reply(entry, answer)
        return slots["decision"] in entry.allows

    def _found(self, message: Message) -> tuple[ServiceRequest, dict[str, Any]] | None:
        """Return the request that a message makes, and what it says."""
        for entry in self.records.requests:
            pattern = _PATH_SLOT.sub(r"(?P<\1>[^/ ]+)", re.escape(entry.name))
            params = dict_at(message, "params")
            if (match := re.fullmatch(pattern, str(message.get("method")))) and _fits(entry, params):
                paths = {
                    "handle": entry.handle,
                    "request": entry.request,
                    "decision": entry.decision,
                    "agent": entry.agent,
                    "directory": entry.directory,
                }
                values = {name: value_at(params, path) for name, path in paths.items() if path}
                prompt = text_of(value_at(params, entry.prompt)) if entry.prompt else ""
                return entry, {**match.groupdict(), **values, "prompt": prompt}
        return None

    def _known(self, message: Message) -> tuple[ServiceRequest, dict[str, Any]]:
        """Return the request that a message makes; Refused if there is none of that name."""
        if (found := self._found(message)) is None:
            raise Refused(self.records.unknown, self._slots())
        return found

    def _handle(self, entry: ServiceRequest, values: dict[str, Any], message: Message) -> None:
        opened = self._opened.pop(str(message.get("id")), None)
        handle = values.get("handle") or opened
        if entry.does == "opens":
            self._session = self._new_session(values)
            self._tell(self.records.opened)
        elif handle is not None:
            self._session = self._existing(str(handle))
        if entry.does in _STARTING:
            self._about = {"prompt": str(values["prompt"]), "request_id": message.get("id")}
            self._ids = self._new_ids()
            if opened:
                self._tell(self.records.opened)
            self._agent = str(values.get("agent") or self.simulation.sticky.starts_in or "")
            self._run(entry, str(values["prompt"]), message)
            return
        if entry.does == "drops":
            store(self.contract, self.world.env, self.session.cwd).drop(self.session)
            self._sessions.pop(self.session.handle, None)
        self._reply(entry, message)
        if entry.does == "ends":
            raise SystemExit(0)

    def _new_session(self, values: dict[str, Any]) -> SimulatedSession:
        """Open a session, and keep it."""
        session = self.open(values.get("directory"), values.get("handle"))
        self._sessions[session.handle] = session
        self._keep(session)
        return session

    def _existing(self, handle: str) -> SimulatedSession:
        """Return an open session, or one from the store; Refused if there is none."""
        session = self._sessions.get(handle) or (self.load(handle) if self.records.finds else None)
        if session is None:
            raise Refused(self.records.lost, {**self._slots(), "handle": handle})
        self._sessions[handle] = session
        return session

    def _run(self, entry: ServiceRequest, prompt: str, message: Message) -> None:
        """Run a turn, and answer the request at its start or its end."""
        self._busy[self.session.handle] = self.records.busy
        self.begin(prompt)
        if entry.does == "starts":
            self._reply(entry, message)
        self._tell(self.records.started)
        end = self.turn(prompt, self.session)
        good = isinstance(end, str) and not self.refused
        if isinstance(end, Failed):
            self._about |= {"error": end.error, "status": end.status}
            self._tell(self.records.failed)
        else:
            self._about["text"] = end or ""
            self._tell(self.records.answered if good else self.records.cancelled)
        self._busy.pop(self.session.handle, None)
        # a client may take any of these for the end: without it, all but the first are missing, and then the last
        self._tell(self.records.ended[:1] if self.faults.omits_end else self.records.ended)
        if entry.does == "prompts":
            usual = None if good else self.records.unanswered
            other = self.records.failure if isinstance(end, Failed) else usual
            self._reply(entry if other is None else replace(entry, answer=other), message)
        self.turn_told()

    def _reply(self, entry: ServiceRequest, message: Message) -> None:
        result = fill_all(entry.answer, self._slots())
        self.client.write({"id": message.get("id"), "status": entry.status, "result": result})

    def _tell(self, events: Iterable[Record]) -> None:
        for event in events:
            self.client.write(self._event(event))

    def _event(self, event: Record) -> Message:
        slots = self._slots()
        return {"event": fill_all(self.records.event, {**slots, "event": fill_all(event, slots)})}

    def _slots(self) -> Slots:
        """Return what is known of the session and the turn."""
        session = self._session
        about: dict[str, Any] = {
            "handle": session.handle if session else "",
            "cwd": session.cwd if session else self.world.cwd,
            "home": self.world.env.get("HOME", ""),
            "model": self.model,
            "version": self.contract.version or "0.0.0",
            "text": "",
            "error": "",
            "status": 1,
            "prompt": "",
            "request_id": None,
            "agent": self._agent,
            "busy": dict(self._busy),
            **self._ids,
            **self._about,
        }
        kept = store(self.contract, self.world.env, about["cwd"]).sessions() if self.records.session else []
        listed = [fill_all(self.records.session, {**about, "handle": one.handle, "cwd": one.cwd}) for one in kept]
        return {**about, "session": fill_all(self.records.session, about), "sessions": listed} | self._history(about)

    def _new_ids(self) -> dict[str, Any]:
        return {name: fill(form, {}) for name, form in self.records.ids.items()}

    def _history(self, about: Slots) -> dict[str, Any]:
        """Return what was said in the session."""
        messages = self._session.messages if self._session else ()
        entries = [
            fill_all(self.records.history[message["role"]], {**about, **self._new_ids(), "text": message["content"]})
            for message in messages
            if message["role"] in self.records.history and message["content"]
        ]
        return {"history": entries}


def _fits(entry: ServiceRequest, params: Message) -> bool:
    """Whether parameters are those of a request, which are as complete as a turn needs them."""
    beside = value_at(params, entry.prompt.rpartition(".")[0]) if entry.members else None
    return (
        all(value_at(params, path) == value for path, value in entry.match.items())
        and (
            entry.does not in _STARTING or all(value_at(params, path) for path in (entry.handle, entry.prompt) if path)
        )
        and (not entry.members or (isinstance(beside, dict) and beside.keys() <= {*entry.members}))
    )
