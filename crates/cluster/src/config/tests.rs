use proptest::prelude::*;

use super::engines::{KvConfig, LockConfig, LogConfig, ObjectConfig, RoundsConfig};
use super::*;
use crate::place::tests::host;

const EXAMPLE: &str = r#"[cluster]
name = "orders"

[membership]
address = "127.0.0.2:4794"
node = 1
lease_ms = 500
state_file = "state.toml"

[[node]]
address = "127.0.0.1"

[[node]]
address = "127.0.0.2"
datagram_port = 14793
core = 1
spin_us = 0

[cores]
spin_us = 20

[kv]
value_bytes = 64

[transactions]
procedures = "ledger"
size = 10
record = "records"

[[object]]
name = "cart"
type = "2p-set"

[[object]]
name = "stock"
type = "account"

[[log]]
name = "events"

[rounds]
period_us = 200

[lock]
"#;

fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

#[test]
fn an_example_is_read_with_its_defaults() {
    let config = ClusterConfig::parse(EXAMPLE).unwrap();
    assert_eq!(config.name.as_str(), "orders");
    assert_eq!(config.mtu_bytes, DEFAULT_MTU_BYTES);
    assert_eq!(config.datagram_bytes(), 1_472);
    assert_eq!(config.peers.len(), 2);
    assert_eq!(config.peers.get(node(0)), Some(&PeerConfig::new(std::net::Ipv4Addr::LOCALHOST)));
    let second = config.peers.get(node(1)).unwrap();
    assert_eq!(second.datagram_place(), "127.0.0.2:14793".parse().unwrap());
    let cores = |spin_us, core| CoresConfig { spin: Duration::from_us(spin_us), core };
    assert_eq!(config.cores, [cores(20, None), cores(0, Some(1))]);
    let membership = &config.membership;
    assert_eq!((membership.node, membership.serve.lease), (Some(node(1)), Duration::from_ms(500)));
    let engines = &config.engines;
    assert_eq!(engines.kv, Some(KvConfig { value_bytes: 64, ..KvConfig::DEFAULT }));
    let transactions = engines.transactions.as_ref().unwrap();
    assert_eq!((transactions.size, transactions.replicas), (10, 2));
    assert_eq!(engines.rounds, Some(RoundsConfig { period: Duration::from_us(200) }));
    assert_eq!(engines.lock, Some(LockConfig::DEFAULT));
    let slots: Vec<_> = engines.slots().iter().map(ToString::to_string).collect();
    assert_eq!(
        slots,
        [
            "[kv]",
            "[transactions]",
            "[[object]] cart",
            "[[object]] stock",
            "[[log]] events",
            "[rounds]",
            "[lock]"
        ]
    );
}

#[test]
fn each_node_sees_its_own_part() {
    let config = ClusterConfig::parse(EXAMPLE).unwrap();
    let first = config.node(node(0)).unwrap();
    assert_eq!(first.own(), config.peers.get(node(0)).unwrap());
    assert_eq!((first.membership.serve.clone(), first.service()), (None, None));
    let second = config.node(node(1)).unwrap();
    assert_eq!(second.service(), Some(config.service()));
    assert_eq!(second.cores, config.cores[1]);
    let record = |config: &NodeConfig| config.engines.transactions.as_ref().unwrap().record.clone();
    assert_eq!(record(&first), Some("records.node0".into()));
    assert_eq!(record(&second), Some("records.node1".into()));
    assert_eq!(first.profile(), second.profile());
    let error = config.node(node(2)).unwrap_err();
    assert_eq!(error.to_string(), "there is no node 2: the configuration has nodes 0 to 1");
}

const KEPT: &str = "[membership]\ncoordinators = [2, 0, 1]\n[[node]]\naddress = \"10.0.0.1\"\n[[node]]\n\
                    address = \"node1\"\n[[node]]\naddress = \"10.0.0.3\"\n[kv]\n";

#[test]
fn every_node_of_a_cluster_with_coordinators_is_a_keeper() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.toml");
    std::fs::write(&path, KEPT).unwrap();
    let config = ClusterConfig::load(&path).unwrap();
    let places = ["10.0.0.1:4794", "node1:4794", "10.0.0.3:4794"].map(|place| place.parse().unwrap());
    assert_eq!(config.membership_places(), places);
    for number in 0..3 {
        let seen = config.node(node(number)).unwrap();
        assert_eq!((seen.membership_places(), seen.service()), (places.to_vec(), Some(config.service())));
    }
    assert_eq!(config.membership.coordinators, [2, 0, 1].map(node));
    let file = folder.path().join("weft.coordinator.node1");
    assert_eq!(config.service().coordinator_file(node(1)), Some(file));
}

