"""Speaks the app server's protocol: threads, turns and items over JSON-RPC."""

import asyncio

from turngate.contract.launch import OneTime
from turngate.messages import Decision, TextBlock, ThreadId, sent
from turngate.turn.records import obstacle_at, value_at
from turngate_reference.server.transports.engine_process import EngineProcess, TransportError
from turngate_reference.server.transports.events import Listener
from turngate_reference.server.transports.transport import Ask, Message, RpcTransport, confirm, mapping

_CLIENT = {"clientInfo": {"name": "turngate", "title": "turngate", "version": "1"}}
_WELL, _DECLINED = "completed", "declined"
_SHOWN = ("type", "command", "cwd", "reason", "changes", "grantRoot", "commandActions")
MAX_OTHER_THREADS = 1000


class AppServerTransport(RpcTransport):
    """Speaks the app server's protocol."""

    def __init__(self, process: EngineProcess, ask: Ask, tell: Listener) -> None:
        super().__init__(process, ask, tell)
        self._text: str | None = None
        self._items: dict[object, Message] = {}
        self._turn_id: str | None = None
        # turns reported under other threads: they belong to the agent's helpers, unless one is the current turn
        self._other_threads: dict[str, str] = {}
        self._ended: asyncio.Future[tuple[Message, str | None]] | None = None

    async def open(self) -> None:
        """Start a thread with the approval policy of the mode, and check that the policy is applied."""
        await self.call("initialize", _CLIENT)
        self.send({"jsonrpc": "2.0", "method": "initialized", "params": {}})
        asked = {"cwd": str(self.request.cwd), **self.approval.session}
        if self.model is not None:
            asked["model"] = self.model
        answer = await self.call("thread/start", asked)
        for path, wanted in self.approval.expect.items():
            confirm(path, wanted, value_at(answer, path), obstacle_at(answer, path)[1])
        session_id = value_at(answer, "thread.id")
        if not isinstance(session_id, str):
            raise TransportError("it started a thread without an id")
        self.session_id = session_id

    async def turn(self, text: str) -> tuple[str | None, str | None]:
        """Start a turn and wait until it is completed."""
        self._text, self._items = None, {}
        self._turn_id, self._other_threads = None, {}
        self._ended = asyncio.get_running_loop().create_future()
        prompt = {**sent(ThreadId(str(self.session_id))), "input": [sent(TextBlock(text))]}
        try:
            started = await self.call("turn/start", {**self.approval.turn, **prompt})
        except TransportError as failed:
            return None, str(failed)
        turn_id = value_at(started, "turn.id")
        self._turn_id = turn_id if isinstance(turn_id, str) else None
        self._end_in_other_thread()
        turn, answer = await self._ended
        if turn.get("status") == _WELL:
            return answer, None
        reason = value_at(turn, "error.message")
        return answer, str(reason or f"the turn ended as {turn.get('status')}")

    def on_notification(self, method: str, params: Message) -> None:
        """Handle the agent's texts, the items that it asks about, errors, and the end of the turn."""
        if method == "warning" and params.get("threadId") in (None, self.session_id):
            self.report("error", params.get("message"))
            return
        if params.get("threadId") != self.session_id:
            thread, turn_id = params.get("threadId"), params.get("turnId") or value_at(params, "turn.id")
            # messages without a thread or a turn, such as account updates, don't say where a turn continues
            if isinstance(thread, str) and isinstance(turn_id, str) and len(self._other_threads) < MAX_OTHER_THREADS:
                self._other_threads[turn_id] = thread
                self._end_in_other_thread()
            return
        item = mapping(params.get("item"))
        if method == "turn/started" and (self._ended is None or self._ended.done()):
            self.begins_own_turn()
        elif method == "item/started":
            self._items[item.get("id")] = item
        elif method == "item/completed" and item.get("type") == "agentMessage" and isinstance(item.get("text"), str):
            self._text = item["text"] or None
            self.say(item["text"])
        elif method == "item/completed" and item.get("status") == _DECLINED:
            self.report("denied", item.get("type"))
        elif method == "error" and params.get("willRetry"):
            self.report("error", value_at(params, "error.message"))
        elif method == "turn/completed":
            self._end(mapping(params.get("turn")))

    async def on_permission(self, params: Message, once: OneTime) -> Message | None:
        """Ask for one of the one-time decisions; the user sees the request, or the item that it is about."""
        action = {**self._items.get(params.get("itemId"), {}), **params}
        answers = {decision: sent(Decision(decision)) for decision in (once.allow, once.deny)}
        return await self.permission(_subject(action), answers, [once.allow], action, _SHOWN, action.get("type"))

    def _end(self, turn: Message) -> None:
        if self._ended and not self._ended.done():
            # with the text so far: what follows in the same chunk belongs to no turn of ours
            self._ended.set_result((turn, self._text))

    def _end_in_other_thread(self) -> None:
        """Fail the turn if it continues in another thread, which lacks the earlier conversation."""
        if self._turn_id in self._other_threads:
            self._end({"error": {"message": self.left_for(self._other_threads[self._turn_id])}})


def _subject(action: Message) -> str:
    if action.get("command"):
        return str(action["command"])
    changes = action.get("changes")
    return ", ".join(str(c.get("path")) for c in changes if isinstance(c, dict)) if isinstance(changes, list) else ""
