"""An engine for benches that takes no time: codex's records, printed by a shell."""

import json
from pathlib import Path

SESSION = "01a20033-ee25-73a3-a8df-8b64e97dac81"


def install(folder: str, answer: str) -> Path:
    """Write an executable `codex`, as one of its package, that answers each turn with `answer`; return its path."""
    item = json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": answer}})
    engine = Path(folder, "codex")
    engine.with_name("package.json").write_text('{"name": "@openai/codex", "version": "0.169.0"}')
    engine.write_text(f"""#!/bin/sh
[ "$1" = --version ] && echo "codex-cli 0.169.0" && exit
cat > /dev/null
echo '{{"type": "thread.started", "thread_id": "{SESSION}"}}'
echo '{item}'
echo '{{"type": "turn.completed"}}'
""")
    engine.chmod(0o755)
    return engine
