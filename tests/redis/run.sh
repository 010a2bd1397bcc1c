#!/usr/bin/env bash
# Three nodes with Redis servers, and unmodified Redis programs as their clients: redis-cli, redis-benchmark, redis-py
# with its own tests. Missing programs are skipped and named. Usage: tests/redis/run.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

weft=${WEFT:-target/release/weft}
here=tests/redis
folder=$(mktemp -d)
nodes=()
trap 'kill "${nodes[@]}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT

skip() { echo "  skipped: $1: $2"; }
fail() { echo "tests/redis/run.sh: $1" >&2; tail -n 5 "$folder"/node*.log >&2; exit 1; }

"$weft" init --redis --nodes 3 --dir "$folder" >"$folder/init.txt"
config=$folder/weft.toml
mapfile -t addresses < <(sed -n '/^\[\[node\]\]/,/^$/s/^address = "\([^"]*\)".*/\1/p' "$config")
[[ ${#addresses[@]} == 3 ]] || fail "weft init has not written three addresses"
start() {
  "$weft" start --config "$config" --node "$1" >>"$folder/node$1.log" 2>&1 &
  nodes[$1]=$!
}
for node in 0 1 2; do start $node; done
for try in $(seq 100); do
  "$weft" status --config "$config" >"$folder/status.txt" 2>&1 && break
  [[ $try -lt 100 ]] || fail "the nodes are not ready: $(cat "$folder/status.txt")"
  sleep 0.3
done

# The reply to a raw request, sent without a client library.
expect() {
  local want=$1 got
  shift
  got=$("$@") || fail "$* failed: $got"
  [[ $got == "$want" ]] || fail "$*: \"$got\" instead of \"$want\""
}

if command -v redis-cli >/dev/null; then
  cli() { redis-cli -h "${addresses[$1]}" "${@:2}"; }
  expect OK cli 0 set greeting hello
  expect hello cli 1 get greeting
  expect 1 cli 2 exists greeting
  expect OK cli 1 set lock me nx px 60000
  expect "" cli 2 set lock you nx px 60000
  expect 1 cli 2 eval "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" \
    1 lock me
  expect 2 cli 0 wait 2 1000
  expect 12182 cli 0 cluster keyslot foo
  [[ $("$weft" kv --config "$config" get greeting) == *": hello" ]] || fail "weft kv reads something else"
  for key in $(seq 300); do echo "set many:$key $key"; done | redis-cli -h "${addresses[0]}" >"$folder/out.txt"
  [[ $(grep -c OK "$folder/out.txt") == 300 ]] || fail "300 writes over one connection"
  [[ $(redis-cli -h "${addresses[2]}" --scan --pattern 'many:*' | sort -u | wc -l) == 300 ]] || fail "a scan of 300 keys"
  for counter in 0 1 2; do
    { for _ in $(seq 200); do echo "incr counter"; done; } | redis-cli -h "${addresses[$counter]}" >/dev/null &
    jobs[$counter]=$!
  done
  wait "${jobs[@]}"
  expect 600 cli 1 get counter
  echo "  redis-cli: ok"
else
  skip redis-cli "install Debian's package redis-tools"
fi

if command -v redis-benchmark >/dev/null; then
  for pipeline in 1 16; do
    redis-benchmark -h "${addresses[0]}" -t set,get,incr,mset -n 3000 -c 20 -P $pipeline -r 1000 -q \
      >"$folder/benchmark.txt" 2>&1 || fail "redis-benchmark: $(tail -n 3 "$folder/benchmark.txt")"
    grep -qi error "$folder/benchmark.txt" && fail "redis-benchmark: $(grep -i error "$folder/benchmark.txt" | head -n 1)"
  done
  echo "  redis-benchmark: ok"
else
  skip redis-benchmark "install Debian's package redis-tools"
fi

# redis-py and its tests are of the same release; both come from PyPI into a separate environment.
python=target/redis-py
version=$(sed -n 's/^redis==//p' $here/requirements.txt)
if [[ ! -e $python/.ready-$version ]]; then
  rm -rf $python
  { python3 -m venv $python && $python/bin/pip install --quiet -r $here/requirements.txt &&
    $python/bin/pip download --quiet --no-deps --no-binary :all: --dest $python/source "redis==$version" &&
    tar xzf $python/source/redis-"$version".tar.gz -C $python/source; } >"$folder/pip.txt" 2>&1 &&
    touch $python/.ready-$version
fi
if [[ -e $python/.ready-$version ]]; then
  tests=$(grep -v '^#' $here/redis-py.txt | tr '\n' ' ')
  # shellcheck disable=SC2086
  (cd $python/source/redis-"$version" &&
    ../../bin/python -m pytest --quiet -p no:cacheprovider --redis-url "redis://${addresses[0]}:6379/0" $tests) \
    >"$folder/redis-py.txt" 2>&1 || fail "redis-py: $(tail -n 40 "$folder/redis-py.txt")"
  echo "  redis-py $version: $(tail -n 1 "$folder/redis-py.txt")"
else
  skip redis-py "PyPI gives no redis $version ($(tail -n 1 "$folder/pip.txt"))"
fi

# The checked load takes the keys of such a store, which are longer than those of others.
"$weft" bench cluster --config "$config" --seconds 1 >"$folder/load.txt" 2>&1 ||
  fail "weft bench cluster: $(tail -n 3 "$folder/load.txt")"

# A node is killed: acknowledged writes must be at the other nodes, where clients continue.
if command -v redis-cli >/dev/null; then
  for key in $(seq 200); do echo "set kept:$key $key"; done | redis-cli -h "${addresses[2]}" >/dev/null
  kill -KILL "${nodes[2]}"
  wait "${nodes[2]}" 2>/dev/null || true
  for try in $(seq 40); do
    [[ $(redis-cli -h "${addresses[0]}" set after "kill $try" 2>&1) == OK ]] && break
    [[ $try -lt 40 ]] || fail "no write after a node was killed"
  done
  for key in $(seq 200); do echo "get kept:$key"; done | redis-cli -h "${addresses[1]}" >"$folder/kept.txt"
  seq 200 | diff -q - "$folder/kept.txt" >/dev/null || fail "a killed node has taken answered writes with it"
  echo "  a node killed: nothing lost"
fi
echo "Redis door: ok"
