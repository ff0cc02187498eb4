#!/bin/sh
# A correct orchestrator for Codex in a shell: one process for each turn, in its own group, with a deadline.
set -u
out=$(mktemp -d "$HOME/turn.XXXXXX") session="" answer=""

# turn FILE SECONDS: run a turn, and set session and answer
turn() {
  setsid timeout -s KILL "$2" codex exec --json --skip-git-repo-check ${session:+resume "$session"} - \
    <"$1" >"$out/stdout" 2>"$out/stderr" &
  engine=$!
  wait "$engine"
  code=$?
  kill -s KILL -- "-$engine" 2>/dev/null
  [ "$code" -eq 0 ] || { echo "the turn failed: $(tail -c 500 "$out/stderr")" >&2; exit 1; }
  sed '1s/^\xEF\xBB\xBF//' "$out/stdout" | grep '^{' | jq -es --arg session "$session" '
    .[: 1 + (map(.type) | index("turn.completed") // -1)]
    | [.[] | select(.type == "thread.started") | .thread_id // empty] as $ids
    | [.[] | select(.type == "item.completed" and .item.type == "agent_message") | .item.text] as $texts
    | if any(.[]; .type == "turn.completed") and ($ids | length) == 1 and ($session | IN("", $ids[0])) and ($texts[-1] // "" | test("[^[:space:]]"))
      then {id: $ids[0], text: $texts[-1]} else false end' >"$out/turn" || { echo "the turn is not whole" >&2; exit 1; }
  session=$(jq -r .id "$out/turn")
  answer=$(jq -r .text "$out/turn")
}

cd "$TURNGATE_WORKSPACE" || exit 1
turn "$TURNGATE_PROMPT_FILE" "$TURNGATE_DEADLINE_SEC"
for reply in "$TURNGATE_REPLY_FILE" "${TURNGATE_REPLY_2_FILE:-}"; do
  [ -z "$reply" ] || turn "$reply" "${TURNGATE_CANCEL_AFTER_SEC:-$TURNGATE_DEADLINE_SEC}"
done
printf '%s\n' "$answer" | jq -r .final_data.answer
