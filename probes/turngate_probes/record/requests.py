"""The requests in recordings: the parts that clauses judge, and a short form of very long prompts."""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from turngate import ContractError, EngineContract
from turngate.decoding import decode
from turngate.sanitize import bounded
from turngate_probes.harness.cases import FILLER
from turngate_probes.harness.observations import Turn
from turngate_probes.record.recording import LongPrompt
from turngate_probes.stub_model import NONCE, Exchange

LONG = 4000
MARK = "<prompt>"
CUT = "[…]"
REQUESTS = "requests.ndjson"
FILES = ("recording.yaml", "provenance.yaml", "stdout", "stderr", REQUESTS)
MAX_TEXTS = 12
MAX_SIGNS = 12
MAX_SIGN = 100
MAX_SHORT = 300
MAX_NAME = 128
HINT = "record the release again, or keep only what `RecordedRequest` lists and the prompts that turngate sent"

ToolName = Annotated[str, Meta(pattern=rf"^\S{{1,{MAX_NAME}}}$")]
Nonce = Annotated[str, Meta(pattern=f"^{NONCE.pattern}$")]
Short = Annotated[str, Meta(max_length=MAX_SHORT)]


def shortened(text: str) -> str | LongPrompt:
    """Return a long text with the cases' filler as the text before it, the filler's length, and the text after it."""
    start = text.find(FILLER)
    if len(text) <= LONG or start < 0:
        return text
    end = start
    while end < len(text) and text[end] == FILLER[(end - start) % len(FILLER)]:
        end += 1
    return LongPrompt(text[:start], FILLER, end - start, text[end:])


def lengthened(prompt: str | LongPrompt) -> str:
    """Return the original of a shortened text; a plain text is unchanged."""
    if isinstance(prompt, str):
        return prompt
    filled = prompt.repeated * (prompt.characters // len(prompt.repeated) + 1)
    return prompt.before + filled[: prompt.characters] + prompt.after


class RecordedRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of `requests.ndjson`; the fields that `Exchange` has mean the same here.

    Attributes:
        user_texts: the prompts and nonces from turngate in the user's texts, with CUT for the rest.
        signs: what matched the contract's `approval_signs` patterns in the body.
        size: bytes of the body with volatile text replaced; None in recordings made before sizes were kept.
        repeated: whether there were more requests like this one.
    """

    method: Short
    path: Short
    protocol: Short | None
    model: Short | None
    nonces: tuple[Nonce, ...]
    tools: tuple[ToolName, ...]
    user_texts: tuple[str, ...]
    reply: Short
    signs: tuple[Annotated[str, Meta(max_length=MAX_SIGN)], ...] = ()
    size: int | None = None
    repeated: bool = False

    def exchange(self, prompt: str) -> Exchange:
        """Return the request that the backend received in the turn of this prompt; its body has only the signs."""
        texts = (text.replace(MARK, prompt) if len(prompt) > LONG else text for text in self.user_texts)
        return Exchange(
            at=0.0,
            method=self.method,
            path=self.path,
            protocol=self.protocol,
            model=self.model,
            user_texts=tuple(texts),
            nonces=self.nonces,
            tools=self.tools,
            body="\n".join(self.signs).encode(),
            reply=self.reply,
            size=self.size,
        )


def read_requests(case: Path) -> tuple[RecordedRequest, ...] | None:
    """Read the requests of a recording's folder; None if they were not observed. ContractError names the line."""
    file = case / REQUESTS
    if not file.exists():
        return None
    requests = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            requests.append(decode(line, RecordedRequest))
        except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
            raise ContractError(str(wrong), str(file), number, 1, hint=HINT) from None
    return tuple(requests)


def own_text(text: str, prompts: Iterable[str]) -> str | None:
    """Return turngate's parts of a user's text: prompts that fill whole lines, and nonces; None if there are none.

    Everything else becomes CUT; a prompt longer than LONG becomes MARK. Passing the result again changes nothing.
    """
    text, prompts = text.strip(), set(prompts)
    for long in (prompt for prompt in prompts if len(prompt) > LONG):
        text = text.replace(long, MARK)
    tokens = sorted({MARK if len(prompt) > LONG else prompt for prompt in prompts}, key=len, reverse=True)
    pattern = "|".join([*(f"^{re.escape(token)}$" for token in tokens if token), NONCE.pattern])
    matches = [*re.finditer(pattern, text, re.MULTILINE)][-MAX_TEXTS:]
    parts, end = list[str](), 0
    for match in matches:
        parts += [_gap(text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*parts, _gap(text[end:])]) if matches else None


def own_texts(texts: Iterable[str], prompts: Collection[str]) -> Iterator[str]:
    """Return turngate's parts of each text, without texts that have none."""
    return (own for text in texts if (own := own_text(text, prompts)) is not None)


def approval_signs(body: str, contract: EngineContract) -> tuple[str, ...]:
    """Return the matches of the contract's approval patterns in a body, without duplicates and very long matches."""
    patterns = (sign.pattern for sign in contract.approval_signs if sign.pattern is not None)
    matches = (match[0] for pattern in patterns for match in re.finditer(pattern, body))
    return tuple(dict.fromkeys(sign for sign in matches if len(sign) <= MAX_SIGN))[:MAX_SIGNS]


def excess(release: Path, turns: Collection[Turn], contract: EngineContract) -> Iterator[ContractError]:
    """Return errors for forbidden content in the recordings of a release, with file, line and key."""
    prompts: dict[str, set[str]] = {}
    for turn in turns:
        prompts.setdefault(turn.name.partition("/")[0], set()).add(turn.prompt)
    patterns = [sign.pattern for sign in contract.approval_signs if sign.pattern is not None]
    for turn in turns:
        folder = release / turn.name.replace("/", "-")
        for file in sorted(path for path in folder.iterdir() if path.name not in FILES):
            yield ContractError("is not a file of a recording", str(file), hint="delete it")
        for number, request in enumerate(read_requests(folder) or (), 1):
            for i, text in enumerate(request.user_texts):
                if own_text(text, prompts[turn.name.partition("/")[0]]) != text:
                    message = f"contains text that turngate did not send: {bounded(text, MAX_SIGN)}"
                    yield ContractError(message, str(folder / REQUESTS), number, 1, f"$.user_texts[{i}]", HINT)
            for i, sign in enumerate(request.signs):
                if not any(re.fullmatch(pattern, sign) for pattern in patterns):
                    message = f"is not an approval sign of {contract.engine}: {bounded(sign, MAX_SIGN)}"
                    yield ContractError(message, str(folder / REQUESTS), number, 1, f"$.signs[{i}]", HINT)


def tool_name(name: str) -> str:
    """Return a tool's name for a recording: bounded, without white space."""
    return re.sub(r"\s", "_", name)[:MAX_NAME] or "_"


def _gap(text: str) -> str:
    """Return the replacement of a foreign text; the line break next to turngate's text stays."""
    if not text.strip():
        return text and ("\n" if "\n" in text else " ")
    return ("\n" if text.startswith("\n") else "") + CUT + ("\n" if text.endswith("\n") else "")
