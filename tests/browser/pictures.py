"""Takes the pictures of the server's page for the docs: `python -m tests.browser.pictures` or `make readme`."""

import tempfile
from pathlib import Path

from tests.browser.chromium import browser
from tests.browser.server import page_server, simulated

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZE, PHONE = (960, 640), (390, 700)
PROMPTS = {
    "codex": "Paint the front door. Ask me which colour it should have.",
    "gemini": "Paint the garden fence. Ask me which colour it should have.",
}


def main(images: Path) -> None:
    """Take pictures of the inbox with questions, and of the page of a succeeded run, on a desktop and on a phone."""
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = simulated(folder, "codex@0.169.0", "gemini@0.61.0")
        with page_server(folder / "data", env, "--no-token") as server, browser(folder / "profile") as tab:

            def ask(engine: str, **more: str) -> str:
                run_id = server.create(engine=engine, prompt=PROMPTS[engine], execution_mode="interactive", **more)
                server.follow(run_id, "waiting_user")
                return run_id

            answered = ask("codex")
            tab.open(server.url, SIZE)
            tab.follow(".options button")
            server.follow(answered, "succeeded")
            ask("codex")
            ask("gemini", interactive_profile="sticky_process")
            for picture, path in (("inbox", "/"), ("run", f"/runs/{answered}")):
                for shown, size, dark in ((picture, SIZE, False), (f"{picture}-phone", PHONE, True)):
                    tab.open(server.url + path, size, dark=dark)
                    tab.until("!document.body.dataset.live || document.getElementById('status').textContent")
                    tab.screenshot(images / f"{shown}.png")


if __name__ == "__main__":
    main(IMAGES)