#[test]
fn coordinators_that_cannot_be_are_refused() {
    let reason = |from: &str, to: &str| {
        assert!(KEPT.contains(from), "{from}");
        ClusterConfig::parse(&KEPT.replacen(from, to, 1)).unwrap_err()
    };
    for (list, expected) in [
        ("[0, 1]", "line 2: [membership] coordinators = [0, 1]: give the numbers of 1, 3 or 5 nodes"),
        ("[]", "line 2: [membership] coordinators = []: give the numbers of 1, 3 or 5 nodes"),
        ("[0, 1, 3]", "line 2: [membership] coordinators = [0, 1, 3]: there are nodes 0 to 2"),
        ("[0, 1, 1]", "line 2: [membership] coordinators = [0, 1, 1]: node 1 is there twice"),
        (
            "[0, 1, 16]",
            "line 2: [membership] coordinators = [0, 1, 16]: give numbers from 0 to 15 in brackets",
        ),
        ("\"0\"", "line 2: [membership] coordinators = \"0\": give numbers from 0 to 15 in brackets"),
    ] {
        let reason = reason("[2, 0, 1]", list);
        assert!(reason.starts_with(expected), "{reason}");
    }
    for line in ["address = \"10.0.0.1:4794\"", "node = 0", "state_file = \"a\""] {
        let reason = reason("coordinators", &format!("{line}\ncoordinators"));
        let expected = format!("line 2: [membership] {line}: with coordinators every node is a keeper");
        assert!(reason.starts_with(&expected), "{reason}");
    }
    let taken = reason("address = \"node1\"", "address = \"node1\"\ndatagram_port = 4794");
    assert!(taken.contains("keepers use port 4794, which is the datagram_port of node 1"), "{taken}");
    let names: String =
        (0..15).map(|log| format!("[[log]]\nname = \"{}{log:02}\"\n", "a".repeat(30))).collect();
    let long = "node1.".repeat(33) + "node";
    let many =
        format!("{}{names}", KEPT.replace("node1", &long).replace("10.0.0.1\"", &format!("other.{long}\"")));
    let longer = many.replace("10.0.0.3", &format!("third.{long}"));
    assert!(ClusterConfig::parse(&many).is_ok(), "{:?}", ClusterConfig::parse(&many));
    let reason = ClusterConfig::parse(&longer).unwrap_err();
    assert!(reason.contains("the register of the keepers that has room for 960"), "{reason}");
}

/// A view always has a holder of every shard, and therefore a node that holds all keys.
#[test]
fn the_engine_with_the_fewest_replicas_decides_how_many_there_are() {
    let mut nodes = String::from("[membership]\naddress = \"127.0.0.9:4794\"\n");
    for node in 1..=5 {
        nodes += &format!("[[node]]\naddress = \"127.0.0.{node}\"\n");
    }
    let replicas = |engines: &str| {
        let config = ClusterConfig::parse(&format!("{nodes}{engines}")).unwrap();
        assert_eq!(config.node(node(3)).unwrap().replicas(), config.service().replicas);
        config.service().replicas
    };
    let transactions = "[transactions]\nprocedures = \"ledger\"\nsize = 10\n";
    assert_eq!(replicas("[kv]"), 5);
    assert_eq!(replicas(transactions), 3);
    assert_eq!(replicas(&format!("{transactions}replicas = 2\n[kv]\n[[log]]\nname = \"a\"")), 2);
    assert_eq!(replicas("[[log]]\nname = \"a\""), 5);
}

#[test]
fn the_file_the_line_and_the_reason_stand_on_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weft.toml");
    let message = || ClusterConfig::load(&path).unwrap_err().to_string();
    assert!(message().contains("weft.toml: cannot be read (No such file"), "{}", message());
    std::fs::write(&path, EXAMPLE.replace("[cores]\nspin_us", "[cores]\nspin")).unwrap();
    let expected = "weft.toml: line 20: [cores] spin: there is no such key; choose spin_us";
    assert!(message().ends_with(expected), "{}", message());
    std::fs::write(&path, EXAMPLE).unwrap();
    assert!(ClusterConfig::load(&path).is_ok());
}

