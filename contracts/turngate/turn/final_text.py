"""The agent's last text, collected in bounded memory."""

from collections.abc import Callable
from typing import Any

from turngate.turn.paths import Record, both, getter

MAX_FINAL = 32 * 2**20


class FinalText:
    """The last text; texts of the same group are one answer, kept up to `MAX_FINAL` bytes of UTF-8."""

    def __init__(self) -> None:
        self._group: str | int | None = None
        # bytes grow in place; joining texts would copy all of them each time
        self._joined: bytearray | None = None
        # the texts after those that are joined
        self._parts: list[str] = []

    def observer(
        self, field: str, group: str | None, on_text: Callable[[str], None] | None
    ) -> Callable[[Record, int], None]:
        """Return an observer of records that takes the text at path `field` of each; `on_text` gets every text.

        Texts with the same value at path `group` belong together (None: each is an answer by itself).
        """
        text_of, take, parts = getter(field), self.take, self._parts

        def observe(record: Record, _index: int) -> None:
            text = text_of(record)
            if text.__class__ is str:
                if on_text:
                    on_text(text)
                parts[:] = (text,)

        def observe_part(text: Any, group: Any) -> None:
            if text.__class__ is not str:
                return
            if on_text:
                on_text(text)
            if group.__class__ is str and group == self._group:
                parts.append(text)
            else:
                take(text, group if isinstance(group, str | int) else None)

        return both(field, group, observe_part) if group else observe

    def take(self, text: str, group: str | int | None) -> None:
        """Take the next text; one without a group (None) is an answer by itself."""
        if group is None or group != self._group:
            self._group, self._joined = group, None
            self._parts.clear()
        self._parts.append(text)

    def join(self) -> None:
        """Join the texts so far, so that many small ones take no more space than one; to be called now and then."""
        if self._joined is None:
            if not self._parts[1:]:
                return
            self._joined = bytearray()
        self._joined += "".join(self._parts).encode()
        self._parts.clear()
        del self._joined[MAX_FINAL:]

    @property
    def text(self) -> str | None:
        """The answer so far; None if there is none yet."""
        self.join()
        if self._joined is not None:
            # the limit may split a character
            return self._joined.decode("utf-8", "ignore")
        # a single text is within the limit, since a record is, and JSON takes no less space than the text in it
        return self._parts[0] if self._parts else None
