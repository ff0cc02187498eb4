"""Collects the agent's last text out of the texts of a turn, in time and memory that its length bounds."""

MAX_FINAL = 32 * 2**20


class Answer:
    """The last text; texts of the same group are one answer, kept up to `MAX_FINAL` bytes of UTF-8."""

    def __init__(self) -> None:
        self._group: str | int | None = None
        self._alone: str | None = None
        # bytes grow in place, where joining text to text would copy all of it each time
        self._joined = bytearray()

    def take(self, text: str, group: str | int | None) -> None:
        """Take the next text; one without a group (None) stands alone."""
        if group is None:
            self._alone, self._group = text, None
            return
        if group != self._group:
            self._joined, self._group = bytearray(), group
        if len(self._joined) < MAX_FINAL:
            self._joined += text.encode()[: MAX_FINAL - len(self._joined)]

    @property
    def text(self) -> str | None:
        """The answer as far as it has come; None as long as there is none."""
        # the limit may fall within a character
        return self._alone if self._group is None else self._joined.decode("utf-8", "ignore")
