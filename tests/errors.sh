#!/usr/bin/env bash
# Bad input must cause exactly one line on standard error and exit code 2, and must leave no file behind.
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

# expect WORDS COMMAND...: the command must fail in this way, and its line must contain WORDS.
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

# A cluster of one node at address $1: with the key-value store if there is a second argument; otherwise the caller
# adds engines.
cluster() {
    printf '[membership]\naddress = "%s:4794"\nnode = 0\n[[node]]\naddress = "%s"\n' "$1" "$1"
    [[ -z ${2-} ]] || printf '[kv]\n'
}

# The command line.
expect 'choose error, warn' "$weft" start --node 0 --log-level loud
expect 'choose text or json' "$weft" membership --log xml
expect 'cannot be read' "$weft" status --config nowhere.toml
expect 'is not in 1..=60000' "$weft" status --give-up-ms 0
expect 'a subcommand is missing' "$weft" log --config weft.toml
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
expect '--sealed is for real sockets' "$weft" bench kv --sealed --ops 10
expect 'cannot be used with' "$weft" bench kv --ops 5 --seconds 1
expect 'give seconds' "$weft" bench kv --seconds 0
expect 'give operations per second' "$weft" bench kv --open-loop fast
expect '8 to 1024 bytes' "$weft" bench kv --value-bytes 4
expect '8 to 1024 bytes' "$weft" bench kv --value-bytes 5000
expect 'are checked exhaustively' "$weft" check rounds --nodes 3,6
expect 'there is no folder' "$weft" check rounds --json no/such/folder.json
expect 'the types are g-counter' "$weft" rdt explain bank
expect 'the following required arguments' "$weft" rdt explain
expect 'cannot be used with' "$weft" rdt explain account --all
expect 'there is no folder' "$weft" rdt explain account --smt no/such/file.smt2
expect 'the types are g-counter' "$weft" rdt generate bank --out gates
expect 'the following required arguments' "$weft" rdt generate account
expect 'account has no sort Student; it has none' "$weft" rdt generate account --size Student=3 --out gates
expect 'give a sort and a number' "$weft" rdt generate courseware --size Student --out gates
expect 'choose 1 to 1048576' "$weft" rdt generate courseware --elements 0 --out gates
expect 'the folder cannot be created' "$weft" rdt generate account --out no/such/folder
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
expect 'there is no role `node`' "$weft" bench rdt-crash --crash node
expect 'no node is crashed' "$weft" bench rdt-crash --system waverunner
expect 'choose 3 to 8 nodes' "$weft" bench rdt-crash --nodes 2
expect 'separated by commas' "$weft" bench rdt-crash --updates 15,120
expect 'nothing tells that another one leads' "$weft" bench rdt-crash --updates 0
expect 'account has no keys' "$weft" bench rdt-hybrid --type account
expect 'a smaller --card-keys' "$weft" bench rdt-hybrid --keys 10 --card-keys 10
expect 'give 1 to 64 updates' "$weft" bench rdt-hybrid --summarize 0
printf '[[fault]]\nkind = "crash"\nat_us = 9\nmachine = "node3"\n' >plan.toml
expect 'there is no machine `node3`' "$weft" bench rdt --type account --faults plan.toml
expect 'no machine of weft-log fails' "$weft" bench rdt --type account --system weft-log --faults plan.toml
expect 'leave out --callers leader' "$weft" bench rdt --type account --callers leader --faults plan.toml
expect 'there is no machine `node3`' "$weft" bench rounds --period-ns 2000 --faults plan.toml
expect 'give --period-ns' "$weft" bench rounds --faults plan.toml
expect 'no server meets crash here' "$weft" bench txn --workload smallbank --faults plan.toml
printf '[[fault]]\nkind = "restart"\nat_us = 9\nmachine = "node1"\n' >plan.toml
expect 'does not come back' "$weft" bench rdt --type account --system hamband --faults plan.toml
printf '[[fault]]\nkind = "pause"\nfrom_us = 9\nuntil_us = 12\nmachine = "node6"\n' >plan.toml
expect 'there is no machine `node6`' "$weft" bench txn --workload smallbank --size 100 --faults plan.toml
rm plan.toml
expect 'cannot be read' "$weft" bench rdt --type account --faults nowhere.toml
expect '--perfetto is for one measurement' "$weft" bench rdt --type account --nodes 3..4 --perfetto trace
expect 'there is no workload `bank`' "$weft" bench txn --workload bank
expect 'cannot hold 3 replicas' "$weft" bench txn --workload retwis --nodes 2
expect 'ascending numbers' "$weft" bench txn --workload retwis --outstanding 8,4
expect 'size of 2 to 2400000' "$weft" bench txn --workload smallbank --size 1
expect 'an example to call by hand' "$weft" bench txn-net --workload ledger
expect 'nothing is registered as `tpcc`' "$weft" bench txn-net --workload tpcc
expect 'cannot hold 3 replicas' "$weft" bench txn-net --nodes 2 --replication 3
expect 'there are 3 nodes' "$weft" bench txn-net --kill 3
expect 'the only replica' "$weft" bench txn-net --kill 0 --replication 1
expect 'while their data is in memory' "$weft" bench txn-net --kill all
expect 'give the number of a node, or all' "$weft" bench txn-net --kill none
expect 'nowhere: there is no such folder' "$weft" bench txn-net --data-dir nowhere
expect 'size of 2 to 2400000' "$weft" bench txn-net --size 1
expect 'first half second' "$weft" bench txn-net --seconds 0.5
expect 'no multi-hop to leave out' "$weft" bench txn --workload smallbank --system fasst --without multi-hop
expect 'no cores on its card' "$weft" bench txn --workload smallbank --system drtm-h --nic-cores 8
expect 'retwis has no items' "$weft" bench txn --workload retwis --items 1000
expect 'cannot hold 3 replicas' "$weft" bench txn-steps --nodes 2
expect 'retwis takes a size' "$weft" bench txn-steps --size 2000000
expect 'there is no folder' "$weft" bench txn-steps --json nowhere/result.json
expect 'choose one of --workload' "$weft" bench txn-threads --size 1000
expect 'none of the workloads has items' "$weft" bench txn-threads --workload smallbank --items 200
expect 'there is no workload `bank`' "$weft" bench txn-threads --workload bank
expect 'there is no data type `bank`' "$weft" sim rdt --type bank
expect '3 nodes cannot hold 4 replicas' "$weft" sim txn --nodes 3 --replication 4
expect 'choose a smaller --replication' "$weft" sim txn --nodes 3 --replication 3 --lose-shard
expect 'a shard on disks is not lost' "$weft" sim txn --faults power --lose-shard
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
expect '--map|--tap' "$weft" service new shift
expect 'lower-case letters' "$weft" service new Shift --map
expect 'cannot be used with' "$weft" service new shift --map --tap
expect 'run this in the tree of Weft' "$weft" service new shift --map
expect 'already' "$weft" service new xor --map --out "$OLDPWD"
expect 'preprocess' "$weft" bench service --service inspct
expect 'choose the NIC rtl' "$weft" bench service --service psp
expect 'tools/inspection/export.py' "$weft" bench service --service inspect --packets nowhere
expect 'xor judges no packets' "$weft" bench service --service xor --packets nowhere
expect 'cannot be used with' "$weft" bench service --service preprocess --size 64 --rows 3
expect 'a size of 0' "$weft" bench service --service count --size 64,0
expect 'MTU of 100' "$weft" bench service --service count --mtu 100
expect 'there is no preset' "$weft" bench service --service preprocess --pipeline crito
expect 'cannot be read' "$weft" bench service --service preprocess --pipeline nowhere.toml
printf 'row = { int32 = 2 }\ncolumns.0 = ["lg 1"]\n' >wrong.toml
expect 'there is no operator' "$weft" bench service --service preprocess --pipeline wrong.toml
rm wrong.toml
expect 'a multiple of 16' "$weft" bench cuda --round-bytes 1000
expect 'is not in 1..=128' "$weft" bench cuda --depth 200
ldconfig -p 2>/dev/null | grep -q libcuda.so.1 || expect 'no CUDA driver' "$weft" bench cuda
expect 'unexpected argument' "$weft" check smr --nodes 3
expect 'unexpected argument' "$weft" check register --nodes 3
expect 'unexpected argument' "$weft" check kv --nodes 3
expect 'cannot be used with' "$weft" sim kv --keepers --psp
expect 'choose at most 7 nodes' "$weft" sim kv --nodes 8 --nic rtl --psp
expect 'leave out --engine host, or --psp' "$weft" sim kv --nodes 3 --nic rtl --engine host --psp
expect 'kv is named twice' "$weft" bench compare --engines kv,kv
expect 'cannot be read' "$weft" check history nowhere.jsonl
header='{"history":"key-value","format":1,"start":"empty","operations":2}'
printf '' >empty.jsonl
expect 'line 1: the file is empty' "$weft" check history empty.jsonl
printf '%s\n' "$header" >short.jsonl
expect 'line 2: the file ends after 0 of 2 operations' "$weft" check history short.jsonl
printf '%s\n{}\n{}\n' "$header" >bad.jsonl
expect 'line 2: not an operation: missing field' "$weft" check history bad.jsonl
printf '{"history":"transactions","format":1,"initial_version":0,"transactions":1}\n' >short.jsonl
expect 'line 2: the file ends after 0 of 1 transactions' "$weft" check history short.jsonl
printf '{:index 0, :type :invoke}\n' >jepsen.edn
expect 'line 1: not the header of a history' "$weft" check history jepsen.edn
expect 'there is no folder' "$weft" bench kv --quick --history no/such/folder.jsonl
expect 'a history in EDN is of one run' "$weft" sim txn --seeds 1..2 --history histories.edn
expect 'records' "$weft" bench kv --records 0
expect 'there is no engine `raft`' "$weft" bench compare --engines kv,raft
expect 'whose times are cycles' "$weft" bench compare --engines kv,nic-kv
expect 'the pace of their period' "$weft" bench compare --engines kv,rounds
expect 'give --updates 100, or leave smr out' "$weft" bench compare --engines kv,smr --updates 50
expect 'rdt has calls without a value' "$weft" bench compare --engines kv,rdt --value-bytes 128
expect 'give --profile cores, or leave txn out' "$weft" bench compare --engines kv,txn
expect 'smr has at most 8 nodes' "$weft" bench compare --nodes 9
expect 'ascending' "$weft" bench compare --clients 8,4
expect 'there is no network `mars`' "$weft" bench compare --network mars
expect 'there is no folder' "$weft" bench compare --csv nowhere/points.csv
expect 'for the simulator' "$weft" bench lock --world net --network detpu
expect 'for the simulator' "$weft" bench kv --world net --network detpu
expect 'choose one of switch' "$weft" sim lock --network mars
expect 'there is no engine `raft`; the engines are kv, smr, rdt, txn, lock, rounds' "$weft" sim clients --engine raft
expect 'rounds has at most 8 nodes' "$weft" sim clients --engine rounds --nodes 9
printf '[[fault]]\nkind = "crash"\nat_us = 50000\nmachine = "node0"\n' >crash.toml
expect 'give kinds of faults, which strike a minority' "$weft" sim clients --engine rounds --faults crash.toml
expect 'smr has at most 8 nodes; give fewer --nodes' "$weft" sim clients --engine smr --nodes 9
expect 'txn has 3 replicas here' "$weft" sim clients --engine txn --nodes 4 --profile cores
expect 'give --profile cores' "$weft" sim clients --engine txn
expect 'choose one of fpga-application' "$weft" bench rdt --type account --profile cores
expect 'choose one of cores-all' "$weft" bench txn --workload retwis --profile fpga
expect "unexpected argument '--network'" "$weft" bench rdma --network switch
expect 'is for one measurement' "$weft" bench rdt --type account,auction --hgrm types.hgrm
expect 'measures rates' "$weft" bench rdma --incast 2 --hgrm incast.hgrm
expect 'cannot be read' "$weft" bench lock --faults nowhere.toml
printf '[[fault]]\nkind = "crash"\nat_us = 5\nmachine = "node9"\n' >elsewhere.toml
for bench in kv lock smr compare; do
    expect 'node9' "$weft" bench "$bench" --faults elsewhere.toml
