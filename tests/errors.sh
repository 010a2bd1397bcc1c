#!/usr/bin/env bash
# Bad input gets exactly one line on standard error, exit code 2, and leaves no file behind.
set -uo pipefail
cd "$(dirname "$0")/.."

weft=$(realpath "${WEFT:-target/release/weft}")
[[ -x $weft ]] || { echo "tests/errors.sh: $weft is not there; run make build" >&2; exit 2; }
folder=$(mktemp -d)
holder=
trap '[[ -z $holder ]] || kill "$holder" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 2

passed=0
failed=0

# expect WORDS COMMAND...: the command fails as it should, and its one line contains the words.
expect() {
    local words=$1 status=0 lines before after
    shift
    before=$(find . | sort)
    "$@" >.stdout 2>.stderr </dev/null || status=$?
    lines=$(wc -l <.stderr)
    if [[ $status -eq 2 && $lines -eq 1 && ! -s .stdout ]] && grep -qF -- "$words" .stderr && grep -q '^weft: ' .stderr; then
        rm .stdout .stderr
        after=$(find . | sort)
        if [[ $before == "$after" ]]; then
            passed=$((passed + 1))
            return
        fi
        echo "FAILED: $*: left behind:" && diff <(echo "$before") <(echo "$after")
    else
        echo "FAILED: $*: exit code $status, $lines lines of errors, '$words' expected"
        sed 's/^/    /' .stderr
    fi
    rm -f .stdout .stderr
    failed=$((failed + 1))
}

node() {
    printf 'node = %s\n[membership]\naddress = "%s:4794"\nserve = true\n' "$1" "${2:-127.77.0.1}"
    printf '[[peers]]\nnode = 0\naddress = "%s"\n' "${2:-127.77.0.1}"
}

