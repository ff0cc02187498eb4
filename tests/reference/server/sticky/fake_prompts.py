"""What every transport of the fake engine shares: the prompts, and what comes of them."""

import json
import os
import sys
import time
from typing import Any

Message = dict[str, Any]

FLAWS = os.environ.get("FAKE_FLAWS", "").split()
SESSION = "01a20100-15f2-7892-83a8-645205010f39"
OPTIONS = [
    {"optionId": "a", "name": "Always", "kind": "allow_always"},
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]


def put(message: Message) -> None:
    """Print one message."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def get() -> Any:
    """Read the next message; the end of input is the end."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


class Engine:
    """What both JSON-RPC transports share: the prompts and what comes of them."""

    def __init__(self) -> None:
        self.turns = 0
        self.asked = 0
        self.late: list[str] = []

    def play(self, prompt: str) -> str | None:
        """Do what the prompt says; gives the text to answer with, or None for a failure."""
        self.turns += 1
        word, _, rest = prompt.partition(" ")
        match word:
            case "ask":
                return " ".join(self.ask(int(rest or 1)))
            case "unknown":
                return json.dumps(self.request("files/grant_everything", {}))
            case "flood":
                sys.stdout.write("x" * (9 * 2**20) + "\n")
            case "abandon":
                self.send_ask("write 0")
                return rest
            case "recall":
                return " ".join(self.late)
            case "exit" | "close" | "deaf":
                self.die(word, rest)
            case "drift":
                self.drift()
            case "fail":
                return None
        return f"turn {self.turns} of {os.getpid()}"

    def die(self, word: str, code: str) -> None:
        """Exit, or stop to speak or to hear."""
        if word == "exit":
            sys.stderr.write("\x1b]0;fake\x07\x1b[1;31mout of ideas\x1b[0m\x1b[K\a\n")
            sys.exit(int(code))
        if word == "close":
            sys.stdout.flush()
            os.close(1)
        else:
            os.close(0)
            self.say("can't hear you")
            self.end("can't hear you")
        time.sleep(60)

    def ask(self, count: int) -> list[str]:
        """Ask for so many permissions at once, and give the answers in the order of the questions."""
        ids: list[int | str] = [self.send_ask(f"write {number}") for number in range(count)]
        answers: dict[int | str, str] = {}
        while len(answers) < count:
            message = get()
            answers[self.id_of(message)] = self.read_answer(message)
        return [answers[each] for each in ids]

    def hear(self, message: Any) -> None:
        """Take one message of the client; the answer to a question of an earlier turn is kept."""
        if isinstance(message, dict) and (("method" not in message and "id" in message) or "response" in message):
            self.late.append(self.read_answer(message))
            return
        self.answer(message)

    def answer(self, message: Any) -> None:
        """Answer one message of the client."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Say a piece of the answer, where texts come in pieces."""

    def end(self, text: str | None) -> None:
        """End the turn, where something else than an answer ends it."""

    def drift(self) -> None:
        """Leave the mode, where there is one."""

    def send_ask(self, title: str) -> int | str:
        """Ask for permission; gives the id of the request."""
        raise NotImplementedError

    def read_answer(self, message: Message) -> str:
        """Return what was answered."""
        raise NotImplementedError

    def id_of(self, message: Message) -> int | str:
        """Return the id of the request that a message answers."""
        return message.get("id") or str(message["response"]["request_id"])

    def request(self, method: str, params: Message) -> Any:
        """Send a request and give the whole response."""
        self.asked += 1
        put({"jsonrpc": "2.0", "id": f"r{self.asked}", "method": method, "params": params})
        return get()

    def send(self, method: str, params: Message) -> int:
        """Send a request and give its id."""
        self.asked += 1
        put({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})
        return self.asked