#[test]
fn names_of_files_count_from_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weft.toml");
    let state_file = || ClusterConfig::load(&path).unwrap().membership.serve.state_file.unwrap();
    std::fs::write(&path, EXAMPLE).unwrap();
    assert_eq!(state_file(), directory.path().join("state.toml"));
    let record = ClusterConfig::load(&path).unwrap().engines.transactions.unwrap().record;
    assert_eq!(record, Some(directory.path().join("records")));
    std::fs::write(&path, EXAMPLE.replace("state_file = \"state.toml\"\n", "")).unwrap();
    assert_eq!(state_file(), directory.path().join("weft.membership.toml"));
    std::fs::write(&path, EXAMPLE.replace("\"state.toml\"", "\"/var/lib/weft.toml\"")).unwrap();
    assert_eq!(state_file(), Path::new("/var/lib/weft.toml"));
}

#[test]
fn every_contradiction_has_its_own_line() {
    let reason = |from: &str, to: &str| {
        assert!(EXAMPLE.contains(from), "{from}");
        let reason = ClusterConfig::parse(&EXAMPLE.replacen(from, to, 1)).unwrap_err();
        assert!(!reason.contains('\n'), "{reason}");
        reason
    };
    let cases = [
        (
            "name = \"orders\"",
            "name = \"two words\"",
            "line 2: [cluster] name = \"two words\": give 1 to 32 letters",
        ),
        (
            "name = \"orders\"",
            "tables = \"huge\"",
            "line 2: [cluster] tables = \"huge\": choose \"on-demand\" or \"preallocated\"",
        ),
        (
            "name = \"orders\"",
            "mtu_bytes = 100",
            "line 2: [cluster] mtu_bytes = 100: give a number from 576 to 65535",
        ),
        (
            "name = \"orders\"",
            "mtu_bytes = 1399",
            "line 2: [cluster] mtu_bytes = 1399: [transactions] needs packets",
        ),
        ("name = \"orders\"", "name = ", "line 2, column 8: "),
        ("name = \"orders\"", "name = \"a\"\nname = \"b\"", "line 3, column 1: duplicate key"),
        ("[cluster]", "[claster]", "line 1: `claster`: there is no such table; the tables are [cluster], "),
        ("[cluster]", "[[cluster]]", "line 1: `cluster`: write [cluster], once"),
        ("[cluster]", "size = 3\n[cluster]", "line 1: `size`: there is no such key"),
        ("[[log]]", "[log]", "line 38: `log`: write [[log]], one for each"),
        (
            "address = \"127.0.0.2:4794\"\n",
            "",
            "line 4: [membership]: `address` is missing; give an IPv4 or IPv6 address or a host name, and a port",
        ),
        (
            "127.0.0.2:4794",
            "127.0.0.2",
            "line 5: [membership] address = \"127.0.0.2\": give an IPv4 or IPv6 address or a host name, and a port",
        ),
        ("127.0.0.2:4794", "127.0.0.2:0", "no datagram can be sent there"),
        ("127.0.0.2:4794", "127.0.0.2:14793", "port 14793 belongs to node 1 already"),
        ("127.0.0.2:4794", "127.0.0.2:4791", "port 4791 belongs to node 1 already"),
        ("127.0.0.2:4794", "10.0.0.1:4794", "node 1 runs the service, and is at 127.0.0.2"),
        ("node = 1", "node = 2", "line 6: [membership] node = 2: there are nodes 0 to 1"),
        ("node = 1", "serve = true", "line 6: [membership] serve: give node = the number of the node"),
        (
            "lease_ms = 500",
            "lease_ms = 0",
            "line 7: [membership] lease_ms = 0: give a number from 1 to 3600000",
        ),
        ("lease_ms = 500", "lease_ms = 9223372036854775807", "give a number from 1 to 3600000"),
        ("\"state.toml\"", "\"\"", "line 8: [membership] state_file = \"\": give the name of a file"),
        ("address = \"127.0.0.1\"\n", "", "line 10: [[node]] 0: `address` is missing"),
        (
            "address = \"127.0.0.1\"\n",
            "node = 0\n",
            "line 11: [[node]] 0 node: nodes are numbered in the order",
        ),
        (
            "\"127.0.0.1\"\n",
            "\"127.0.0.256\"\n",
            "line 11: [[node]] 0 address = \"127.0.0.256\": give an IPv4 or IPv6 address or a host name, as",
        ),
        (
            "\"127.0.0.1\"\n",
            "\"fd00::1\"\n",
            "line 13: [[node]] 1: 127.0.0.2 is an IPv4 address, and node 0 is at fd00::1: all talk over one version of IP",
        ),
        (
            "\"127.0.0.1\"\n",
            "\"fe80::1\"\n",
            "line 10: [[node]] 0: no datagram can be sent to address fe80::1",
        ),
        (
            "127.0.0.2:4794\"\nnode = 1",
            "[fd00::1]:4794\"",
            "fd00::1 is an IPv6 address, and node 0 is at 127.0.0.1",
        ),
        (
            "127.0.0.2:4794",
            "::1:4794",
            "line 5: [membership] address = \"::1:4794\": give an IPv4 or IPv6 address or a host name, and a port",
        ),
        (
            "\"127.0.0.1\"\n",
            "\"0.0.0.0\"\n",
            "line 10: [[node]] 0: no datagram can be sent to address 0.0.0.0",
        ),
        (
            "\"127.0.0.1\"\n",
            "\"127.0.0.2\"\n",
            "line 13: [[node]] 1: address 127.0.0.2 belongs to node 0 already",
        ),
        ("= 14793", "= 0", "line 15: [[node]] 1 datagram_port = 0: give a number from 1 to 65535"),
        ("= 14793", "= 4791", "datagram_port = 4791: that is RoCE v2's"),
        ("core = 1", "core = -1", "line 16: [[node]] 1 core = -1: give a number from 0"),
        (
            "spin_us = 0",
            "spin_us = 1000001",
            "line 17: [[node]] 1 spin_us = 1000001: give a number from 0 to 1000000",
        ),
        ("spin_us = 20", "core = 1", "line 20: [cores] core: it belongs to one node"),
        (
            "value_bytes = 64",
            "value_bytes = 0",
            "line 23: [kv] value_bytes = 0: give a number from 1 to 16384",
        ),
        ("value_bytes = 64", "value_bytes = \"64\"", "line 23: [kv] value_bytes = \"64\": give a number"),
        ("value_bytes = 64", "value_bytes = 2000", "mtu_bytes = 1500 takes values of at most 1360 bytes"),
        (
            "value_bytes = 64",
            "partitions = 8",
            "line 23: [kv] partitions: there is no such key; choose key_bytes, ",
        ),
        ("size = 10", "size = 0", "line 27: [transactions] size = 0: give a number from 1"),
        (
            "\"ledger\"",
            "\"\"",
            "line 26: [transactions] procedures = \"\": give 1 to 64 printable characters",
        ),
        ("size = 10", "size = 10\nreplicas = 3", "with 2 nodes a shard has 1 to 2 replicas"),
        ("\"records\"", "\"\"", "line 28: [transactions] record = \"\": give the name of a file"),
        ("\"cart\"", "\"Cart\"", "line 31: [[object]] 0 name = \"Cart\": give 1 to 32 of a-z, 0-9, _ and -"),
        ("type = \"2p-set\"\n", "", "line 30: [[object]] 0: `type` is missing"),
        (
            "\"stock\"",
            "\"cart\"",
            "line 35: [[object]] 1 name = \"cart\": another object or log has this name",
        ),
        (
            "\"events\"",
            "\"stock\"",
            "line 39: [[log]] 0 name = \"stock\": another object or log has this name",
        ),
        (
            "period_us = 200",
            "period_us = 0",
            "line 42: [rounds] period_us = 0: give a number from 1 to 1000000",
        ),
    ];
    for (from, to, expected) in cases {
        let reason = reason(from, to);
        assert!(reason.contains(expected), "{from} -> {to}: {reason}");
    }
}