done
expect '2 to 8 nodes' "$weft" bench rounds --nodes 9
expect 'a multiple of 4' "$weft" bench rounds --period-ns 2001
expect 'there is no network' "$weft" bench rounds --network mars
expect 'choose --window 8' "$weft" bench rounds --nodes 7 --window 4
expect 'fewer or shorter values' "$weft" bench rounds --value-bytes 448 --values-per-proposal 4
expect 'is not in 1..=1024' "$weft" bench kv --clients 0

expect 'there is no such folder' "$weft" man --out nowhere
expect 'tcsh' "$weft" completions tcsh

# Names that do not exist, or are not supported.
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

# Options that do not fit the world.
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
expect 'is not in 1..=1024' "$weft" sim kv --jobs 0
expect 'unknown kind of fault' "$weft" sim kv --faults meteorite
expect 'with 3 nodes give --durable-copies 2 to 3' "$weft" sim kv --nodes 3 --faults disk --durable-copies 1
expect 'with 3 nodes give --durable-copies 2 to 3' "$weft" sim kv --nodes 3 --faults disk --durable-copies 4
for option in '--durable-copies 2' '--durability async' '--lag-ms 5'; do
    # shellcheck disable=SC2086
    expect "${option% *} is for nodes with disks: give faults of disks" "$weft" sim kv --nodes 3 --faults all $option
