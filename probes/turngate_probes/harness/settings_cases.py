"""Cases that surround an engine with what a user has and a stranger offers: settings, a repository, marks in prompts.

Each setting and each file would have an effect by itself. First the engine runs as turngate runs it, a first turn and a
resume, and nothing may happen. Then a control run tries each of them in a fresh home, without what guards the engine.
If nothing happens there either, the silence before has shown nothing. Entries are tried together, since each turn costs
seconds, except those that the contract marks as `alone`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import TypeVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from turngate import EngineContract, Mode, RefusedError
from turngate.argv.build import without_guards
from turngate.argv.file_marks import check_file_marks
from turngate.contract.home_and_workspace import ApprovalSetting, OutputSetting, Redirect, SetupFile, ToolUse
from turngate_probes.harness.driver import ASK, FINAL, TOOL_PATIENCE, Ask, EngineDriver, Write, ask
from turngate_probes.harness.sandbox import CONTAINER_PROGRAMS, Stranger
from turngate_probes.stub_model import StubBackend, new_nonce

OFFLINE_PATIENCE = 5.0  # seconds beyond the allowance for a start, for a turn that can't reach its model
MODES = (Mode.AUTO, Mode.INTERACTIVE)
# how prompts name files in the engines that read them; {path} is outside the workspace, {name} its last part
MARKS = (
    "@{path}",
    '@"{path}"',
    "@file://{path}",
    "@~/{name}",
    "@../{name}",
    "@{{{path}}}",
    "!{{cat {path}}}",
    "#{path}",
)
SECRET = "secret-note.txt"

_Entry = TypeVar("_Entry", bound=ApprovalSetting | Redirect | OutputSetting)


def own_settings(driver: EngineDriver) -> None:
    """Let the model ask for a write and a command where the user's settings would allow both.

    Where these turns run under the release's own model, one under another model makes all calls.
    """
    contract = driver.contract
    tools = calls(contract, contract.approval_settings)
    for name, settings in groups(contract.approval_settings).items():
        for call, tool in calls(contract, settings).items():
            step, inside = f"{name}-{call}", with_settings(driver, f"{name}-{call}", settings)
            first = inside.start(step, _asking_for(tool))
            if first.session is not None:
                inside.resume(f"{step}-again", first.session, replace(_asking_for(tool), turn_index=2))
        if tools and asks_for_another_model(contract):
            step = under_asked_model(name)
            inside = with_settings(driver, step, settings)
            inside.start(step, _making_all_calls(inside, settings))
    for setting in contract.approval_settings if tools else ():
        step = control_of(setting)
        control = _without_guards(with_settings(driver, step, (setting,)))
        shown = tools.get(setting.name if setting.tool else setting.shows)
        control.start(step, replace(_asking_for(shown), mode=Mode.AUTO))


def own_settings_turns(contract: EngineContract) -> int:
    """Return how many turns `own_settings` plans."""
    settings = contract.approval_settings
    if not calls(contract, settings):
        return 0
    grouped = groups(settings).values()
    called = sum(len(calls(contract, together)) for together in grouped)
    return 2 * called + asks_for_another_model(contract) * len(grouped) + len(settings)


def workspace(driver: EngineDriver) -> None:
    """Run both modes in the repository of a stranger, then a control run for each thing in it."""
    # without the address of its backend, an engine turns to its vendor
    driver.sandbox.backend.ignore_egress()
    for mode in MODES:
        for name, redirects in groups(driver.contract.redirects).items():
            step = f"{mode}-{name}"
            with in_repository(driver, step, redirects) as inside:
                _visit(inside, step, mode, redirects)
    for redirect in driver.contract.redirects:
        step = control_of(redirect)
        with in_repository(driver, step, (redirect,)) as inside:
            settle_in(inside, (redirect,))
            inside.sandbox.place(redirect.control.files)
            options = tuple(map(inside.sandbox.fill, redirect.control.options))
            asked = replace(ask(FINAL, mode=Mode.AUTO), options=options)
            if redirect.unset or redirect.kind == "address":
                asked = _offline(asked, driver.contract, (redirect,))
            _without_guards(inside.within(inside.sandbox, {}, redirect.unset)).start(step, asked)


def workspace_turns(contract: EngineContract) -> int:
    """Return how many turns `workspace` plans."""
    grouped = groups(contract.redirects).values()
    visits = sum(3 if unset(redirects) else 2 for redirects in grouped)
    return len(MODES) * visits + len(contract.redirects)


def file_marks(driver: EngineDriver) -> None:
    """Name a file outside the workspace in every way that no contract forbids, then, as a control, in the others.

    After the first turn, also one in each folder for temporary files that the engine made in the home.
    The workspace has instructions, which the turns of mode interactive may send.
    """
    box, secret = driver.sandbox, new_nonce()
    for folder in (box.root, box.home):
        (folder / SECRET).write_text(f"{secret}\n", "utf-8")
    marks = [mark.format(path=box.root / SECRET, name=SECRET) for mark in MARKS]
    text = instruct(driver)
    accepted = [mark for mark in marks if not _is_refused(driver, mark)]
    first = driver.start("first", replace(_naming(accepted), instructions=text))
    for folder in filter(Path.is_dir, (*box.home.glob(".*/tmp"), *box.home.glob(".*/tmp/*"))):
        (folder / SECRET).write_text(f"{secret}\n", "utf-8")
        marks.append(f"@{folder / SECRET}")
    refused = [mark for mark in marks if _is_refused(driver, mark)]
    accepted = [mark for mark in marks if mark not in refused]
    if first.session is not None:
        driver.resume("again", first.session, replace(_naming(accepted), turn_index=2, instructions=text))
    if refused:
        driver.start("control", _naming(refused))


def file_marks_turns(contract: EngineContract) -> int:
    """Return how many turns `file_marks` plans."""
    return 3 if contract.file_marks else 2


def instruct(driver: EngineDriver) -> str:
    """Write the first instruction file of the contract into the workspace; return its text, empty if there is none."""
    if driver.contract.instructions is None:
        return ""
    # not in the form of a nonce, which marks prompts
    text = f"The code word of this project is heron-{token_hex(8)}."
    driver.sandbox.place([SetupFile(f"{{work}}/{driver.contract.instructions.path}", f"{text}\n")])
    return text


def groups(entries: Sequence[_Entry]) -> dict[str, tuple[_Entry, ...]]:
    """Return the entries that are tried in the same turns, by a name for these turns."""
    grouped = dict[str, tuple[_Entry, ...]]()
    for entry in entries:
        offline = isinstance(entry, Redirect) and entry.unset
        name = entry.name if entry.alone else "offline" if offline else "all"
        grouped[name] = (*grouped.get(name, ()), entry)
    return grouped


def calls(contract: EngineContract, settings: Sequence[ApprovalSetting] = ()) -> Mapping[str, ToolUse]:
    """Return what the model asks for: the calls of `hermetic` by their keys, those of the settings by their names."""
    named = {"tool_call": contract.hermetic.tool_call, "command_call": contract.hermetic.command_call}
    own = {setting.name: setting.tool for setting in settings}
    return {name: tool for name, tool in (named | own).items() if tool is not None}


def asks_for_another_model(contract: EngineContract) -> bool:
    """Whether turns run under the release's own model, so that some ask for one that it doesn't know."""
    return bool(contract.hermetic.default_model and contract.launch.model)


def under_asked_model(name: str) -> str:
    """Return the step of the turn with these settings that asks for the contract's model."""
    return f"{name}-asked-model"


