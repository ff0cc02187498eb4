"""What callers may pass in mode interactive: a list of what is allowed, each entry with its evidence."""

import re
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from turngate.contract.values import NOT_EMPTY, Regex, Rule, Texts, either, has, matching
from turngate.contract.versions import ClaimEvidence


class AllowedValues(Struct, frozen=True, kw_only=True):
    """Allowed values: a list, or a pattern that must match the whole value."""

    values: Annotated[Texts, NOT_EMPTY] = ()
    pattern: Regex | None = None

    def allow(self, value: str) -> bool:
        """Whether a value is allowed."""
        return value in self.values if self.pattern is None else re.fullmatch(self.pattern, value) is not None


class AllowedKey(AllowedValues, frozen=True, kw_only=True):
    """A key of a `key=value` option that callers may set in mode interactive.

    key: The whole key, exactly as callers must write it.
    values: The allowed values. Callers may quote them.
    pattern: Matches the whole value without its quotes.
    """

    RULE: ClassVar[Rule] = either(has("pattern"), ("pattern",), ("values",))

    key: Annotated[str, matching(r"^[A-Za-z_][A-Za-z0-9_.-]*$")]


class InteractiveUse(AllowedValues, frozen=True, kw_only=True):
    """The values of an option that callers may pass in mode interactive. All others are rejected.

    An option with a value has one of `values`, `pattern`, `path` and `keys`. A switch has none.

    evidence: Shows that the option starts no program, widens no approval, and stays in the workspace.
    values: The allowed values.
    pattern: Matches the whole value.
    path: workspace: the value is a path in the run's workspace, even after resolving symbolic links.
    keys: The allowed keys of a `key=value` option.
    """

    evidence: Annotated[tuple[ClaimEvidence, ...], NOT_EMPTY]
    path: Literal["workspace"] | None = None
    keys: Annotated[tuple[AllowedKey, ...], NOT_EMPTY] = ()
