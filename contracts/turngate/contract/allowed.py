"""What callers may pass in mode interactive: a list of what is allowed, each entry with its evidence."""

import re
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from turngate.contract.values import NOT_EMPTY, Regex, Rule, Texts, either, has, matching
from turngate.contract.versions import ClaimEvidence


class AllowedValues(Struct, frozen=True, kw_only=True):
    """Values that are allowed: those of a list, or those that match a pattern as a whole."""

    values: Annotated[Texts, NOT_EMPTY] = ()
    pattern: Regex | None = None

    def allow(self, value: str) -> bool:
        """Whether a value is one of them."""
        return value in self.values if self.pattern is None else re.fullmatch(self.pattern, value) is not None


class AllowedKey(AllowedValues, frozen=True, kw_only=True):
    """A key of a `key=value` option that callers may set in mode interactive.

    key: The whole key, as callers must write it.
    values: The values that it takes. Callers may put them in quotes.
    pattern: Matches the whole value, without quotes round it.
    """

    RULE: ClassVar[Rule] = either(has("pattern"), ("pattern",), ("values",))

    key: Annotated[str, matching(r"^[A-Za-z_][A-Za-z0-9_.-]*$")]


class InteractiveUse(AllowedValues, frozen=True, kw_only=True):
    """What callers may pass of an option in mode interactive. Anything else is refused.

    An option with a value has one of `values`, `pattern`, `path` and `keys`; a switch has none.

    evidence: What shows that it starts no program, widens no approval, and does not leave the workspace.
    values: The values that it takes.
    pattern: Matches the whole value.
    path: workspace: the value is a path in the run's workspace, also where it leads through symbolic links.
    keys: The keys that a `key=value` option takes.
    """

    evidence: Annotated[tuple[ClaimEvidence, ...], NOT_EMPTY]
    path: Literal["workspace"] | None = None
    keys: Annotated[tuple[AllowedKey, ...], NOT_EMPTY] = ()
