"""The server's pages in a real Chromium, on simulated engines."""

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.browser.axe import violations
from tests.browser.chromium import DESKTOP, PHONE, Browser
from tests.browser.server import PageServer, page_server, simulated
from tests.patience import PATIENCE
from turngate import engine_names
from turngate_reference.server import web
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store

STATIC = Path(web.__path__[0]) / "page/static"
TOKEN = "a-token-of-26-characters.."
CARDS = "document.querySelectorAll('article.card').length"
STATUS = "document.getElementById('status').textContent"
STATE = "document.querySelector('.strip .state').innerText"
PATHS = ("/", "/runs", "/new", "/runs/{}", "/runs/nothing")
FIELDS = {
    "kind": "fill_fields",
    "prompt": "Which account?",
    "options": ["new", "old"],
    "required_fields": ["name", "e-mail <b>"],
    "context": {"why": "to log in"},
}
ASKS = {"engine": "codex", "prompt": "Paint the door.", "execution_mode": "interactive"}


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[PageServer]:
    """Serve two simulated engines."""
    env = simulated(tmp_path, "codex@0.169.0", "gemini@0.61.0")
    with page_server(tmp_path / "data", env, "--no-token") as server:
        yield server


def asked(server: PageServer, **more: str) -> str:
    """Create a run and wait for its question; return its id."""
    run_id = server.create(**ASKS | more)
    server.follow(run_id, "waiting_user")
    return run_id


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_a_run_is_started_answered_after_a_crash_and_succeeds(
    tab: Browser,
    server: PageServer,
    size: tuple[int, int],
    script: bool,  # noqa: FBT001
) -> None:
    """The run survives a crash of the server, with script and without, where the reader reloads the page."""
    tab.open(f"{server.url}/new", size, script=script)
    tab.ask("document.querySelector('[name=engine]').value = 'codex'")
    tab.click("[name=prompt]")
    tab.type("Paint the door.")
    tab.follow("button.main")
    run_id = tab.ask("location.pathname").rpartition("/")[2]
    server.follow(run_id, "waiting_user")
    tab.open(server.url, size, script=script)
    assert tab.ask("document.querySelector('.ask').innerText") == "Which colour?"
    server.kill()
    server.start()
    tab.follow(".options button:nth-of-type(2)")
    assert tab.ask("document.querySelector('.notice').innerText") == f"Your reply to {run_id[-8:]} was sent."
    run = server.follow(run_id, "succeeded")
    assert run["turn_index"] == 2
    tab.open(f"{server.url}/runs/{run_id}", size, script=script)
    assert tab.ask(STATE) == "succeeded"
    assert tab.complaints() == []
    assert all(url.startswith(server.url) for url in tab.requested())


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_nothing_moves_when_the_connection_changes(tab: Browser, server: PageServer, size: tuple[int, int]) -> None:
    """A finger that is on its way to a button meets it."""
    asked(server)
    tab.open(server.url, size)
    tab.until(f"{STATUS} === 'Live'")
    said = dict.fromkeys(re.findall(r'tell\("(.*?)"\)', (STATIC / "page.js").read_text()))
    assert len(said) == 3
    for text in ("", *said):
        tab.ask(f"{STATUS.removesuffix('.textContent')}.textContent = {json.dumps(text)}")
        said[text] = tab.ask("document.querySelector('.options').getBoundingClientRect().top + scrollY")
    assert len(set(said.values())) == 1, said


@pytest.mark.parametrize("script", [True, False])
def test_a_sticky_process_gets_the_answer(
    tab: Browser,
    server: PageServer,
    script: bool,  # noqa: FBT001
) -> None:
    """The form lets the user choose the profile; the run's page says where each prompt went."""
    tab.open(f"{server.url}/new", script=script)
    tab.click("summary")
    tab.ask("document.querySelector('[name=engine]').value = 'codex'")
    tab.ask("document.querySelector('[name=interactive_profile]').value = 'sticky_process'")
    tab.click("[name=prompt]")
    tab.type("Paint the door.")
    tab.follow("button.main")
    run_id = tab.ask("location.pathname").rpartition("/")[2]
    server.follow(run_id, "waiting_user")
    assert server.call(f"/v1/runs/{run_id}")["interactive_profile"]["kind"] == "sticky_process"
    tab.open(f"{server.url}/runs/{run_id}", script=script)
    tab.follow(".options button")
    with urllib.request.urlopen(f"{server.url}/v1/runs/{run_id}/events", timeout=PATIENCE) as events:
        assert any(b"living_process" in line for line in events)
    tab.open(f"{server.url}/runs/{run_id}", script=script)
    said = tab.ask("document.querySelector('#events').textContent")
    assert said.index("turn 1: to a new process") < said.index("turn 2: to a living process")
    assert tab.complaints() == []


