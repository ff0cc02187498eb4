"""What a contract says of starting and resuming its engine, of callers' options, and of flags that widen approval."""

import re
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from turngate.contract.values import NOT_EMPTY, Flag, Regex, Rule, Strings, Text, Texts, either, has, matching

Stream = Literal["stdout", "stderr"]
Template = Annotated[tuple[Annotated[str, matching(r"^(\{(options|prompt)\}|[^{}]*(\{handle\})?)$")], ...], NOT_EMPTY]


class HelpPage(Struct, frozen=True):
    """A help page.

    argv: Arguments after the executable.
    names: Flags or subcommands that the page must name as whole words.
    """

    argv: Strings
    names: Texts
    stream: Stream = "stdout"

    def missing(self, printed: str) -> Strings:
        """Return the names that the page should hold as whole words, and does not."""
        return tuple(n for n in self.names if not re.search(rf"(?<![\w-]){re.escape(n)}(?![\w-])", printed))


class Help(Struct, frozen=True):
    """Help pages, and what the contract uses of them."""

    pages: Annotated[tuple[HelpPage, ...], NOT_EMPTY]


class UsageRefusal(Struct, frozen=True):
    """Prompts that a channel can't carry unaltered, and why."""

    pattern: Regex
    why: Text


class PromptChannel(Struct, frozen=True):
    """One way in which a prompt travels.

    tokens: What replaces {prompt} in the template; {text} is the prompt itself.
    max_bytes: The longest prompt in bytes of UTF-8.
    refuses: Prompts that this way can't carry unaltered.
    """

    via: Literal["argument", "stdin"]
    tokens: Strings
    max_bytes: Annotated[int, Meta(ge=1)] | None = None
    refuses: tuple[UsageRefusal, ...] = ()


class Launch(Struct, frozen=True):
    """The argv of a first turn and of a resume.

    A token that is a slot alone ({options}, {prompt}) is replaced by any number of tokens. {handle} stands for the
    session id.

    prompt: Ways in which the prompt travels; the first that can carry it is taken.
    auto: Options passed in mode auto, and never in mode interactive.
    model: Options that choose a model; {model} is its name.
    interactive: Options passed in mode interactive, where the engine acts without asking unless told otherwise.
    """

    start: Template
    resume: Template
    prompt: Annotated[tuple[PromptChannel, ...], NOT_EMPTY]
    auto: Strings
    model: Strings
    interactive: Annotated[Strings, NOT_EMPTY] = ()

    def resume_names(self, page: HelpPage) -> frozenset[str]:
        """Return the names on a page that only a resume needs.

        They are the flags and subcommands that the resume argv has and the start argv lacks, and every name on the help
        page of such a subcommand.
        """
        words = {token for token in self.resume if "{" not in token} - {*self.start}
        return frozenset(page.names if words & {*page.argv} else words & {*page.names})


class Option(Struct, frozen=True):
    """An option that callers may pass, since the contract can place it. Any other is refused.

    value: none: a switch; required: one value, as the next token or after `=`; many: may be repeated, one value each.
    on_resume: omit: a resume can't carry it; the session keeps what the first turn set.
    """

    flag: Flag
    value: Literal["none", "required", "many"]
    aliases: tuple[Flag, ...] = ()
    on_resume: Literal["keep", "omit"] = "keep"


class AutoKey(Struct, frozen=True):
    """A key of `--config key=value` that widens approval or sandbox unless its value is safe."""

    key: Text
    safe_values: Texts = ()


class AutoFlag(Struct, frozen=True):
    """A flag that widens approval or sandbox so that the engine acts without asking.

    safe_values: Values with which the flag widens nothing. Any other value, known or not, counts. Absent: the flag
        itself counts.
    keys: For `--config key=value` flags: keys that count, unless the value is safe.
    """

    flag: Flag
    aliases: tuple[Flag, ...] = ()
    safe_values: Texts | None = None
    keys: Annotated[tuple[AutoKey, ...], NOT_EMPTY] = ()


class ApprovalSign(Struct, frozen=True):
    """What requests to the model show of the approval in force.

    tools: Tools that are offered only by an engine that acts without asking.
    pattern: Finds the approval in the body of a request: its group `value`.
    safe_values: Values of the group with which the engine asks, or acts on nothing.
    """

    RULE: ClassVar[Rule] = either(has("pattern"), ("pattern", "safe_values"), ("tools",))

    tools: Annotated[Texts, NOT_EMPTY] = ()
    pattern: Annotated[Regex, matching(r"\(\?P<value>")] | None = None
    safe_values: Annotated[Texts, NOT_EMPTY] = ()


class LostTools(Struct, frozen=True):
    """Tools that a headless interactive turn can't use, though one in mode auto can.

    why: What becomes of them.
    """

    tools: Annotated[Texts, NOT_EMPTY]
    why: Text