# The command line.
expect 'a subcommand is missing' "$weft"
expect 'a subcommand is missing' "$weft" bench
expect 'did you mean `bench`' "$weft" bnch
expect 'did you mean `--nodes`' "$weft" bench kv --nodse 3
expect 'a value is required' "$weft" bench kv --seed
expect 'seven' "$weft" bench kv --seed seven
expect '1 to 16 nodes' "$weft" bench kv --nodes 0
expect '1 to 16 nodes' "$weft" bench kv --nodes 17
expect '1 to 16 nodes' "$weft" bench kv --nodes -1
expect 'give a whole number, 0 or more' "$weft" bench kv --seed -1
expect 'give a smaller number' "$weft" bench kv --ops 99999999999999999999
expect 'fewer records, nodes or operations' "$weft" bench kv --ops 18446744073709551615
expect 'is not in 1..' "$weft" bench kv --ops 0
expect 'cannot be used with' "$weft" bench kv --ops 5 --seconds 1
expect 'give seconds' "$weft" bench kv --seconds 0
expect 'give operations per second' "$weft" bench kv --open-loop fast
expect '8 to 1024 bytes' "$weft" bench kv --value-bytes 4
expect '8 to 1024 bytes' "$weft" bench kv --value-bytes 5000
expect 'a subcommand is missing' "$weft" check
expect 'are checked exhaustively' "$weft" check rounds --nodes 3,6
expect 'there is no folder' "$weft" check rounds --json no/such/folder.json
expect 'the types are g-counter' "$weft" rdt explain bank
expect 'the following required arguments' "$weft" rdt explain
expect 'cannot be used with' "$weft" rdt explain account --all
expect 'there is no folder' "$weft" rdt explain account --smt no/such/file.smt2
expect 'there is no data type `bank`' "$weft" bench rdt --type bank
expect 'the following required arguments' "$weft" bench rdt
expect '2 to 8 nodes' "$weft" bench rdt --type account --nodes 9
expect 'is not in 0..=100' "$weft" bench rdt --type account --updates 101
expect '2 to 8 nodes' "$weft" bench rdt --type account --nodes 8..3
expect 'there is no workload `d`' "$weft" bench rdt --type ycsb --workload d
expect 'choose --type ycsb' "$weft" bench rdt --type account --workload a
expect 'has no keys' "$weft" bench rdt --type account --keys 10
expect '1 to 10000000 keys' "$weft" bench rdt --type ycsb --keys 99999999999
expect 'one log' "$weft" bench rdt --type ycsb --system waverunner --commit local
expect 'callers leader' "$weft" bench rdt --type ycsb --system waverunner --callers leader
expect 'calls no engine' "$weft" bench rdt --type account --system hamband --configuration rpc
expect 'choose --crash replica' "$weft" bench rdt-crash --crash leader --type g-set
expect 'nobody is called `node`' "$weft" bench rdt-crash --crash node
expect 'nobody is crashed' "$weft" bench rdt-crash --systems waverunner
expect 'choose 3 to 8 nodes' "$weft" bench rdt-crash --nodes 2
expect 'separated by commas' "$weft" bench rdt-crash --updates 15,120
expect 'nothing tells that another one leads' "$weft" bench rdt-crash --updates 0
expect 'account has no keys' "$weft" bench rdt-hybrid --types account
expect 'a smaller --card-keys' "$weft" bench rdt-hybrid --keys 10 --card-keys 10
expect 'give 1 to 64 updates' "$weft" bench rdt-hybrid --summarize 0
expect 'there is no workload `bank`' "$weft" bench txn --workload bank
expect 'cannot hold 3 replicas' "$weft" bench txn --workload retwis --nodes 2
expect 'ascending numbers' "$weft" bench txn --workload retwis --outstanding 8,4
expect 'size of 2 to 2400000' "$weft" bench txn --workload smallbank --size 1
expect 'an example to call by hand' "$weft" bench txn-net --workload ledger
expect 'nothing is registered as `tpcc`' "$weft" bench txn-net --workload tpcc
expect 'cannot hold 3 replicas' "$weft" bench txn-net --nodes 2 --replication 3
expect 'there are 3 nodes' "$weft" bench txn-net --kill 3
expect 'the only replica' "$weft" bench txn-net --kill 0 --replication 1
expect 'size of 2 to 2400000' "$weft" bench txn-net --size 1
expect 'first half second' "$weft" bench txn-net --seconds 0.5
expect 'no multi-hop to leave out' "$weft" bench txn --workload smallbank --system fasst --without multi-hop
expect 'no cores on its card' "$weft" bench txn --workload smallbank --system drtm-h --nic-cores 8
expect 'retwis has no items' "$weft" bench txn --workload retwis --items 1000
expect 'cannot hold 3 replicas' "$weft" bench txn-steps --nodes 2
expect 'retwis takes a size' "$weft" bench txn-steps --size 2000000
expect 'there is no folder' "$weft" bench txn-steps --json nowhere/result.json
expect 'choose one of --workloads' "$weft" bench txn-threads --size 1000
expect 'none of the workloads has items' "$weft" bench txn-threads --workloads smallbank --items 200
expect 'there is no workload `bank`' "$weft" bench txn-threads --workloads bank
expect 'there is no data type `bank`' "$weft" sim rdt --type bank
expect '3 nodes cannot hold 4 replicas' "$weft" sim txn --nodes 3 --replication 4
expect 'choose a smaller --replication' "$weft" sim txn --nodes 3 --replication 3 --lose-shard
expect 'there is no workload `bank`' "$weft" sim txn --workload bank
expect 'unknown kind of fault' "$weft" sim txn --faults omission
expect 'the range is empty' "$weft" sim txn --seeds 9..1
expect '3 to 8 nodes' "$weft" sim rdt --nodes 1
expect 'the range is empty' "$weft" sim rdt --seeds 9..1
expect '2 to 8 nodes' "$weft" sim smr --nodes 9
expect 'is not a seed' "$weft" sim smr --seeds x
expect 'unknown kind of fault' "$weft" sim smr --faults omission
expect '2 to 8 nodes' "$weft" bench smr --nodes 9
expect 'is not in 10..=95' "$weft" bench store --occupancy 99
expect 'is not in 1000..' "$weft" bench store --keys 10
expect 'there is no folder' "$weft" bench store --keys 1000 --json nowhere/result.json
expect 'unexpected argument' "$weft" check smr --nodes 3
expect 'records' "$weft" bench kv --records 0
expect '2 to 8 nodes' "$weft" bench rounds --nodes 9
expect 'a multiple of 4' "$weft" bench rounds --period-ns 2001
expect 'there is no network' "$weft" bench rounds --network mars
expect 'choose --window 8' "$weft" bench rounds --nodes 7 --window 4
expect 'fewer or shorter values' "$weft" bench rounds --value-bytes 448 --values-per-proposal 4
expect 'is not in 1..=1024' "$weft" bench kv --clients 0

