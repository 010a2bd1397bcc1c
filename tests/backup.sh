#!/usr/bin/env bash
# Backups of a cluster under a checked load, while another client writes one numbered key after the other. Each backup
# must have all numbers that were answered before it began, and none without those before it; also if the node that
# serves it is killed in the middle. Then all nodes are killed, and a backup is restored into a cluster of another size.
# Damaged files are refused. Finally a cluster loses more disks than it tolerates, and what is left is recovered.
set -euo pipefail
cd "$(dirname "$0")/.."
weft=${WEFT:-$PWD/target/release/weft}
work=$(mktemp -d)
nodes=()
load=
writer=
finish() {
    kill -9 "${nodes[@]}" $load $writer 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

fail() {
    echo "tests/backup.sh: $*" >&2
    exit 1
}

# Waits until node $1 of the cluster in folder $2 reports `as full`. The limit is two minutes, for busy machines.
await() {
    for _ in {1..2400}; do
        grep -q 'as full' "$work/$2/node$1.log" && return
        kill -0 "${nodes[$1]}" 2>/dev/null || break
        sleep 0.05
    done
    cat "$work/$2/node$1.log" >&2
    fail "node $1 is not full"
}

start() {
    : >"$work/$2/node$1.log"
    "$weft" start --config "$work/$2/weft.toml" --node "$1" >"$work/$2/node$1.log" 2>&1 &
    nodes[$1]=$!
    disown
}

crash() {
    for node in "$@"; do kill -9 "${nodes[$node]}"; done
    for node in "$@"; do
        while kill -0 "${nodes[$node]}" 2>/dev/null; do sleep 0.01; done
    done
}

# A cluster with the store alone in folder $1, of $2 nodes, with the sizes in $3.
cluster() {
    "$weft" init --nodes "$2" --name "$1" --dir "$work/$1" >/dev/null
    sed -i '/^\[kv\]/,$d' "$work/$1/weft.toml"
    printf '[kv]\n%s\n' "$3" >>"$work/$1/weft.toml"
}

# The keys of the writer have nothing in common with those of the load: six digits, padded with zeros.
number() { printf 'n%06d' "$1"; }

# Writes numbered keys until the file `stop` is there, and keeps the last number that was answered in a file.
write_numbers() {
    local next=1
    while [[ ! -e $work/stop ]] && "$weft" kv --config "$work/first/weft.toml" --give-up-ms 20000 put "$(number $next)" "$next" >/dev/null; do
        echo "$next" >"$work/answered.new"
        mv "$work/answered.new" "$work/answered"
        next=$((next + 1))
    done
}

# A backup into file $1; the numbers answered before and after it go into the files $1.before and $1.after.
back_up() {
    cp "$work/answered" "$1.before"
    "$weft" backup --config "$work/first/weft.toml" --to "$1" --json "$1.json" 2>"$1.log" || {
        cat "$1.log" >&2
        fail "a backup failed"
    }
    cp "$work/answered" "$1.after"
}

# The highest number in the store of the cluster in folder $1 below which all are there.
highest() {
    local found=0
    while "$weft" kv --config "$work/$1/weft.toml" --give-up-ms 20000 get "$(number $((found + 1)))" >/dev/null; do
        found=$((found + 1))
    done
    echo "$found"
}

# Writes $1 keys of 200 bytes through the door for clients of Redis, which takes many at a time.
fill() {
    local host
    host=$(grep --max-count 1 --after-context 2 "^\[\[node\]\]" "$work/first/weft.toml" | sed -n 's/^address = "\([^"]*\)".*/\1/p')
    exec 3<>"/dev/tcp/$host/6379"
    awk -v keys="$1" 'BEGIN {
        value = sprintf("%200s", "x")
        for (key = 0; key < keys; key++) printf "*3\r\n$3\r\nSET\r\n$8\r\nfill%04x\r\n$200\r\n%s\r\n", key, value
    }' >&3 &
    [[ $(head --bytes $((5 * $1)) <&3 | grep --count OK) == "$1" ]] || fail "the keys are not written"
    exec 3>&-
}

cluster first 3 $'value_bytes = 256\nkey_bytes = 12\ncapacity_keys = 200000\ndata_dir = "data"\ndurability = "async"\n[redis]'
for node in 0 1 2; do start "$node" first; done
for node in 0 1 2; do await "$node" first; done
fill 60000
"$weft" bench cluster --config "$work/first/weft.toml" --seconds 600 --json "$work/load.json" >"$work/load.txt" 2>&1 &
load=$!
write_numbers &
writer=$!
until [[ -s $work/answered ]]; do sleep 0.05; done

for round in 1 2 3; do
    sleep 0.5
    back_up "$work/quiet$round"
done

# Clients read backups from the last full member. A backup is being written while its partial file is there.
cp "$work/answered" "$work/killed.before"
"$weft" backup --config "$work/first/weft.toml" --give-up-ms 2000 --to "$work/killed" >/dev/null 2>"$work/killed.log" &
backup=$!
for _ in {1..20000}; do
    [[ -e $work/killed.partial || -e $work/killed ]] && break
done
crash 2
wait "$backup" || {
    cat "$work/killed.log" >&2
    fail "a backup does not survive the node that serves it"
}
grep -q 'which begins again' "$work/killed.log" || fail "the node was not killed in the middle of the backup"
cp "$work/answered" "$work/killed.after"
start 2 first
await 2 first

