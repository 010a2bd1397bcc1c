#!/usr/bin/env bash
# Runs the distribution's verbs programs unmodified under `weft run`, in pairs on two loopback addresses. Programs
# that are not installed are skipped, and the package that has them is named. Without arguments a selection runs; with
# --all, every line. Builds the libraries first, unless WEFT names a command that has them beside it.
set -uo pipefail
cd "$(dirname "$0")/.."

if ! command -v ibv_devinfo ib_write_bw rping >/dev/null; then
    echo "verbs: skipped: no programs of verbs here; with Debian: apt install ibverbs-utils perftest rdmacm-utils"
    exit 0
fi
[[ -n ${WEFT-} ]] || tools/verbs.sh release >/dev/null || exit 1

weft=$(realpath "${WEFT:-target/release/weft}")
[[ -x $weft ]] || { echo "tests/verbs.sh: $weft is not there; run make build" >&2; exit 2; }
all=${1:-}
server=127.0.91.1
client=127.0.91.2
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT
passed=0
failed=0
skipped=0

# has PROGRAM PACKAGE: whether the program is installed.
has() {
    command -v "$1" >/dev/null && return
    echo "skipped: $1 is not installed (Debian: $2)"
    skipped=$((skipped + 1))
    return 1
}

# port: an unused TCP port below the ephemeral range, over which both ends of a pair connect.
port() {
    local number
    for number in $(shuf -i 20000-29999 -n 20); do
        ss -Htln "sport = :$number" | grep -q . || { echo "$number"; return; }
    done
}

# note STATUS COMMAND...: counts successes, and shows the output of failures.
note() {
    local status=$1
    shift
    if [[ $status == 0 ]]; then
        passed=$((passed + 1))
        echo "ok: $*"
        return
    fi
    failed=$((failed + 1))
    echo "FAILED: $*"
    for end in server client; do sed "s/^/    $end: /" "$folder/$end" | tail -15; done
}

# pair PROGRAM ARGUMENTS...: runs the program as server on one address and as client on the other; both must succeed.
pair() {
    local number attempt first=1 second=1
    number=$(port)
    timeout 120 "$weft" run --address $server -- "$@" -p "$number" >"$folder/server" 2>&1 &
    local pid=$!
    for attempt in $(seq 100); do
        ss -Htln "sport = :$number" | grep -q . && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    timeout 120 "$weft" run --address $client -- "$@" -p "$number" $server >"$folder/client" 2>&1 && first=0
    wait $pid && second=0
    note $((first | second)) "$@"
}

# managed SERVER -- CLIENT: two programs that connect through the connection manager. The client is repeated until the
# server listens.
managed() {
    local -a one=() two=()
    local first=1 second=1
    while [[ $1 != -- ]]; do one+=("$1"); shift; done
    two=("${@:2}")
    timeout 120 "$weft" run --address $server -- "${one[@]}" >"$folder/server" 2>&1 &
    local pid=$!
    sleep 0.3
    # The connection manager refuses while the server does not listen yet.
    for _ in 1 2 3 4 5; do
        timeout 120 "$weft" run --address $client -- "${two[@]}" >"$folder/client" 2>&1 && first=0 && break
        kill -0 $pid 2>/dev/null || break
        sleep 1
    done
    wait $pid && second=0
    note $((first | second)) "${two[@]}"
}

if has ibv_devinfo ibverbs-utils; then
    "$weft" run -- ibv_devices >"$folder/client" 2>&1 && grep -q '^ *weft0' "$folder/client"
    note $? ibv_devices
    "$weft" run --address $server --device a -- ibv_devinfo -v >"$folder/client" 2>&1 &&
        grep -q '^hca_id:.a$' "$folder/client" && grep -q "::ffff:$server, RoCE v2" "$folder/client"
    note $? ibv_devinfo -v
    for program in rc uc ud srq; do
        pair ibv_${program}_pingpong -g 0 -n 200
        pair ibv_${program}_pingpong -g 0 -n 200 -e
    done
    pair ibv_rc_pingpong -g 0 -n 200 -c -t
    pair ibv_rc_pingpong -g 0 -n 200 -c -N
    pair ibv_rc_pingpong -g 0 -n 200 -c -o
    pair ibv_rc_pingpong -g 0 -n 20 -c -o -P -s 1000000
fi

if has ib_write_bw perftest; then
    common=(-d weft0 -x 0 -F -n 100)
    for operation in write send read; do
        pair ib_${operation}_bw "${common[@]}" -s 65536
        pair ib_${operation}_lat "${common[@]}"
    done
    pair ib_atomic_bw "${common[@]}" -A FETCH_AND_ADD
    pair ib_atomic_lat "${common[@]}" -A CMP_AND_SWAP
    pair ib_send_bw "${common[@]}" -c UD -s 1024
    pair ib_send_bw "${common[@]}" --use-srq
    pair ib_send_bw "${common[@]}" -e -b
    pair ib_write_bw "${common[@]}" -q 8 -b -s 4096
    if [[ $all == --all ]]; then
        for operation in write send read; do
            pair ib_${operation}_bw "${common[@]}" -a
            pair ib_${operation}_bw "${common[@]}" -b -s 4096
            pair ib_${operation}_bw "${common[@]}" -q 64 -s 2048
        done
        for operation in write send read; do pair ib_${operation}_lat "${common[@]}" -a; done
        for operation in send read; do pair ib_${operation}_bw "${common[@]}" -e -s 4096; done
        for operation in write send; do
            pair ib_${operation}_bw "${common[@]}" -c UC -s 65536
            pair ib_${operation}_lat "${common[@]}" -I 220
        done
        pair ib_atomic_bw "${common[@]}" -A CMP_AND_SWAP -q 8
        pair ib_send_lat "${common[@]}" -c UD
    fi
fi

if has rping rdmacm-utils; then
    managed rping -s -a $server -C 50 -- rping -c -a $server -C 50 -V
    managed ucmatose -b $server -p 7471 -- ucmatose -s $server -b $client -p 7471
    managed udaddy -b $server -- udaddy -s $server -b $client
    if command -v ib_write_bw >/dev/null; then
        common=(-d weft0 -x 0 -F -R -n 100 -s 4096)
        for program in ib_write_bw ib_send_bw ib_send_lat ib_read_bw; do
            managed $program "${common[@]}" -- $program "${common[@]}" $server
        done
    fi
    if [[ $all == --all ]]; then
        managed rping -s -a $server -C 1000 -S 4096 -- rping -c -a $server -C 1000 -S 4096 -V
        managed ucmatose -b $server -c 20 -- ucmatose -s $server -b $client -c 20
        managed rdma_server -- rdma_client -s $server
        managed udaddy -b $server -c 20 -- udaddy -s $server -b $client -c 20
    fi
fi

echo "verbs: $passed passed, $failed failed, $skipped groups skipped"
[[ $failed == 0 ]]
