"""The fake engine's JSON-RPC transports: the Agent Client Protocol, and the app server's protocol."""

from typing import Any

from tests.reference.server.sticky.fake_prompts import FLAWS, OPTIONS, SESSION, Engine, Message, put


class Acp(Engine):
    """The Agent Client Protocol."""

    mode = "yolo"

    def answer(self, message: Any) -> None:
        """Answer one request of the client."""
        params = message.get("params") or {}
        result: Message = {}
        match message["method"]:
            case "initialize":
                result = {"protocolVersion": 1}
            case "session/new":
                result = {} if "no-session" in FLAWS else self.session()
            case "session/set_mode":
                self.set_mode(params["modeId"])
                result = {"success": True, "currentModeId": self.mode} if "answers" in FLAWS else {}
            case "session/set_model" if "one-model" not in FLAWS:
                result = {"currentModelId": params["modelId"]} if "answers" in FLAWS else {}
            case "session/set_config_option":
                self.set_mode(params["value"])
                result = {"configOptions": [{"id": "m", "category": "mode", "currentValue": self.mode}]}
            case "session/prompt":
                said = self.play(params["prompt"][0]["text"])
                if said is None:
                    put({"jsonrpc": "2.0", "id": message["id"], "error": {"code": 401, "message": "key refused"}})
                    return
                self.say(said[:3])
                self.say(said[3:])
                result = {"stopReason": "end_turn"}
            case "session/set_model":
                put({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}})
                return
        put({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def session(self) -> Message:
        """Describe the session."""
        modes = {"currentModeId": self.mode, "availableModes": [{"id": "default"}, {"id": "yolo"}]}
        option = {"id": "m", "category": "mode", "currentValue": self.mode}
        return {"sessionId": "s-1", "modes": modes} | ({} if "no-options" in FLAWS else {"configOptions": [option]})

    def set_mode(self, mode: str) -> None:
        """Set the mode, and tell of it."""
        self.mode = self.mode if "deaf-to-mode" in FLAWS else mode
        if "no-options" in FLAWS and not {"mute", "answers"} & set(FLAWS):
            self.update({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})
        if "contrary" in FLAWS:
            self.drift()

    def say(self, text: str) -> None:
        """Say a piece of the answer."""
        self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})

    def drift(self) -> None:
        """Leave the mode."""
        self.update({"sessionUpdate": "current_mode_update", "currentModeId": "yolo"})

    def update(self, update: Message) -> None:
        """Send an update of the session."""
        put({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-1", "update": update}})

    def send_ask(self, title: str) -> int | str:
        """Ask for permission."""
        call = {"toolCallId": title, "title": title, "kind": "edit", "rawInput": {"path": "x"}}
        return self.send("session/request_permission", {"sessionId": "s-1", "toolCall": call, "options": OPTIONS})

    def read_answer(self, message: Message) -> str:
        """Return the option that was selected, or how it was refused."""
        outcome = message["result"]["outcome"]
        return str(outcome.get("optionId") or outcome["outcome"])


class AppServer(Engine):
    """The app server's protocol."""

    def answer(self, message: Any) -> None:
        """Answer one request of the client."""
        params = message.get("params") or {}
        if "id" not in message:
            return
        result: Message = {}
        if message["method"] == "thread/start":
            policy = "never" if "widened" in FLAWS else params["approvalPolicy"]
            sandbox = {"read-only": "readOnly", "workspace-write": "workspaceWrite"}[params["sandbox"]]
            result = {"thread": {"id": SESSION}, "approvalPolicy": policy, "approvalsReviewer": "user"}
            result["sandbox"] = {"type": sandbox}
        if message["method"] == "turn/start" and "news" in FLAWS:
            put({"method": "account/rateLimits/updated", "params": {"rateLimits": {}}})
        put({"id": message["id"], "result": result})
        if message["method"] == "turn/start":
            self.end(self.play(params["input"][0]["text"]))

    def end(self, text: str | None) -> None:
        """Tell the text, and the end of the turn."""
        if text is None:
            turn = {"status": "failed", "error": {"message": "key refused"}}
        else:
            item = {"type": "agentMessage", "id": str(self.turns), "text": text}
            self.tell("item/completed", {"item": item})
            turn = {"status": "completed"}
        self.tell("turn/completed", {"turn": turn})

    def tell(self, method: str, params: Message) -> None:
        """Send a notification of the thread."""
        put({"method": method, "params": {"threadId": SESSION, **params}})

    def send_ask(self, title: str) -> int | str:
        """Ask for permission."""
        params = {"threadId": SESSION, "command": title, "availableDecisions": ["accept", "acceptForSession"]}
        return self.send("item/commandExecution/requestApproval", params)

    def read_answer(self, message: Message) -> str:
        """Return the decision, or that there was none."""
        return str(message["result"]["decision"]) if "result" in message else "error"