kill -INT "$load"
code=0
wait "$load" || code=$?
load=
cat "$work/load.txt"
((code == 0)) || fail "the load ended with $code"
# The next cluster may get the same addresses, so no write may be under way.
touch "$work/stop"
wait "$writer" || fail "the writer ended with $?"
writer=
crash 0 1 2

# What was cut off, or has a byte that changed, is found, and nothing is written from it.
file=$work/quiet3
length=$(stat --format %s "$file")
head --bytes $((length - 1)) "$file" >"$work/cut"
for place in 3 7 20 $((length / 2)) $((length - 10)); do
    cp "$file" "$work/flipped"
    byte=$(od --address-radix n --skip-bytes "$place" --read-bytes 1 --format u1 "$file")
    printf "\\x$(printf %02x $((byte ^ 16)))" | dd of="$work/flipped" bs=1 seek="$place" conv=notrunc status=none
    code=0
    "$weft" backup --check "$work/flipped" 2>/dev/null >&2 || code=$?
    ((code == 2)) || fail "a change of byte $place is not noticed"
done
code=0
"$weft" backup --check "$work/cut" 2>/dev/null >&2 || code=$?
((code == 2)) || fail "a file that is cut off is not noticed"

# Another cluster, with fewer nodes and longer keys, in memory.
for backup in quiet3 killed; do
    rm -rf "$work/second"
    cluster second 2 $'value_bytes = 512\nkey_bytes = 16\ncapacity_keys = 250000\n[redis]'
    for node in 0 1; do start "$node" second; done
    for node in 0 1; do await "$node" second; done
    code=0
    "$weft" restore --config "$work/second/weft.toml" --from "$work/flipped" 2>/dev/null >&2 || code=$?
    ((code == 2)) || fail "a damaged backup is restored"
    "$weft" restore --config "$work/second/weft.toml" --from "$work/$backup"
    found=$(highest second)
    before=$(cat "$work/$backup.before")
    after=$(cat "$work/$backup.after")
    # One more number may be under way.
    ((found >= before && found <= after + 1)) || fail "$found numbers of $before to $after are in $backup"
    "$weft" restore --config "$work/second/weft.toml" --from "$work/$backup" 2>"$work/again" && fail "a cluster with keys takes a backup"
    grep -q -- '--overwrite' "$work/again" || fail "it does not tell about --overwrite"
    keys=$("$weft" backup --config "$work/second/weft.toml" --to "$work/copy" | grep -o '[0-9]* keys')
    "$weft" restore --config "$work/second/weft.toml" --from "$work/$backup" --overwrite | grep -q "^$keys" || fail "the keys differ"
    crash 0 1
done
# Every write is on two of three disks. The numbers that are left on two of them, and on one.
cluster third 3 $'value_bytes = 64\nkey_bytes = 16\ncapacity_keys = 4096\ndata_dir = "data"'
for node in 0 1 2; do start "$node" third; done
for node in 0 1 2; do await "$node" third; done
config=$work/third/weft.toml
# Writes the numbers from $1 to $2.
put_numbers() {
    for ((answered = $1; answered <= $2; answered++)); do
        "$weft" kv --config "$config" --give-up-ms 20000 put "$(number $answered)" "$answered" >/dev/null
    done
}
put_numbers 1 40
code=0
"$weft" recover --config "$config" "$work/third/data/node0.weft" 2>"$work/error" >&2 || code=$?
((code == 2)) && grep -q 'is in use' "$work/error" || fail "the file of a running node is read"
crash 0 1 2
cp -r "$work/third" "$work/left"
left=$work/left/data

# Restores the backup $2 into a new cluster, and prints the highest number there.
restored() {
    rm -rf "$work/$1"
    cluster "$1" 1 $'value_bytes = 64\nkey_bytes = 16\ncapacity_keys = 4096'
    start 0 "$1"
    await 0 "$1"
    "$weft" restore --config "$work/$1/weft.toml" --from "$2" >/dev/null
    highest "$1"
    crash 0
}

"$weft" recover --config "$config" "$left"/node[01].weft --to "$work/both"
found=$(restored fourth "$work/both")
((found == 40)) || fail "$found of 40 numbers are recovered from two disks"
for node in 0 1 2; do
    code=0
    "$weft" recover --config "$config" "$left/node$node.weft" --to "$work/one" 2>"$work/error" >&2 || code=$?
    ((code == 2)) && grep -q -- '--accept-loss' "$work/error" || fail "a loss is accepted without being asked for"
    "$weft" recover --config "$config" "$left/node$node.weft" --to "$work/one" --accept-loss
done
found=$(restored fourth "$work/one")
((found > 0 && found <= 40)) || fail "$found of 40 numbers are recovered from one disk"

# Two nodes go on, so the file of the third is an older one.
for node in 0 1; do start "$node" third; done
for node in 0 1; do await "$node" third; done
put_numbers 41 50
crash 0 1
"$weft" recover --config "$config" "$work"/third/data/node?.weft --to "$work/all" >"$work/report"
grep -q 'older than another file, so not used' "$work/report" || fail "an older file is used"
found=$(restored fourth "$work/all")
((found == 50)) || fail "$found of 50 numbers are recovered from three disks"
"$weft" recover --config "$config" "$left/node2.weft" | grep -q 'may be lost: .* which the membership service has published since' ||
    fail "the age of an older file is not told"
cmp "$work/third/data/node2.weft" "$left/node2.weft" || fail "a data file has changed"
echo "backups under load have all that was answered before, and are restored; what few disks have left is recovered"