done
expect '--lag-ms is for writes that are answered before they are on disk' "$weft" sim kv --faults disk --lag-ms 5
expect 'is not in 1..=60000' "$weft" sim kv --faults disk --durability async --lag-ms 0
expect "invalid value 'often' for '--durability" "$weft" sim kv --faults disk --durability often
expect 'choose all, omission' "$weft" sim rounds --faults meteorite
expect 'choose streams or register' "$weft" sim rounds --service mail
expect 'cannot be read' "$weft" sim kv --faults missing.toml
printf '[[fault]]\nkind = "loss"\nfrom_us = 5\nuntil_us = 2\nprobability = 0.5\n' >reversed.toml
expect 'until_us must be greater' "$weft" sim kv --faults reversed.toml
printf '[[fault]]\nkind = "crash"\nat_us = 5\nmachine = "node7"\n' >stranger.toml
expect 'there is no machine `node7`' "$weft" sim kv --nodes 3 --faults stranger.toml
expect 'there is no machine `node7`' "$weft" sim smr --nodes 3 --faults stranger.toml
expect 'keeps nothing on disks' "$weft" sim rdt --faults rot
expect 'there is no machine `node7`' "$weft" bench kv --ops 10 --faults stranger.toml --json result.json --pcap captures
printf 'fault = 7' >nonsense.toml
expect 'fault plan, line 1' "$weft" bench kv --faults nonsense.toml