#[test]
fn a_cluster_has_one_to_sixteen_nodes_and_engines() {
    let head = "[membership]\naddress = \"127.0.0.9:4794\"\n";
    let reason = |text: String| ClusterConfig::parse(&text).unwrap_err();
    let nodes = |count: usize| {
        let node = |node| format!("[[node]]\naddress = \"10.0.0.{node}\"\n");
        (1..=count).map(node).collect::<String>()
    };
    let logs =
        |count: usize| (0..count).map(|log| format!("[[log]]\nname = \"log{log}\"\n")).collect::<String>();
    assert!(reason(format!("{head}[kv]")).contains("there is no [[node]]: write one for each node"));
    assert!(reason(nodes(1)).contains("there is no [membership]"));
    assert!(reason(format!("{head}{}", nodes(1))).contains("there is no engine: add [kv]"));
    let error = reason(format!("{head}{}[kv]", nodes(17)));
    assert_eq!(error, "line 35: [[node]] 16: it is one of 17 nodes; a cluster has at most 16");
    let error = reason(format!("{head}{}[kv]\n{}", nodes(1), logs(16)));
    assert_eq!(error, "line 36: [[log]] 15: it is one of 17 engines; a cluster has at most 16");
    assert!(ClusterConfig::parse(&format!("{head}{}{}", nodes(16), logs(16))).is_ok());
}

