"""Parses an engine's output into records, and writes them back in the same framing."""

import json
from dataclasses import dataclass
from typing import Any

from turngate.contract.engine_contract import Framed


@dataclass
class Printed:
    """The records of a stream, and the text before a tagged block."""

    framed: Framed
    before: bytes
    records: list[dict[str, Any]]

    def data(self) -> bytes:
        """Return the records as bytes."""
        if self.framed.framing == "ndjson":
            lines = [json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in self.records]
            return "".join(lines).encode()
        texts = [json.dumps(record, ensure_ascii=False, indent=2) for record in self.records]
        if self.framed.framing == "tagged_block":
            texts = [f"<{self.framed.tag}>\n{text}\n</{self.framed.tag}>" for text in texts]
        return self.before + "".join(text + "\n" for text in texts).encode()


def printed(framed: Framed, data: bytes) -> Printed:
    """Parse a stream; a plain-text stream has no records."""
    if framed.framing == "ndjson":
        return Printed(framed, b"", [json.loads(line) for line in data.split(b"\n") if line])
    if framed.framing == "json_document":
        return Printed(framed, b"", [json.loads(data)] if data.strip() else [])
    if framed.framing == "tagged_block":
        before, _, rest = data.partition(f"<{framed.tag}>\n".encode())
        block, closed, _ = rest.partition(f"</{framed.tag}>".encode())
        return Printed(framed, before, [json.loads(block)] if closed else [])
    raise ValueError("a stream of text has no records")
