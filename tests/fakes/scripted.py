"""A simulated engine whose model and faults follow lines of each prompt, in any protocol.

`do: say TEXT`, `do: fail`, `do: hang` and `do: act TEXT` say what the model does; the last one calls the contract's
tool and then says the text, in which RESULT is what came of the call. Without such a line it says which turn of which
process it is. `fault: NAME …` names faults of the turn; those of every turn are in the variable FAULTS. Each prompt
with such a line is recorded in `prompts` next to the executable, one JSON text per line. With the model `deaf` it never
reads its prompt. An engine that hangs says so on the fifo `meeting` next to it.
"""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Never

from turngate import EngineContract
from turngate_probes.conform import compiled
from turngate_probes.simulate.backend import Answer, Failed, ModelRequest, call_of
from turngate_probes.simulate.faults import Faults, parsed
from turngate_probes.simulate.printing import provide
from turngate_probes.simulate.simulated_process import SimulatedProcess, kind_of, tool_here

_ORDER = re.compile(r"^(do|fault): (.*)$", re.MULTILINE)


def main(folder: str) -> Never:
    """Run one call of the engine that is installed in a folder."""
    whole = compiled.read(Path(folder))
    provide(whole.contract, whole.simulation)
    sys.exit(_Scripted(whole.contract, tuple(sys.argv[1:]), Path(folder)).play())


class _Scripted(SimulatedProcess):
    def __init__(self, contract: EngineContract, argv: tuple[str, ...], folder: Path) -> None:
        self.always = shlex.split(os.environ.get("FAULTS", ""))
        super().__init__(contract, kind_of(contract, argv), parsed(self.always), collects=True)
        self.argv, self.folder = argv, folder
        self.recorded = set[int]()

    def play(self) -> int:
        """Run the call."""
        if "deaf" in self.argv:
            super().hang()
        return self.run(self.argv, self._model, self._faults_in)

    def hang(self) -> Never:
        """Tell the tester, and never return."""
        if (self.folder / "meeting").is_fifo():
            (self.folder / "meeting").write_text("hangs\n")
        super().hang()

    def _faults_in(self, turn: int, prompt: str) -> Faults:
        orders = dict(_ORDER.findall(prompt))
        if turn not in {0, *self.recorded} and orders:  # a turn may ask for its faults more than once
            self.recorded.add(turn)
            with (self.folder / "prompts").open("a") as prompts:
                prompts.write(json.dumps(prompt) + "\n")
        self.faults = parsed([*self.always, *shlex.split(orders.get("fault", ""))])
        return self.faults

    def _model(self, request: ModelRequest) -> Answer:
        prompts = [str(message["content"]) for message in request.messages if message["role"] == "user"]
        orders: dict[str, str] = dict(_ORDER.findall(prompts[-1]))
        word, _, text = orders.get("do", "").partition(" ")
        last, tool = request.messages[-1], tool_here(self.contract)
        match word:
            case "hang":
                self.hang()
            case "fail":
                return Failed("401", "key refused", 401)
            case "act" if tool and last["role"] == "user":
                return call_of(tool)
            case "act" | "say":
                return text.replace("RESULT", str(last["content"]))
        return f"turn {len(prompts)} of {os.getpid()}"