#[test]
fn the_names_of_a_cluster_fit_into_a_message() {
    let text = |bytes: usize| {
        let names = (b'a'..=b'p')
            .map(|node| format!("[[node]]\naddress = \"{}.{}\"\n", node as char, "x".repeat(bytes)));
        format!("[membership]\naddress = \"elsewhere:4794\"\n{}[kv]\n", names.collect::<String>())
    };
    assert!(ClusterConfig::parse(&text(63)).is_ok());
    let long =
        text(63).replace("[[node]]\naddress = \"", "[[node]]\naddress = \"and-one-label-more-for-each-node.");
    let error = ClusterConfig::parse(&long).unwrap_err();
    assert!(error.contains("bytes of a message that has room for 1290: shorten them"), "{error}");
}

#[test]
fn nodes_with_ipv6_addresses_or_names_have_longer_headers() {
    let at = |node: &str| {
        let text =
            format!("[membership]\naddress = \"service:4794\"\n[[node]]\naddress = \"{node}\"\n[kv]\n");
        ClusterConfig::parse(&text).unwrap()
    };
    let family = |node| at(node).service().family();
    assert_eq!(
        [at("10.0.0.1"), at("fd00::1"), at("node0")].map(|config| config.datagram_bytes()),
        [1_472, 1_452, 1_452]
    );
    assert_eq!(
        [family("10.0.0.1"), family("fd00::1"), family("node0")],
        [Some(Family::V4), Some(Family::V6), None]
    );
}

#[test]
fn files_of_earlier_versions_are_told_where_their_keys_go() {
    let reason = |text: &str| ClusterConfig::parse(text).unwrap_err();
    let node = "node = 0\n[membership]\naddress = \"127.0.0.1:4794\"\nserve = true\n\
                [[peers]]\nnode = 0\naddress = \"127.0.0.1\"\n";
    let said = reason(node);
    assert!(said.starts_with("line 1: this is the file of one node"), "{said}");
    assert!(said.contains("each [[peers]] becomes [[node]]") && said.contains("weft start --node"), "{said}");
    let said = reason(&format!("cluster = \"ledger\"\n{node}"));
    assert!(said.starts_with("line 2: this is the file of one node"), "{said}");
    let said = reason("nodes = 3\naddress = \"127.0.0.1:4794\"\n");
    assert!(said.starts_with("line 1: this is the file of a membership service alone"), "{said}");
    let said = reason("cluster = \"ledger\"");
    assert!(said.starts_with("line 1: write [cluster], and below it name"), "{said}");
}