# Names that do not exist, or not yet.
expect 'choose one of ycsb-a' "$weft" bench kv --workload tpc-c
expect 'scans' "$weft" bench kv --workload ycsb-e
expect 'no distribution' "$weft" bench kv --distribution normal
expect 'there is no world' "$weft" bench kv --world mars
expect 'the simulator only' "$weft" bench kv --nic rtl --world net
expect 'soft or rtl' "$weft" bench rdma --nic mlx5
expect 'the simulator only' "$weft" bench rdma --nic rtl --world net
expect 'takes its own time' "$weft" bench rdma --nic rtl --profile fpga
expect 'there is no NIC' "$weft" bench kv --nic mlx5
expect 'choose one of fpga' "$weft" bench kv --profile abacus
expect 'choose any' "$weft" bench kv --reads nobody
expect 'unknown operation' "$weft" bench rdma --op push
expect 'path MTU' "$weft" bench rdma --mtu 1500
expect 'atomics work on 8 bytes' "$weft" bench rdma --op fetch_add --size 64
expect 'queue pairs' "$weft" bench rdma --qps 501
expect 'nothing to do' "$weft" bench rdma --iterations 0
expect 'leave random sizes out' "$weft" bench rdma --op cmp_swap --random-sizes
expect 'cannot be used with' "$weft" bench rdma --bidirectional --nics 3
expect 'choose 2 to 16' "$weft" bench rdma --nics 1
expect 'choose 2 to 16' "$weft" bench rdma --nics 17
expect 'choose fewer' "$weft" bench rdma --bidirectional --qps 251
expect 'choose the NIC rtl' "$weft" bench rdma --fst wave.fst
expect 'not provided' "$weft" bench rdma --nic rtl --fst-to-us 5
expect 'window is empty' "$weft" bench rdma --nic rtl --fst wave.fst --fst-from-us 5 --fst-to-us 5

# Options that contradict the world.
expect 'for the simulator' "$weft" bench kv --world net --profile cores
expect 'for the simulator' "$weft" bench kv --world net --pcap captures
expect 'for real sockets' "$weft" bench kv --world sim --processes 2
expect 'cannot be spread evenly' "$weft" bench kv --world net --clients 3 --processes 2
printf '[[fault]]\nkind = "pause"\nfrom_us = 5\nuntil_us = 9\nmachine = "node0"\n' >pause.toml
expect 'one crash of a node' "$weft" bench kv --world net --faults pause.toml
expect 'MiB are free' "$weft" bench kv --nodes 16 --records 1000000 --value-bytes 1024
expect 'simulator only' "$weft" bench rdma --world net --faults /dev/null
expect 'simulator only' "$weft" bench rdma --world net --bidirectional
expect 'simulator only' "$weft" bench rdma --world net --pcap captures
expect 'simulator only' "$weft" bench rdma --world net --perfetto trace

# Seeds and faults of campaigns.
expect 'is not a seed' "$weft" sim kv --seeds many
expect 'the range is empty' "$weft" sim kv --seeds 9..3
expect 'unknown kind of fault' "$weft" sim kv --faults meteorite
expect 'choose all, omission' "$weft" sim rounds --faults meteorite
expect 'choose streams or register' "$weft" sim rounds --service mail
expect 'cannot be read' "$weft" sim kv --faults missing.toml
printf '[[fault]]\nkind = "loss"\nfrom_us = 5\nuntil_us = 2\nprobability = 0.5\n' >reversed.toml
expect 'until_us must be greater' "$weft" sim kv --faults reversed.toml
printf '[[fault]]\nkind = "crash"\nat_us = 5\nmachine = "node7"\n' >stranger.toml
expect 'there is no machine `node7`' "$weft" sim kv --nodes 3 --faults stranger.toml
expect 'there is no machine `node7`' "$weft" bench kv --ops 10 --faults stranger.toml --json result.json --pcap captures
printf 'fault = 7' >nonsense.toml
expect 'fault plan, line 1' "$weft" bench kv --faults nonsense.toml

# Places that cannot be written to.
expect 'there is no folder' "$weft" bench kv --ops 10 --json nowhere/result.json
expect 'it is a folder' "$weft" bench kv --ops 10 --json .
expect 'a file without a name' "$weft" bench kv --ops 10 --json ''
expect 'there is no folder' "$weft" bench kv --ops 10 --perfetto nowhere/trace
expect 'cannot be created' "$weft" bench kv --ops 10 --pcap nowhere/captures
expect 'cannot be created' "$weft" bench rdma --iterations 10 --pcap nowhere/captures
expect 'there is no folder' "$weft" bench rdma --iterations 10 --perfetto nowhere/trace
: >occupied
expect 'cannot be created' "$weft" bench kv --ops 10 --pcap occupied
expect 'cannot be created' "$weft" demo --out occupied
expect 'cannot be created' "$weft" demo --out nowhere/out