def control_of(entry: ApprovalSetting | Redirect) -> str:
    """Return the step of an entry's control run."""
    return f"control-{entry.name}"


def with_settings(driver: EngineDriver, name: str, settings: Sequence[ApprovalSetting]) -> EngineDriver:
    """Return the driver of a sandbox of this name, whose user has the settings."""
    box = driver.sandbox.nested(name, driver.contract.hermetic)
    if any(setting.tool for setting in settings):
        box.offer_mcp_server()
    box.place(chain.from_iterable(setting.files for setting in settings))
    variables = {name: box.fill(value) for setting in settings for name, value in setting.env.items()}
    return driver.within(box, variables)


def _asking_for(tool: ToolUse | None) -> Ask:
    return replace(ask(FINAL), tool=tool, patience=TOOL_PATIENCE)


def _making_all_calls(driver: EngineDriver, settings: Sequence[ApprovalSetting]) -> Ask:
    """Return a turn that asks for the contract's model, which makes all calls, one after the other."""
    contract, work = driver.contract, driver.sandbox.work
    (_, first), *others = calls(contract, settings).items()
    writes = tuple(Write(call, driver.call_of(tool, direct=True), work / tool.creates_file) for call, tool in others)
    return replace(_asking_for(first), model=contract.hermetic.model, writes=writes)