#[test]
fn an_engine_on_disk_has_a_cluster_of_its_own() {
    let text = |more: &str| {
        format!(
            "[membership]\naddress = \"127.0.0.9:4794\"\n[[node]]\naddress = \"10.0.0.1\"\n\
             [kv]\ndata_dir = \"data\"\n{more}"
        )
    };
    let config = ClusterConfig::parse(&text("")).unwrap();
    assert!(config.engines.kv.is_some_and(|kv| kv.durable_copies == 1));
    assert_eq!(config.engines.data_dir, Some(PathBuf::from("data")));
    assert_eq!(ClusterConfig::parse(&config.to_toml()), Ok(config.clone()));
    let copies = |more: &str| {
        let others = (2..=4).map(|node| format!("[[node]]\naddress = \"10.0.0.{node}\"\n"));
        ClusterConfig::parse(&text(&format!("{more}{}", others.collect::<String>())))
            .map(|config| config.engines.durable_copies())
    };
    assert_eq!(copies(""), Ok(3), "a majority");
    assert_eq!(copies("durability = \"sync\"\ndurable_copies = 4\n"), Ok(4));
    assert!(copies("durable_copies = 2\n").unwrap_err().contains("with 4 nodes give 3 to 4"));
    let parse = |more: &str| ClusterConfig::parse(&text(more));
    let lag_of = |config: &ClusterConfig| config.engines.kv.unwrap().disk_lag;
    let config = parse("durability = \"async\"\n").unwrap();
    assert_eq!(lag_of(&config), Some(Duration::from_ms(100)));
    let config = parse("durability = \"async\"\nlag_ms = 7\n").unwrap();
    assert_eq!(lag_of(&config), Some(Duration::from_ms(7)));
    assert_eq!(ClusterConfig::parse(&config.to_toml()), Ok(config));
    assert_eq!(parse("durability = \"sync\"\n").map(|config| lag_of(&config)), Ok(None));
    let error = ClusterConfig::parse(&text("[[log]]\nname = \"events\"\n")).unwrap_err();
    assert!(
        error
            .contains("[kv] data_dir = \"data\": an engine with its data on disk needs a cluster of its own"),
        "{error}"
    );
    let transactions = "procedures = \"ledger\"\nsize = 1\n";
    let error = ClusterConfig::parse(&text(&format!("[transactions]\n{transactions}"))).unwrap_err();
    assert!(error.contains("[kv] data_dir = \"data\": an engine with its data on disk needs"), "{error}");
    let both = text(&format!("[transactions]\n{transactions}data_dir = \"data\"\n"));
    let of_kv = "[kv]\ndata_dir = \"data\"\n";
    let error = ClusterConfig::parse(&both.replace(of_kv, "[kv]\n")).unwrap_err();
    assert!(error.contains("[transactions] data_dir = \"data\": an engine with its data on disk"), "{error}");
    let config = ClusterConfig::parse(&both.replace(of_kv, "")).unwrap();
    assert_eq!(config.engines.data_dir, Some(PathBuf::from("data")));
    assert_eq!(config.engines.durable_copies(), 0);
    assert_eq!(ClusterConfig::parse(&config.to_toml()), Ok(config));
    let error = ClusterConfig::parse(&text("").replace("\"data\"", "\"\"")).unwrap_err();
    assert!(error.contains("[kv] data_dir = \"\": give the name of a folder"), "{error}");
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9_-]{1,32}"
}

fn engines(nodes: usize) -> impl Strategy<Value = EnginesConfig> {
    let kv = (1u32..=64, 1u32..=300, 1u32..);
    let kv = kv.prop_map(|(key_bytes, value_bytes, capacity_keys)| KvConfig {
        key_bytes,
        value_bytes,
        capacity_keys,
        durable_copies: 0,
        disk_lag: None,
    });
    let record = prop::option::of("[^\0]{1,12}".prop_map(PathBuf::from));
    let transactions = ("[ -~]{1,64}", 1..=i64::MAX as u64, 1..=nodes, record);
    let transactions = transactions.prop_map(|(procedures, size, replicas, record)| TransactionsConfig {
        procedures,
        size,
        replicas,
        record,
    });
    let names = prop::collection::btree_set(name(), 0..=12);
    let rounds = (1u64..=1_000_000).prop_map(|us| RoundsConfig { period: Duration::from_us(us) });
    let rounds_and_lock =
        (prop::option::of(rounds), prop::option::of((1u32..=16_384).prop_map(|locks| LockConfig { locks })));
    let parts = (prop::option::of(kv), prop::option::of(transactions), names, name(), rounds_and_lock);
    parts.prop_filter_map("there is an engine", |(kv, transactions, names, data_type, (rounds, lock))| {
        let mut engines = EnginesConfig { kv, transactions, rounds, lock, ..EnginesConfig::default() };
        for name in names {
            if name.len() % 2 == 0 {
                engines.logs.push(LogConfig { name });
            } else {
                engines.objects.push(ObjectConfig { name, data_type: data_type.clone() });
            }
        }
        (!engines.slots().is_empty()).then_some(engines)
    })
}