# Paths that cannot be written to.
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

# Result files.
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
"$weft" report rdma.json --out page.html >/dev/null || { echo "FAILED: a page of an RDMA result"; failed=$((failed + 1)); }
expect 'there is no folder' "$weft" report whole.json --out nowhere/page.html
expect 'cannot be created' "$weft" report whole.json --out page.html --svg occupied
expect 'were not provided' "$weft" report

# Configuration files.
expect 'were not provided' "$weft" start
expect 'cannot be read' "$weft" start --node 0
expect 'missing.toml: cannot be read' "$weft" start --config missing.toml --node 0
expect 'missing.toml: cannot be read' "$weft" watch-exit --config missing.toml --node 0
echo 'node = ' >broken.toml
expect 'broken.toml: line 1' "$weft" start --config broken.toml --node 0
cluster 127.77.0.1 kv >one.toml
expect 'one.toml: there is no node 3: the configuration has nodes 0 to 0' "$weft" start --config one.toml --node 3
expect 'is not in 0..16' "$weft" start --config one.toml --node 16
{ cluster 127.77.0.1; printf '[[node]]\naddress = "127.77.0.1"\n[kv]\n'; } >twins.toml
expect 'line 6: [[node]] 1: address 127.77.0.1 belongs to node 0 already' "$weft" start --config twins.toml --node 0
cluster '[::1]' store >brackets.toml
expect 'line 5: [[node]] 0 address = "[::1]": give an IPv4 or IPv6 address or a host name, as' "$weft" start --config brackets.toml --node 0
cluster ::1 store >bare.toml
expect 'line 2: [membership] address = "::1:4794": give an IPv4 or IPv6 address or a host name, and a port, as' "$weft" start --config bare.toml --node 0
printf '[membership]\naddress = "[::1]:4794"\n[[node]]\naddress = "127.77.0.1"\n[kv]\n' >both.toml
expect 'line 2: [membership] address = "[::1]:4794": ::1 is an IPv6 address, and node 0 is at 127.77.0.1: all talk' "$weft" membership --config both.toml
cluster nowhere.invalid store >nowhere.toml
expect 'no host has an address: nowhere.invalid does not resolve' "$weft" kv --config nowhere.toml get a
expect 'no host has an address: nowhere.invalid does not resolve' "$weft" status --config nowhere.toml
cluster 192.0.2.1 kv >elsewhere.toml
expect 'no interface of this machine' "$weft" start --config elsewhere.toml --node 0
cluster 127.77.0.8 kv | sed 's/^node = 0/&\nstate_file = "nowhere\/state.toml"/' >stateless.toml
expect 'nowhere/state.toml: cannot be written' "$weft" start --config stateless.toml --node 0
expect 'the process of node 0 runs the service' "$weft" membership --config stateless.toml
sed '/^node = 0/d' stateless.toml >alone.toml
expect 'nowhere/state.toml: cannot be written' "$weft" membership --config alone.toml
{ printf '[cluster]\nname = "two words"\n'; cat one.toml; } >unnamed.toml
expect 'line 2: [cluster] name = "two words": give 1 to 32 letters' "$weft" start --config unnamed.toml --node 0
sed 's/\[kv\]/&\nvalue_byte = 8/' one.toml >mistyped.toml
expect 'line 7: [kv] value_byte: there is no such key; choose key_bytes, value_bytes' "$weft" kv --config mistyped.toml get a
with() { sed "s/\\[kv\\]/&\\n$1/" one.toml; }
with 'durability = "sync"' >diskless.toml
expect 'line 7: [kv] durability = "sync": it needs a folder for the data: add data_dir' "$weft" kv --config diskless.toml get a
with 'data_dir = "d"\ndurability = "memory"' >undecided.toml
expect 'line 8: [kv] durability = "memory": nothing would be written' "$weft" kv --config undecided.toml get a
with 'data_dir = "d"\ndurability = "often"' >often.toml
expect 'line 8: [kv] durability = "often": choose "memory", "async" or "sync"' "$weft" kv --config often.toml get a
with 'durability = "async"' >lagging.toml
expect 'line 7: [kv] durability = "async": it needs a folder for the data: add data_dir' "$weft" kv --config lagging.toml get a
with 'data_dir = "d"\nlag_ms = 5' >unlagged.toml
expect 'line 8: [kv] lag_ms = 5: no write is answered before it is on disk: add durability = "async"' "$weft" kv --config unlagged.toml get a
with 'data_dir = "d"\ndurability = "async"\nlag_ms = 0' >lagless.toml
expect 'line 9: [kv] lag_ms = 0: give a number from 1 to 60000' "$weft" kv --config lagless.toml get a
{ with 'data_dir = "d"'; printf '[lock]\n'; } >shared.toml
expect 'line 7: [kv] data_dir = "d": an engine with its data on disk needs a cluster of its own' "$weft" kv --config shared.toml get a
with 'durable_copies = 1' >copyless.toml
expect 'line 7: [kv] durable_copies = 1: there are no copies on disk: add data_dir' "$weft" kv --config copyless.toml get a
with 'data_dir = "d"\ndurable_copies = 2' >copies.toml
expect 'line 8: [kv] durable_copies = 2: with 1 nodes give 1 to 1: a majority at least' "$weft" kv --config copies.toml get a
sed 's/\[kv\]/[key-value]/' one.toml >unknown.toml
expect 'line 6: `key-value`: there is no such table; the tables are [cluster]' "$weft" start --config unknown.toml --node 0
cluster 127.77.0.1 >idle.toml
expect 'there is no engine: add [kv]' "$weft" membership --config idle.toml
{ cat one.toml; printf '[[object]]\nname = "a"\ntype = "g-set"\n[[log]]\nname = "a"\n'; } >namesakes.toml
expect 'line 11: [[log]] 0 name = "a": another object or log has this name' "$weft" start --config namesakes.toml --node 0
for engine in '[[log]]\nname = "a"\n' '[[object]]\nname = "a"\ntype = "g-set"\n' '[rounds]\n'; do
    { cat idle.toml; for host in {2..9}; do printf '[[node]]\naddress = "127.77.0.%s"\n' $host; done; printf "$engine"; } >many.toml
    expect 'has at most 8 nodes, and this one has 9' "$weft" start --config many.toml --node 0