def test_an_open_inbox_follows_what_happens(tab: Browser, server: PageServer) -> None:
    """Questions appear and disappear without a reload, also after a server restart, and typed text stays."""
    tab.open(server.url)
    tab.until(f"{STATUS} === 'Live' && {CARDS} === 0")
    first = asked(server)
    tab.until(f"{CARDS} === 1 && document.title.startsWith('(1)')")
    tab.click("textarea")
    tab.type("a long ans")
    server.kill()
    tab.until(f"{STATUS} !== 'Live'")
    server.start()
    asked(server)
    tab.until(f"{STATUS} === 'Live' && {CARDS} === 2")
    tab.type("wer")
    assert tab.ask("[...document.querySelectorAll('textarea')].map(e => e.value).join('')") == "a long answer"
    question = server.call(f"/v1/runs/{first}/interaction")["pending"]
    server.call(
        f"/v1/runs/{first}/interaction/reply", {"interaction_id": question["interaction_id"], "response": "red"}
    )
    tab.until("document.querySelector('article.closed [role=alert]')")
    assert tab.ask("document.querySelector('article.closed textarea').value") == "a long answer"
    assert tab.ask("document.querySelectorAll('article.closed button:not([disabled])').length") == 0
    assert tab.ask("document.querySelector('#waiting').innerText.trim()[0]") == "1"


def test_an_open_run_follows_what_happens(tab: Browser, server: PageServer) -> None:
    """The page of a run shows the answer given elsewhere, the turns and the result without a reload."""
    run_id = asked(server)
    tab.open(f"{server.url}/runs/{run_id}")
    tab.until(f"{STATUS} === 'Live'")
    question = server.call(f"/v1/runs/{run_id}/interaction")["pending"]
    reply = {"interaction_id": question["interaction_id"], "response": "red"}
    server.call(f"/v1/runs/{run_id}/interaction/reply", reply)
    tab.until(f"{STATE} === 'succeeded'")
    tab.until("document.querySelectorAll('details.turn').length === 2")
    assert tab.ask("document.querySelectorAll('form.options').length") == 0
    said = tab.ask("document.querySelector('#talk').innerText")
    assert said.index("Which colour?") < said.index("You\u00a0·") < said.index("Turn 2") < said.index("Result")
    assert tab.ask("document.querySelector('.said.you .plain').innerText") == "red"
    assert tab.ask("document.querySelector('#fold-json').open") is False
    assert tab.ask("document.querySelector('#result-json').textContent") == json.dumps(
        server.call(f"/v1/runs/{run_id}")["final_data"], indent=2
    )


def test_the_keyboard_answers(tab: Browser, server: PageServer) -> None:
    """Tab moves from the skip link to the options in order, and only Enter sends one."""
    run_id = asked(server)
    tab.open(server.url)
    places = []
    while "red" not in places:
        tab.press("Tab")
        places.append(tab.ask("document.activeElement.innerText.trim()"))
        assert len(places) < 10
    assert places[0] == "Skip to the content"
    assert tab.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.enter()
    assert server.follow(run_id, "succeeded")["turn_index"] == 2


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_required_fields_are_a_form(tab: Browser, tmp_path: Path, size: tuple[int, int]) -> None:
    """A form with the options as choices is sent only when complete; a free text can be sent instead."""
    said = json.dumps({"outcome": "ask_user", "interaction": FIELDS})
    env = simulated(tmp_path, "codex@0.169.0") | {"TURNGATE_SIMULATE_REPLY": said}
    with page_server(tmp_path / "data", env, "--no-token", "--pass-env", "TURNGATE_SIMULATE_REPLY") as server:
        run_id = asked(server)
        first = server.call(f"/v1/runs/{run_id}/interaction")["pending"]["interaction_id"]
        tab.open(server.url, size)
        assert violations(tab) == []
        tab.click(".fields button")
        assert tab.ask("document.querySelector('.fields').checkValidity()") is False
        assert server.call(f"/v1/runs/{run_id}/interaction")["pending"]["interaction_id"] == first
        tab.click(".choice:nth-of-type(2) input")
        for number, text in enumerate(("Ada", "ada@example.org")):
            tab.click(f"[name=field-{number}]")
            tab.type(text)
        assert tab.ask("document.querySelector('.free textarea').required") is True
        tab.follow(".fields button")
        assert "was sent" in tab.ask("document.querySelector('.notice').innerText")
        # while the server runs: one that ends before the turn begins takes the reply back, and asks again
        with closing(Store(server.folder / "turngate.db")) as store:
            assert runs.last_answer(store, run_id, 2) == "old\nname: Ada\ne-mail <b>: ada@example.org"