/// Hosts that may be in one cluster: their addresses differ, and are all of one version of IP. The names are short
/// enough for those of the largest cluster to fit into a message.
fn hosts(count: usize) -> impl Strategy<Value = Vec<Host>> {
    (prop::collection::vec(host(), 2 * count), any::<bool>()).prop_map(move |(drawn, is_ipv4)| {
        let family = if is_ipv4 { Family::V4 } else { Family::V6 };
        let more = (0u8..=255).map(|number| match family {
            Family::V4 => std::net::Ipv4Addr::new(10, 200, 0, number).into(),
            Family::V6 => std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 200, number.into()).into(),
        });
        let mut hosts = Vec::new();
        for host in drawn.into_iter().chain(more) {
            let fits = host.family().map_or(host.to_string().len() < 24, |own| own == family);
            if fits && host.is_reachable() && hosts.len() < count && !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    })
}

fn configuration() -> impl Strategy<Value = ClusterConfig> {
    (1usize..=16).prop_flat_map(|nodes| {
        let cores = (0u64..=1_000_000, prop::option::of(any::<u32>()));
        let cores = cores.prop_map(|(us, core)| CoresConfig { spin: Duration::from_us(us), core });
        let state_file = prop::option::of("[^\0]{1,12}".prop_map(PathBuf::from));
        let runs = prop::sample::select((0..=nodes + 1).collect::<Vec<_>>());
        let membership = (runs, 1u64..=3_600_000, state_file);
        (
            "[A-Za-z0-9._-]{1,32}",
            1_400u32..=65_535,
            membership,
            prop::collection::vec(5_000u16.., nodes),
            prop::collection::vec(cores, nodes),
            (engines(nodes), hosts(nodes + 1)),
        )
            .prop_map(
                move |(name, mtu_bytes, (runs, lease_ms, state_file), ports, cores, (engines, hosts))| {
                    let peer = |(node, datagram_port): (usize, u16)| PeerConfig {
                        address: hosts[node].clone(),
                        datagram_port,
                    };
                    // One of the nodes runs the service, a process of its own does, or they are keepers.
                    let has_keepers = runs > nodes;
                    let service_at = hosts[if has_keepers { 0 } else { runs }].clone();
                    let coordinators = if nodes < 3 { 1 } else { 3 };
                    ClusterConfig {
                        name: ClusterName::new(&name).unwrap(),
                        mtu_bytes,
                        metrics_port: (mtu_bytes % 2 == 0).then_some(METRICS_PORT),
                        tables: if mtu_bytes % 3 == 0 { Tables::Preallocated } else { Tables::OnDemand },
                        membership: MembershipPlace {
                            address: Place::new(service_at, 4794),
                            node: NodeId::new(runs).filter(|_| runs < nodes),
                            coordinators: (0..coordinators)
                                .filter_map(NodeId::new)
                                .filter(|_| has_keepers)
                                .collect(),
                            serve: ServeConfig {
                                lease: Duration::from_ms(lease_ms),
                                state_file: state_file.filter(|_| !has_keepers),
                            },
                        },
                        peers: Peers::new(ports.into_iter().enumerate().map(peer).collect()).unwrap(),
                        cores,
                        redis: engines.kv.filter(|kv| kv.key_bytes > 1 && kv.value_bytes > 9).map(|kv| {
                            RedisConfig {
                                password: (mtu_bytes % 3 == 0).then(|| "secret \"word\"".to_owned()),
                                port: 1 + (kv.value_bytes % 60_000) as u16,
                                ..RedisConfig::default()
                            }
                        }),
                        engines,
                        security: (mtu_bytes % 5 == 0 && mtu_bytes > 20_000)
                            .then(|| SecurityConfig { key_file: "keys/weft.key".into() }),
                    }
                },
            )
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(config in configuration()) {
        prop_assert_eq!(ClusterConfig::parse(&config.to_toml()), Ok(config.clone()));
        prop_assert_eq!(ClusterConfig::parse(&config.to_commented_toml()), Ok(config));
    }

    #[test]
    fn a_changed_file_is_refused_in_one_line_or_read(
        from in any::<prop::sample::Index>(), until in any::<prop::sample::Index>(), piece in "[ -~\n]{0,6}",
    ) {
        let (from, until) = (from.index(EXAMPLE.len()), until.index(EXAMPLE.len()));
        let mut text = EXAMPLE.to_owned();
        text.replace_range(from..until.clamp(from, (from + 6).min(EXAMPLE.len())), &piece);
        match ClusterConfig::parse(&text) {
            Ok(config) => prop_assert_eq!(ClusterConfig::parse(&config.to_toml()), Ok(config)),
            Err(reason) => prop_assert!(!reason.contains('\n') && !reason.is_empty(), "{}", reason),
        }
    }
}