done
{ cat one.toml; printf '[[object]]\nname = "a"\ntype = "bank"\n'; } >untyped.toml
expect '[[object]] a: there is no data type `bank`; the types are g-counter' "$weft" start --config untyped.toml --node 0
# Configuration files of earlier versions.
printf 'node = 0\n[membership]\naddress = "127.77.0.1:4794"\nserve = true\n[[peers]]\nnode = 0\naddress = "127.77.0.1"\n' >earlier.toml
expect 'each [[peers]] becomes [[node]]' "$weft" start --config earlier.toml --node 0
printf 'nodes = 1\naddress = "127.77.0.9:4794"\n' >earlier-service.toml
expect 'address, lease_ms and state_file go into its [membership]' "$weft" membership --config earlier-service.toml

# Keepers.
kept() { printf '[membership]\ncoordinators = %s\n%s\n[[node]]\naddress = "127.77.0.1"\n[kv]\n' "$1" "${2-}" >kept.toml; }
kept '[0, 1]'
expect 'line 2: [membership] coordinators = [0, 1]: give the numbers of 1, 3 or 5 nodes' "$weft" start --config kept.toml --node 0
kept '[1]'
expect 'line 2: [membership] coordinators = [1]: there are nodes 0 to 0' "$weft" start --config kept.toml --node 0
for line in 'address = "127.77.0.1:4794"' 'node = 0' 'state_file = "state.toml"'; do
    kept '[0]' "$line"
    expect "line 3: [membership] $line: with coordinators every node is a keeper" "$weft" start --config kept.toml --node 0
