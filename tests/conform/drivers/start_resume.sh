#!/bin/sh
# turngate start, and turngate resume for each reply
set -e
limit="timeout --signal=INT --kill-after=10 $TURNGATE_DEADLINE_SEC"
handle=$($limit turngate start "$TURNGATE_ENGINE" --cwd "$TURNGATE_WORKSPACE" --prompt-file "$TURNGATE_PROMPT_FILE" --json | jq -er .handle)
$limit turngate resume --message-file "$TURNGATE_REPLY_FILE" "$handle"
[ -z "$TURNGATE_REPLY_2_FILE" ] || $limit turngate resume --message-file "$TURNGATE_REPLY_2_FILE" "$handle"
