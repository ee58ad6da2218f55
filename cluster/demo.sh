#!/usr/bin/env bash
# Builds an index of the language reference that ships with Python on a local Ray cluster, and asks it three questions.
# The store demo-data/ stays: another run finds every document and shard there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/.venv/bin:$PATH"
store=demo-data

run() {
    local word line='$'
    for word in "$@"; do
        [[ "$word" != *' '* ]] || word="\"$word\""
        line+=" $word"
    done
    printf '\n%s\n' "$line"
    "$@"
}

scratch="$(mktemp -d)"
topics="$scratch/python-topics"
started=""
trap 'rm -rf "$scratch"; [[ -z "$started" ]] || cluster/local.sh stop' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

python - "$topics" <<'EOF'
import pathlib, pydoc_data.topics, sys

pathlib.Path(sys.argv[1]).mkdir()
for name, text in pydoc_data.topics.topics.items():
    pathlib.Path(sys.argv[1], f"{name}.rst").write_text(text, encoding="utf-8")
EOF

# One that runs already is used and left running.
if ! cluster/local.sh status > /dev/null; then
    started=yes # before the start, so that an interrupted one is cleaned up too
    run cluster/local.sh start
fi
eval "$(cluster/local.sh env)"

run rayrag submit ingest "$topics" --store "$store" --address "$RAY_API_SERVER_ADDRESS"
run rayrag submit build-index --store "$store" --address "$RAY_API_SERVER_ADDRESS"
run rayrag retrieve "How do I run clean-up code whether or not an exception was raised?" --store "$store"
run rayrag retrieve "Which operators bind more tightly than others?" --store "$store"
run rayrag retrieve "What does yield do inside a function?" --store "$store"
run rayrag verify --store "$store"
