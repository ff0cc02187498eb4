"""The agent's last text, collected in bounded memory."""

MAX_FINAL = 32 * 2**20


class FinalText:
    """The last text; texts of the same group are one answer, kept up to `MAX_FINAL` bytes of UTF-8."""

    def __init__(self) -> None:
        self._group: str | int | None = None
        self._only: str | None = None
        # bytes grow in place; joining texts would copy all of them each time
        self._joined: bytearray | None = None

    def take(self, text: str, group: str | int | None) -> None:
        """Take the next text; one without a group (None) is an answer by itself."""
        if group is None or group != self._group:
            self._group, self._only, self._joined = group, text, None
            if len(text) * 4 <= MAX_FINAL:  # bytes of a character, at most
                return
            self._joined, self._only = bytearray(), None
        elif self._joined is None:
            self._joined = bytearray((self._only or "").encode())
        self._joined += text.encode()
        if len(self._joined) > MAX_FINAL:
            del self._joined[MAX_FINAL:]

    @property
    def text(self) -> str | None:
        """The answer so far; None if there is none yet."""
        # the limit may split a character
        return self._only if self._joined is None else self._joined.decode("utf-8", "ignore")