done
kept '[0]'
expect 'kept.coordinator.node0: it is not there; restore the file' "$weft" start --config kept.toml --node 0
expect 'every node is a keeper of the service' "$weft" membership --config kept.toml

# The cluster key.
{ cat one.toml; printf '[security]\nkey_file = "weft.key"\n'; } >sealed.toml
{ cat one.toml; printf '[security]\n'; } >keyless.toml
expect 'line 7: [security]: `key_file` is missing; give the name of a file' "$weft" start --config keyless.toml --node 0
for command in 'start --node 0' 'status' 'kv'; do
    [[ $command == kv ]] && last='get a' || last=
    expect 'weft.key: cannot be read' "$weft" $command --config sealed.toml $last
done
echo secret >weft.key
chmod 644 weft.key
expect 'weft.key: others may use it (mode 644): chmod 600 it' "$weft" start --config sealed.toml --node 0
chmod 600 weft.key
expect 'weft.key: it does not begin with `weft-key-1:`; copy it from another node' "$weft" kv --config sealed.toml get a
echo weft-key-1:12 >weft.key
expect 'is not followed by 64 hexadecimal digits' "$weft" status --config sealed.toml
expect 'weft.key: it is there already' "$weft" init --sealed
rm weft.key
sed '/^node = 0/d' sealed.toml >apart.toml
expect 'weft.key: cannot be read' "$weft" membership --config apart.toml

# Creating configuration files.
expect 'one.toml: cannot be created' "$weft" init --dir one.toml
cp one.toml weft.toml
expect 'weft.toml: it is there already' "$weft" init
cmp one.toml weft.toml || failed=$((failed + 1))
rm weft.toml
expect 'is not in 1..=16' "$weft" init --nodes 17 --dir new
expect 'an address of its own' "$weft" init --addresses 10.0.0.1,10.0.0.2 --membership --dir new
expect 'give an IPv4 or IPv6 address or a host name' "$weft" init --membership 10.0.0.256 --dir new
expect 'cannot be used with' "$weft" init --keepers --membership --dir new
touch weft.coordinator.node0
expect 'weft.coordinator.node0: cannot be written: it is there already' "$weft" init --keepers
rm weft.coordinator.node0
expect 'cannot be used with' "$weft" init --nodes 3 --addresses 10.0.0.1 --dir new
expect 'belongs to node 0 already' "$weft" init --addresses 10.0.0.1,10.0.0.1 --dir new
expect 'give an IPv4 or IPv6 address or a host name' "$weft" init --addresses 10.0.0.256 --dir new
expect 'over one version of IP, so give addresses of one, or names' "$weft" init --addresses 10.0.0.1,fd00::1 --dir new
expect 'no datagram can be sent to address fe80::1' "$weft" init --addresses fe80::1 --dir new
expect 'a name has 1 to 32 letters' "$weft" init --name 'two words' --dir new