def test_enter_in_a_text_allows_nothing(tab: Browser, server: PageServer) -> None:
    """A permission request has buttons but no text field, so Enter can't send an answer by accident."""
    run_id = asked(server, engine="gemini", interactive_profile="sticky_process")
    tab.open(f"{server.url}/runs/{run_id}")
    tab.follow(".options button")
    server.follow(run_id, "waiting_user")
    tab.until("document.querySelector('.step > summary')?.innerText.startsWith('Allow')")
    assert tab.ask("document.querySelectorAll('article textarea, article input:not([type=hidden])').length") == 0
    tab.click(".step > summary")
    tab.follow(".step[open] button")
    assert server.follow(run_id, "succeeded")["state"] == "succeeded"


def test_the_token_is_asked_for_once(tab: Browser, tmp_path: Path) -> None:
    """After the token is entered, the requested page opens and stays live; scripts can't read the session."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    with page_server(
        tmp_path / "data", simulated(tmp_path, "codex@0.169.0"), "--token-file", str(tmp_path / "token")
    ) as server:
        tab.open(f"{server.url}/runs?state=failed")
        tab.until("document.activeElement.name === 'token'")
        tab.type(TOKEN)
        tab.enter()
        assert tab.ask("location.pathname + location.search") == "/runs?state=failed"
        tab.until(f"{STATUS} === 'Live'")
        assert tab.ask("document.cookie") == ""
        server.kill()
        server.start()
        tab.open(server.url)
        assert "No run is waiting" in tab.ask("document.querySelector('h1').innerText")
        tab.follow(".leave button")
        assert tab.ask("document.querySelector('h1').innerText") == "Log in"


def test_the_printed_address_logs_in_once(tab: Browser, tmp_path: Path) -> None:
    """It leads to the inbox at a clean address, and no request has a Referer with the code; then it is void."""
    with page_server(tmp_path / "data", simulated(tmp_path, "codex@0.169.0")) as server:
        address = server.lines[1].split()[2]
        tab.open(address)
        assert tab.ask("location.href") == f"{server.url}/"
        assert "No run is waiting" in tab.ask("document.querySelector('h1').innerText")
        assert tab.ask("document.referrer") == ""
        tab.until(f"{STATUS} === 'Live'")
        assert not any("code=" in header for header in tab.referrers())
        tab.follow(".leave button")
        tab.open(address)
        assert tab.ask("location.pathname") == "/login"
        assert "used before" in tab.ask("document.querySelector('[role=alert]').innerText")


def test_every_engine_is_listed(tab: Browser, server: PageServer) -> None:
    """Installed engines come first, the others can't be chosen, and one of the first is."""
    tab.open(f"{server.url}/new")
    offered = tab.ask("[...document.querySelector('[name=engine]').options].map(e => [e.value, e.disabled])")
    assert [name for name, is_missing in offered[:2] if not is_missing] == ["codex", "gemini"]
    assert sorted(offered[2:]) == [[name, True] for name in engine_names() if name not in ("codex", "gemini")]
    assert tab.ask("document.querySelector('[name=engine]').value") == "codex"
    for installed in (server.folder.parent / "bin").glob("*"):
        installed.unlink()
    tab.open(f"{server.url}/new")
    assert "No engine is on the server's PATH." in tab.ask("document.querySelector('form.new').innerText")
    assert violations(tab) == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_accessible(
    tab: Browser,
    server: PageServer,
    size: tuple[int, int],
    dark: bool,  # noqa: FBT001
) -> None:
    """axe-core finds no violation on any page, and no page is wider than the screen."""
    waiting = asked(server)
    asked(server, engine="gemini", interactive_profile="sticky_process")
    for path in PATHS:
        tab.open(server.url + path.format(waiting), size, dark=dark)
        tab.ask("document.querySelectorAll('details').forEach(e => e.open = true)")
        assert violations(tab) == [], path
        assert tab.ask("document.documentElement.scrollWidth") == size[0], path
        ground = tab.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
        assert (ground < 64) is dark
