#!/usr/bin/env bash
# Porcupine and `weft check history` judge the same histories: of a fault campaign, which both must accept, and copies
# of these with one operation changed, on each of which both must say the same.
set -euo pipefail
cd "$(dirname "$0")/../.."
weft=${WEFT:-$PWD/target/release/weft}
judge=tests/porcupine/judge.sh
seeds=${SEEDS:-1..4} copies=${COPIES:-25}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

code=0
"$judge" help >/dev/null 2>"$work/said" || code=$?
if ((code == 77)); then
    cat "$work/said"
    exit 0
fi

# Prints our verdict on each run of a file.
ours() {
    "$weft" check history "$1" --json "$work/verdicts.json" >/dev/null || true
    python3 -c 'import json, sys; [print(run["checked"]) for run in json.load(open(sys.argv[1]))["result"]]' \
        "$work/verdicts.json"
}

# judged ENGINE VERDICT: both judge histories of a campaign of ENGINE, which must have the verdict, and changed ones.
judged() {
    local engine=$1 verdict=$2
    "$weft" sim "$engine" --nodes 3 --seeds "$seeds" --faults all --history "$work/campaign.jsonl" >/dev/null
    "$judge" check "$work/campaign.jsonl" >"$work/theirs"
    if grep -v "$verdict" "$work/theirs"; then
        echo "tests/porcupine/run.sh: Porcupine does not accept a history of weft sim $engine --nodes 3 --seeds $seeds" >&2
        exit 1
    fi
    "$judge" mutate "$work/campaign.jsonl" "$copies" "$work/changed.jsonl"
    "$judge" check "$work/changed.jsonl" >"$work/theirs"
    ours "$work/changed.jsonl" >"$work/ours"
    diff "$work/theirs" "$work/ours" || {
        echo "tests/porcupine/run.sh: Porcupine (<) and Weft (>) disagree on changed histories of sim $engine" >&2
        exit 1
    }
    for word in "$verdict" violation; do
        grep -q "$word" "$work/ours" || {
            echo "tests/porcupine/run.sh: none of the changed histories of sim $engine is judged: $word" >&2
            exit 1
        }
    done
    echo "Porcupine accepts $(wc -l <"$work/campaign.jsonl") lines of history of sim $engine; both judge" \
        "$(wc -l <"$work/ours") changed histories alike, of which $(grep -c violation "$work/ours") are violations"
}

judged kv linearizable
judged txn "strictly serializable"
