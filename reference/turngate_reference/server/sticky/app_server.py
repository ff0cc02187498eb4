"""Speaks the app server's protocol: threads, turns and items over JSON-RPC."""

import asyncio
from typing import Any

from turngate.turn.records import value_at
from turngate_reference.server.sticky.rpc import Message, Rpc
from turngate_reference.server.sticky.transport import Permission, Texts, TransportContext, TransportError, TurnEnd

_CLIENT = {"clientInfo": {"name": "turngate", "title": "turngate", "version": "1"}}
_WELL = "completed"
MOST_ELSEWHERE = 1000


class AppServer:
    """A `Speaker` of the app server's protocol."""

    def __init__(self, around: TransportContext) -> None:
        self.session_id: str | None = None
        self._around = around
        self._rpc = Rpc(around.wire, self._request, self._notification)
        self._texts = Texts()
        self._items: dict[object, Message] = {}
        self._turn_id: str | None = None
        # turns that were told of under other threads: those of the agent's helpers, unless one of them is ours
        self._elsewhere: dict[str, str] = {}
        self._ended: asyncio.Future[Message] | None = None

    async def open(self) -> None:
        """Start a thread under the approval policy of the mode, and see that it is in force."""
        await self._rpc.call("initialize", _CLIENT)
        await self._rpc.notify("initialized", {})
        stance = self._around.stance
        asked: Message = {"cwd": str(self._around.request.cwd), **stance.session}
        if self._around.session_model is not None:
            asked["model"] = self._around.session_model
        told = await self._rpc.call("thread/start", asked)
        for path, wanted in stance.expect.items():
            if (in_force := value_at(told, path)) != wanted:
                raise TransportError(f"asked for {path} {wanted}, {in_force} is in force")
        session_id = value_at(told, "thread.id")
        if not isinstance(session_id, str):
            raise TransportError("it started a thread without an id")
        self.session_id = session_id

    async def turn(self, text: str) -> TurnEnd:
        """Start a turn and wait until it is completed."""
        self._texts, self._items = Texts(), {}
        self._turn_id, self._elsewhere = None, {}
        self._ended = asyncio.get_running_loop().create_future()
        asked = {"threadId": self.session_id, "input": [{"type": "text", "text": text}]}
        try:
            started = await self._rpc.call("turn/start", asked)
        except TransportError as failed:
            return TurnEnd(None, str(failed))
        turn_id = value_at(started, "turn.id")
        self._turn_id = turn_id if isinstance(turn_id, str) else None
        self._look_elsewhere()
        turn = await self._ended
        if turn.get("status") == _WELL:
            return TurnEnd(self._texts.final, None)
        said = value_at(turn, "error.message")
        return TurnEnd(self._texts.final, str(said or f"the turn ended as {turn.get('status')}"))

    async def close(self) -> None:
        """Stop to listen."""
        await self._rpc.close()

    def _notification(self, method: str, params: Message) -> None:
        if params.get("threadId") != self.session_id:
            thread, turn = params.get("threadId"), params.get("turnId") or value_at(params, "turn.id")
            # what names no thread or no turn, such as news of the account, says nothing of where a turn goes on
            if isinstance(thread, str) and isinstance(turn, str) and len(self._elsewhere) < MOST_ELSEWHERE:
                self._elsewhere[turn] = thread
                self._look_elsewhere()
            return
        item = params.get("item")
        item = item if isinstance(item, dict) else {}
        if method == "item/started":
            self._items[item.get("id")] = item
        elif method == "item/completed" and item.get("type") == "agentMessage" and isinstance(item.get("text"), str):
            self._texts.add(item["text"], item.get("id"))
            self._around.say(item["text"])
        elif method == "turn/completed" and self._ended and not self._ended.done():
            turn = params.get("turn")
            self._ended.set_result(turn if isinstance(turn, dict) else {})

    def _look_elsewhere(self) -> None:
        """End the turn badly if it goes on in another thread, where what was said before is not known."""
        if self._turn_id in self._elsewhere and self._ended and not self._ended.done():
            thread = self._elsewhere[self._turn_id]
            self._ended.set_result({"error": {"message": f"it left session {self.session_id} for {thread}"}})

    async def _request(self, method: str, params: Message) -> Message | None:
        sticky = self._around.contract.sticky
        if method not in sticky.permission_requests or sticky.one_time is None:
            return None
        once = sticky.one_time
        answers = {word: {"decision": word} for word in (once.allow, once.deny)}
        action = self._action(params)
        prompt = f"Allow this action? {_told(action)}".strip()
        answer: Message | None = await self._around.ask(Permission(prompt, answers, (once.allow,), action))
        return answer

    def _action(self, params: Message) -> Message:
        """Return what the request and the item that it is about say of the action."""
        whole = {**self._items.get(params.get("itemId"), {}), **params}
        wanted = ("type", "command", "cwd", "reason", "changes", "grantRoot", "commandActions")
        return {key: whole[key] for key in wanted if whole.get(key)}


def _told(action: dict[str, Any]) -> str:
    if "command" in action:
        return str(action["command"])
    changes = action.get("changes")
    paths = [str(each.get("path")) for each in changes if isinstance(each, dict)] if isinstance(changes, list) else []
    return ", ".join(paths)