# Requests to a cluster.
cluster 127.77.0.5 kv >quiet.toml
expect 'weft.toml: cannot be read' "$weft" kv get a
expect 'the key has 9 bytes' "$weft" kv --config quiet.toml get ninebytes
expect 'the value has 0 bytes' "$weft" kv --config quiet.toml put a ''
expect 'invalid value' "$weft" kv --config quiet.toml compare-and-set a seven b
expect 'no answer within' "$weft" kv --config quiet.toml --give-up-ms 50 get a

# Requests to its logs, objects, rounds and locks.
{ cluster 127.77.0.8; printf '[lock]\n'; } >locks.toml
{ cluster 127.77.0.7; printf '[[object]]\nname = "till"\ntype = "account"\n[[log]]\nname = "events"\n[rounds]\n'; } >engines.toml
expect 'quiet.toml: the cluster has no log `events`; it has no [[log]] at all' "$weft" log --config quiet.toml append events a
expect 'the cluster has no log `audit`; it has events' "$weft" log --config engines.toml read audit 0
expect 'invalid value' "$weft" log --config engines.toml read events first
expect 'no answer within' "$weft" log --config engines.toml --give-up-ms 50 read events 0
expect 'there is no type `bank`; choose g-counter' "$weft" object --config engines.toml bank till deposit 5
expect 'no [[object]] at all' "$weft" object --config quiet.toml account till deposit 5
expect 'the cluster has no object `safe`; it has till (account)' "$weft" object --config engines.toml account safe balance
expect 'the object `till` has the type account, not g-set: give account' "$weft" object --config engines.toml g-set till size
expect 'account: deposit' "$weft" object --config engines.toml account till steal 5
expect 'there is no replica 1' "$weft" object --config engines.toml account till balance --node 1
expect 'there is no [rounds]' "$weft" rounds --config quiet.toml propose a
expect 'at least one byte' "$weft" rounds --config engines.toml propose ''
expect 'there is no [lock]' "$weft" lock --config quiet.toml query a
expect 'no answer within' "$weft" lock --config locks.toml --give-up-ms 50 acquire a
expect '1 to 48 bytes' "$weft" lock --config locks.toml query "$(printf 'a%.0s' {1..49})"
expect 'is not in 1..=3600000' "$weft" lock --config locks.toml acquire a --ttl-ms 0
expect 'give INSTANCE/PROPOSER' "$weft" rounds --config engines.toml read --after 7
expect 'weft.toml: cannot be read' "$weft" bench cluster
expect 'is not in 1..=64' "$weft" bench cluster --config engines.toml --clients 0

# Calling transactions.
with_transactions() { cluster 127.77.0.6; printf '[transactions]\nprocedures = "%s"\nsize = %s\n' "$1" "$2"; }
with_transactions ledger 10 >ledger.toml
expect 'cannot be read' "$weft" txn call transfer 0/1 0/2
expect 'runs no transactions' "$weft" txn --config quiet.toml call transfer 0/1 0/2
expect 'there is no [kv]' "$weft" kv --config ledger.toml get a
expect 'choose transfer, deposit, balance' "$weft" txn --config ledger.toml call steal 0/1
expect 'is no key' "$weft" txn --config ledger.toml call balance 7
expect 'there is a shard for each node' "$weft" txn --config ledger.toml call balance 1/7
expect 'there is no node 1' "$weft" txn --config ledger.toml call balance 0/7 --node 1
expect 'give whole numbers' "$weft" txn --config ledger.toml call deposit 0/1 --input much
expect 'no node took the call' "$weft" txn --config ledger.toml call balance 0/7 --give-up-ms 50
with_transactions bank 10 >bank.toml
expect 'the load calls those of "ledger"' "$weft" bench cluster --config bank.toml
expect 'nothing is registered as `bank`' "$weft" start --config bank.toml --node 0
with_transactions smallbank 1 >small.toml
expect 'size of 2 to 2400000' "$weft" start --config small.toml --node 0
{ cat ledger.toml; printf 'record = "nowhere/records"\n'; } >recorded.toml
expect 'nowhere/records' "$weft" start --config recorded.toml --node 0
{ cat ledger.toml; printf 'record = "quiet.toml"\n'; } >overwritten.toml
cp quiet.toml quiet.toml.node0
expect 'something else than records' "$weft" start --config overwritten.toml --node 0
cmp quiet.toml quiet.toml.node0 || failed=$((failed + 1))