@contextmanager
def in_repository(driver: EngineDriver, name: str, redirects: tuple[Redirect, ...]) -> Iterator[EngineDriver]:
    """Yield the driver of a sandbox of this name, whose workspace is a stranger's, though nothing is in it yet."""
    with StubBackend() as address:
        box = driver.sandbox.nested(name, driver.contract.hermetic)
        yield driver.within(replace(box, stranger=Stranger(address, redirects)), {})


def settle_in(driver: EngineDriver, redirects: tuple[Redirect, ...]) -> None:
    """Put redirects into the workspace of a stranger."""
    box = driver.sandbox
    assert box.stranger is not None  # noqa: S101 - it is what this sandbox was made for
    box.offer_programs(*CONTAINER_PROGRAMS)
    for redirect in redirects:
        box.place(redirect.files, **box.stranger.slots(redirect))


def _visit(driver: EngineDriver, step: str, mode: Mode, redirects: tuple[Redirect, ...]) -> None:
    """Run a first turn and a resume; without a model, the resumed session is one from before."""
    missing = unset(redirects)
    opening = driver.start(f"{step}-opening", ask(ASK, mode=mode)) if missing else None
    settle_in(driver, redirects)
    asked, again = ask(ASK, mode=mode), ask(FINAL, mode=mode, turn_index=2)
    if missing:
        asked, again = (_offline(one, driver.contract, redirects) for one in (asked, again))
    inside = driver.within(driver.sandbox, {}, missing)
    first = inside.start(f"{step}-first", asked)
    if (resumed := opening or first).session is not None:
        inside.resume(f"{step}-again", resumed.session, again)


def unset(redirects: Sequence[Redirect]) -> tuple[str, ...]:
    """Return the variables that redirects need to be unset."""
    return tuple(dict.fromkeys(name for redirect in redirects for name in redirect.unset))


def _offline(asked: Ask, contract: EngineContract, redirects: Sequence[Redirect]) -> Ask:
    addresses = (urlsplit(contract.guards.env.get(name, "")).hostname for name in unset(redirects))
    vendor = frozenset(filter(None, (*addresses, *contract.hermetic.vendor)))
    return replace(asked, offline=True, patience=OFFLINE_PATIENCE, vendor=vendor)


def _without_guards(driver: EngineDriver) -> EngineDriver:
    return replace(driver, contract=without_guards(driver.contract))


def _is_refused(driver: EngineDriver, mark: str) -> bool:
    try:
        check_file_marks(driver.contract, f"See {mark} please", driver.sandbox.work)
    except RefusedError:
        return True
    return False


def _naming(marks: Sequence[str]) -> Ask:
    nonce = new_nonce()
    return Ask(f"Ask me which colour I like. See {' and '.join(marks)} please. {nonce}", nonce, ASK)