# Results.
expect 'cannot be read' "$weft" report missing.json
"$weft" bench kv --ops 2000 --json whole.json >/dev/null || { echo "FAILED: a short bench"; failed=$((failed + 1)); }
head -c 2000 whole.json >truncated.json
expect 'ends in the middle' "$weft" report truncated.json --out page.html
expect 'ends in the middle' "$weft" report whole.json truncated.json --out page.html
echo '{"format": "weft-result-0"}' >old.json
expect 'another version' "$weft" report old.json
echo '{"answer": 42}' >foreign.json
expect 'no result that a page shows' "$weft" report foreign.json
"$weft" bench rdma --iterations 10 --json rdma.json >/dev/null || { echo "FAILED: a short bench"; failed=$((failed + 1)); }
expect 'give what `--json` of weft bench kv' "$weft" report rdma.json
expect 'there is no folder' "$weft" report whole.json --out nowhere/page.html
expect 'were not provided' "$weft" report

# Nodes.
expect 'were not provided' "$weft" start
expect 'cannot be read' "$weft" start --config missing.toml
echo 'node = ' >broken.toml
expect 'line 1' "$weft" start --config broken.toml
node 3 >other.toml
expect 'other.toml' "$weft" start --config other.toml
{ node 0; printf '[[peers]]\nnode = 1\naddress = "127.77.0.1"\n'; } >twins.toml
expect 'belongs to node 0 already' "$weft" start --config twins.toml
node 0 192.0.2.1 >elsewhere.toml
expect 'no interface of this machine' "$weft" start --config elsewhere.toml
printf 'nodes = 1\naddress = "127.77.0.9:4794"\nstate_file = "nowhere/state.toml"\n' >stateless.toml
expect 'nowhere/state.toml: cannot be written' "$weft" membership --config stateless.toml
{ node 0 127.77.0.8; printf 'datagram_port = 4793\n'; } | sed 's/^serve.*/&\nstate_file = "nowhere\/state.toml"/' >stateless0.toml
expect 'nowhere/state.toml: cannot be written' "$weft" start --config stateless0.toml
{ echo 'cluster = "two words"'; node 0; } >unnamed.toml
expect 'a name has 1 to 32 letters' "$weft" start --config unnamed.toml
printf 'nodes = 99\naddress = "127.77.0.9:4794"\n' >many.toml
expect 'many.toml' "$weft" membership --config many.toml

# Asking a cluster.
node 0 127.77.0.5 >quiet.toml
expect 'give a configuration by --config' "$weft" kv get a
expect 'the key has 9 bytes' "$weft" kv --config quiet.toml get ninebytes
expect 'the value has 0 bytes' "$weft" kv --config quiet.toml put a ''
expect 'invalid value' "$weft" kv --config quiet.toml compare-and-set a seven b
expect 'no answer within' "$weft" kv --config quiet.toml --give-up-ms 50 get a

# Calling transactions.
with_transactions() { node 0 127.77.0.6; printf '[transactions]\nprocedures = "%s"\nsize = %s\n' "$1" "$2"; }
with_transactions ledger 10 >ledger.toml
expect 'cannot be read' "$weft" txn call transfer 0/1 0/2
expect 'runs no transactions' "$weft" txn --config quiet.toml call transfer 0/1 0/2
expect 'use weft txn call' "$weft" kv --config ledger.toml get a
expect 'choose transfer, deposit, balance' "$weft" txn --config ledger.toml call steal 0/1
expect 'is no key' "$weft" txn --config ledger.toml call balance 7
expect 'there is a shard for each node' "$weft" txn --config ledger.toml call balance 1/7
expect 'there is no node 1' "$weft" txn --config ledger.toml call balance 0/7 --node 1
expect 'give whole numbers' "$weft" txn --config ledger.toml call deposit 0/1 --input much
expect 'no node took the call' "$weft" txn --config ledger.toml call balance 0/7 --give-up-ms 50
with_transactions bank 10 >bank.toml
expect 'nothing is registered as `bank`' "$weft" start --config bank.toml
with_transactions smallbank 1 >small.toml
expect 'size of 2 to 2400000' "$weft" start --config small.toml
{ cat ledger.toml; printf '[kv]\n'; } >both.toml
expect 'not both' "$weft" start --config both.toml
{ cat ledger.toml; printf 'record = "nowhere/records"\n'; } >recorded.toml
expect 'nowhere/records' "$weft" start --config recorded.toml
{ cat ledger.toml; printf 'record = "quiet.toml"\n'; } >overwritten.toml
cp quiet.toml kept.toml
expect 'something else than records' "$weft" start --config overwritten.toml
cmp quiet.toml kept.toml || failed=$((failed + 1))

# A port in use.
node 0 >node.toml
"$weft" start --config node.toml >ready 2>&1 &
holder=$!
for _ in {1..1200}; do
    grep -q 'as full' ready && break
    kill -0 "$holder" 2>/dev/null || break
    sleep 0.05
done
grep -q 'as full' ready || { echo "tests/errors.sh: the node does not serve:" >&2; cat ready >&2; exit 1; }
expect 'is in use' "$weft" start --config node.toml

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