# A port that is already in use.
{ cluster 127.77.0.1 kv; tail -n +6 engines.toml; } >node.toml
"$weft" start --config node.toml --node 0 >ready 2>&1 &
holder=$!
for _ in {1..1200}; do
    grep -q 'as full' ready && break
    kill -0 "$holder" 2>/dev/null || break
    sleep 0.05
done
grep -q 'as full' ready || { echo "tests/errors.sh: the node does not serve:" >&2; cat ready >&2; exit 1; }
expect 'is in use' "$weft" start --config node.toml --node 0

# Backups.
expect 'required arguments were not provided: --to <FILE>' "$weft" backup --config node.toml
expect 'cannot be used with' "$weft" backup --config node.toml --to a.backup --check b.backup
expect 'there is no [kv]' "$weft" backup --config ledger.toml --to a.backup
expect 'there is no folder' "$weft" backup --config node.toml --to no/such/folder/a.backup
expect 'cannot be read' "$weft" backup --check nowhere.backup
expect 'is no backup' "$weft" backup --check quiet.toml
expect 'is no backup' "$weft" restore --config node.toml --from quiet.toml
expect 'required arguments were not provided: --from <FILE>' "$weft" restore --config node.toml
expect 'no node began a backup' "$weft" backup --config quiet.toml --give-up-ms 100 --to a.backup
"$weft" kv --config node.toml --give-up-ms 20000 put key value >ready
"$weft" backup --config node.toml --give-up-ms 20000 --to a.backup >ready
expect 'the cluster has keys, and nothing was written' "$weft" restore --config node.toml --from a.backup
head --bytes 300 a.backup >cut.backup
expect 'is cut off' "$weft" backup --check cut.backup
expect 'is cut off' "$weft" restore --config node.toml --from cut.backup
sed 's/value/Value/' a.backup >flipped.backup
expect 'is damaged in the block at byte' "$weft" restore --config node.toml --from flipped.backup
sed 's/^\[kv\]/&\nvalue_bytes = 4/' node.toml >short.toml
expect '[kv] value_bytes is 4; the backup needs at least 5' "$weft" restore --config short.toml --from a.backup

# What is left on disks.
expect 'required arguments were not provided: <FILE>' "$weft" recover --config node.toml
expect 'keeps nothing on disk' "$weft" recover --config node.toml a.backup
{ cluster 127.77.0.7 kv; printf 'data_dir = "data"\ncapacity_keys = 1000\n'; } >kept.toml
expect 'nowhere.weft: cannot be read' "$weft" recover --config kept.toml nowhere.weft
expect 'a.backup: the store has other sizes than those that are configured; go on without this file' \
    "$weft" recover --config kept.toml a.backup
{ cluster 127.77.0.7; printf '[transactions]\nprocedures = "ledger"\nsize = 10\ndata_dir = "data"\n'; } >accounts.toml
expect 'the data files of this cluster are those of [transactions]' "$weft" recover --config accounts.toml a.backup
expect 'there is no [kv], and backups are of nothing else' "$weft" backup --config accounts.toml --to b.backup
expect 'there is no [kv], and backups are of nothing else' "$weft" restore --config accounts.toml --from a.backup
expect 'not provided: --to <BACKUP>' "$weft" recover --config kept.toml --accept-loss a.backup

# A negative answer of the cluster: one line on standard output, exit code 3.
negative() {
    local words=$1 status=0
    shift
    "$@" >.stdout 2>.stderr </dev/null || status=$?
    if [[ $status -eq 3 && $(wc -l <.stdout) -eq 1 && ! -s .stderr ]] && grep -qF -- "$words" .stdout; then
        passed=$((passed + 1))
    else
        echo "FAILED: $*: exit code $status, '$words' expected"
        sed 's/^/    /' .stdout .stderr
        failed=$((failed + 1))
    fi
    rm -f .stdout .stderr
}
negative 'not found' "$weft" kv --config node.toml --give-up-ms 20000 get a
negative 'not yet' "$weft" log --config node.toml --give-up-ms 20000 read events 0
negative 'refused' "$weft" object --config node.toml --give-up-ms 20000 account till withdraw 5

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
