//! The profile: the parts of the nodes' configurations that must be equal in a cluster.
//!
//! A node that starts sends its profile with its heartbeats. The membership service compares it with those of the
//! other nodes before it accepts the node. Nodes that disagree about the sizes of a table, the placement of data
//! or the slots of engines would give wrong answers, or none.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 1 | nodes | *n*, 1 to 16 |
//! | 1 | engines | bit 0: `[kv]`, 1: `[transactions]`, 2: `[rounds]`, 3: `data_dir`, 4: `[lock]`, 5: `[kv]` has a `lag_ms` |
//! | 1, 1 | objects, logs | how many of each |
//! | 4 | MTU | bytes of an IP packet |
//! | places | nodes | host and port of each: [`Place::encode`] |
//! | 4, 4, 4 | `[kv]` | bytes of a key and of a value, keys |
//! | 1 | `durable_copies` | of a `[kv]` with a `data_dir` |
//! | 4 | `lag_ms` | with `durability = "async"` |
//! | 8, 1, text | `[transactions]` | objects of a shard, replicas, procedures |
//! | text, text | each object | name, type |
//! | text | each log | name |
//! | 4 | `[rounds]` | period in microseconds |
//! | 4 | `[lock]` | locks that can be held |
//!
//! Names of hosts are compared as they are written, because the addresses that they resolve to may change.
//!
//! A text is one byte with its length, followed by its bytes. An item that is not configured takes no bytes.

use std::fmt;

use weft_time::Duration;
use weft_waist::{NODES_MAX, NodeId};

use crate::config::engines::{
    ENGINES_MAX, EngineConfig, EnginesConfig, KvConfig, LockConfig, LogConfig, NAMES_BYTES_MAX, ObjectConfig,
    RoundsConfig, TransactionsConfig, is_name,
};
use crate::config::{NodeConfig, Peers};
use crate::place::Place;
use crate::text::Text;

/// Length in bytes of the fields before the addresses of the nodes.
const FIXED_BYTES: usize = 8;
/// Length in bytes of the longest encoding: each engine that can occur once, and all names.
pub(crate) const PROFILE_BYTES_MAX: usize =
    FIXED_BYTES + 17 + (9 + 1 + Text::BYTES_MAX) + NAMES_BYTES_MAX + 4 + 4;

/// The part of a configuration that is the same at all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    mtu_bytes: u32,
    places: Vec<Place>,
    /// The engines, without the names of folders and files, which may differ between nodes.
    engines: EnginesConfig,
    /// Whether the engine keeps its data on disk.
    is_durable: bool,
}

/// Which profile differs from a node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// That of a node that has registered before.
    Node(NodeId),
    /// That of the membership service, from its own configuration or its state file.
    Service,
}

/// The first difference between a node's configuration and those of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Key in the configuration file.
    pub key: Text,
    /// The node's value.
    pub ours: Text,
    /// The cluster's value.
    pub theirs: Text,
    /// The node, or the service, that has the cluster's value.
    pub holder: Holder,
}

impl Profile {
    /// A profile of these nodes with these engines.
    ///
    /// # Panics
    /// If the engines are not as a parsed configuration would have them.
    pub fn of(engines: &EnginesConfig, mtu_bytes: u32, peers: &Peers) -> Self {
        let places: Vec<_> = peers.iter().map(|(_, peer)| peer.datagram_place()).collect();
        let mut engines = engines.clone();
        let is_durable = engines.data_dir.take().is_some();
        if let Some(transactions) = &mut engines.transactions {
            transactions.record = None;
        }
        assert!(is_consistent(&engines, is_durable, places.len()), "the engines of a checked configuration");
        Self { mtu_bytes, places, engines, is_durable }
    }

    /// Number of nodes of the cluster.
    pub fn nodes(&self) -> usize {
        self.places.len()
    }

    /// Number of nodes that hold the same data: see [`EnginesConfig::replicas`].
    pub fn replicas(&self) -> usize {
        self.engines.replicas(self.nodes())
    }

    /// The first difference from the profile `theirs` of `holder`; `None` if there is none.
    pub fn difference(&self, theirs: &Self, holder: Holder) -> Option<Difference> {
        // Up to the first difference, both lists have the same entries: those that determine which other entries
        // exist come first.
        let differs = |((key, ours), (_, theirs)): ((Text, Text), (Text, Text))| {
            (ours != theirs).then_some(Difference { key, ours, theirs, holder })
        };
        self.entries().into_iter().zip(theirs.entries()).find_map(differs)
    }

    /// Keys and values in the order in which differences are reported. The engines and the number of nodes come
    /// first, because the other entries depend on them.
    fn entries(&self) -> Vec<(Text, Text)> {
        let EnginesConfig { kv, transactions, objects, logs, rounds, lock, data_dir: _ } = &self.engines;
        let presence = |is_there: bool| Text::of(if is_there { "present" } else { "absent" });
        let mut entries = vec![
            (Text::of("[kv]"), presence(kv.is_some())),
            (Text::of("[transactions]"), presence(transactions.is_some())),
            (Text::of("the number of [[object]]"), Text::of(objects.len())),
            (Text::of("the number of [[log]]"), Text::of(logs.len())),
            (Text::of("[rounds]"), presence(rounds.is_some())),
            (Text::of("[lock]"), presence(lock.is_some())),
        ];
        let data_dir = if self.is_durable { "given" } else { "absent" };
        let mut add = |key: &dyn fmt::Display, value: &dyn fmt::Display| {
            entries.push((Text::of(key), Text::of(value)));
        };
        if let Some(KvConfig { key_bytes, value_bytes, capacity_keys, durable_copies, disk_lag }) = kv {
            add(&"[kv] key_bytes", key_bytes);
            add(&"[kv] value_bytes", value_bytes);
            add(&"[kv] capacity_keys", capacity_keys);
            add(&"[kv] data_dir", &data_dir);
            add(&"[kv] durable_copies", durable_copies);
            let lag_ms = disk_lag.map_or_else(|| Text::of("absent"), |lag| Text::of(lag_ms(lag)));
            add(&"[kv] lag_ms", &lag_ms);
        }
        if let Some(TransactionsConfig { procedures, size, .. }) = transactions {
            add(&"[transactions] procedures", procedures);
            add(&"[transactions] size", size);
            add(&"[transactions] data_dir", &data_dir);
        }
        for (number, ObjectConfig { name, data_type }) in objects.iter().enumerate() {
            add(&format_args!("[[object]] {number} name"), name);
            add(&format_args!("[[object]] {name} type"), data_type);
        }
        for (number, LogConfig { name }) in logs.iter().enumerate() {
            add(&format_args!("[[log]] {number} name"), name);
        }
        if let Some(rounds) = rounds {
            add(&"[rounds] period_us", &period_us(rounds));
        }
        if let Some(LockConfig { locks }) = lock {
            add(&"[lock] locks", locks);
        }
        // The number of nodes comes first, because the number of replicas may depend on it.
        add(&NODES_KEY, &self.nodes());
        if let Some(transactions) = transactions {
            add(&REPLICAS_KEY, &transactions.replicas);
        }
        add(&"[cluster] mtu_bytes", &self.mtu_bytes);
        for (number, place) in self.places.iter().enumerate() {
            add(&format_args!("[[node]] {number}"), place);
        }
        entries
    }

    /// Appends the encoded profile.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let EnginesConfig { kv, transactions, objects, logs, rounds, lock, data_dir: _ } = &self.engines;
        let lag = kv.and_then(|kv| kv.disk_lag);
        let (has_rounds, has_lock) = (rounds.is_some(), lock.is_some());
        let present =
            [kv.is_some(), transactions.is_some(), has_rounds, self.is_durable, has_lock, lag.is_some()];
        let bits = (0..).zip(present).map(|(bit, is_there)| u8::from(is_there) << bit).sum();
        out.extend([self.nodes() as u8, bits, objects.len() as u8, logs.len() as u8]);
        out.extend(self.mtu_bytes.to_be_bytes());
        self.places.iter().for_each(|place| place.encode(out));
        if let Some(kv) = kv {
            for size in [kv.key_bytes, kv.value_bytes, kv.capacity_keys] {
                out.extend(size.to_be_bytes());
            }
            if self.is_durable {
                out.push(kv.durable_copies as u8);
            }
            if let Some(lag) = lag {
                out.extend(lag_ms(lag).to_be_bytes());
            }
        }
        if let Some(transactions) = transactions {
            out.extend(transactions.size.to_be_bytes());
            out.push(transactions.replicas as u8);
            text(out, &transactions.procedures);
        }
        for object in objects {
            text(out, &object.name);
            text(out, &object.data_type);
        }
        logs.iter().for_each(|log| text(out, &log.name));
        if let Some(rounds) = rounds {
            out.extend(period_us(rounds).to_be_bytes());
        }
        if let Some(lock) = lock {
            out.extend(lock.locks.to_be_bytes());
        }
    }

    /// Decodes a profile; `None` if [`Profile::encode`] never writes such bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader { rest: bytes };
        let [nodes, present, objects, logs] = reader.take()?;
        if !(1..=NODES_MAX as u8).contains(&nodes) || present >= 1 << 6 || bytes.len() > PROFILE_BYTES_MAX {
            return None;
        }
        if usize::from(objects) + usize::from(logs) > ENGINES_MAX {
            return None;
        }
        let mtu_bytes = reader.number()?;
        let places = (0..nodes).map(|_| reader.place()).collect::<Option<Vec<_>>>()?;
        let is_there = |bit: u8| present & 1 << bit != 0;
        let is_durable = is_there(3);
        let mut engines = EnginesConfig::default();
        if is_there(0) {
            let (key_bytes, value_bytes) = (reader.number()?, reader.number()?);
            let capacity_keys = reader.number()?;
            let [durable_copies] = if is_durable { reader.take()? } else { [0] };
            if is_durable && !(1..=nodes).contains(&durable_copies) {
                return None;
            }
            let durable_copies = durable_copies.into();
            let disk_lag = if is_there(5) { Some(Duration::from_ms(reader.number()?.into())) } else { None };
            if is_there(5) && (!is_durable || disk_lag == Some(Duration::ZERO)) {
                return None;
            }
            engines.kv = Some(KvConfig { key_bytes, value_bytes, capacity_keys, durable_copies, disk_lag });
        }
        if is_there(5) && engines.kv.is_none() {
            return None;
        }
        if is_there(1) {
            let size = u64::from_be_bytes(reader.take()?);
            let [replicas] = reader.take()?;
            let (procedures, replicas) = (reader.text()?, replicas.into());
            engines.transactions = Some(TransactionsConfig { procedures, size, replicas, record: None });
        }
        for _ in 0..objects {
            engines.objects.push(ObjectConfig { name: reader.text()?, data_type: reader.text()? });
        }
        for _ in 0..logs {
            engines.logs.push(LogConfig { name: reader.text()? });
        }
        if is_there(2) {
            engines.rounds = Some(RoundsConfig { period: Duration::from_us(reader.number()?.into()) });
        }
        if is_there(4) {
            engines.lock = Some(LockConfig { locks: reader.number()? });
        }
        let is_whole = reader.rest.is_empty() && is_consistent(&engines, is_durable, places.len());
        is_whole.then_some(Self { mtu_bytes, places, engines, is_durable })
    }
}

/// Appends a text.
fn text(out: &mut Vec<u8>, text: &str) {
    out.push(text.len() as u8);
    out.extend(text.as_bytes());
}

/// Keys of a difference in the number of nodes, and in the number of replicas.
pub(crate) const NODES_KEY: &str = "the number of [[node]]";
pub(crate) const REPLICAS_KEY: &str = "[transactions] replicas";

fn lag_ms(lag: Duration) -> u32 {
    u32::try_from(lag.as_ns() / 1_000_000).expect("a lag in a configuration is at most a minute")
}

fn period_us(rounds: &RoundsConfig) -> u32 {
    u32::try_from(rounds.period.as_ns() / 1_000).expect("a period in a configuration is at most a second")
}

/// Whether a profile may have these engines: their names are printable and fit into a message, and only one that can
/// keep its data on disk does so, alone.
fn is_consistent(engines: &EnginesConfig, is_durable: bool, nodes: usize) -> bool {
    let slots = engines.slots();
    let may_be_durable = matches!(slots[..], [EngineConfig::Kv(_) | EngineConfig::Transactions(_)]);
    let has_procedures = |engine: &TransactionsConfig| {
        Text::new(&engine.procedures).is_some() && (1..=nodes).contains(&engine.replicas)
    };
    slots.len() <= ENGINES_MAX
        && (may_be_durable || !is_durable)
        && engines.kv.is_none_or(|kv| (kv.durable_copies > 0) == is_durable)
        && engines.transactions.iter().all(has_procedures)
        && engines.objects.iter().all(|object| is_name(&object.name) && is_name(&object.data_type))
        && engines.logs.iter().all(|log| is_name(&log.name))
}

/// Parses fields from the front of a profile.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }

    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let [length] = self.take()?;
        let (text, rest) = self.rest.split_at_checked(length.into())?;
        self.rest = rest;
        Some(Text::from_bytes(text)?.as_str().to_owned())
    }

    fn place(&mut self) -> Option<Place> {
        let (place, rest) = Place::decode(self.rest)?;
        self.rest = rest;
        Some(place)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node {}", node.index()),
            Self::Service => f.write_str("the membership service"),
        }
    }
}

/// The text that the node prints whose configuration differs.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, ours, theirs, holder } = self;
        write!(f, "{key} is {ours} here and {theirs} at {holder}; make the configurations agree")
    }
}

impl NodeConfig {
    /// The parameters on which the nodes of the cluster must agree.
    pub fn profile(&self) -> Profile {
        Profile::of(&self.engines, self.mtu_bytes, &self.peers)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use std::net::Ipv4Addr;

    use super::*;
    use crate::config::PeerConfig;
    use crate::place::tests::place;

    fn peers(nodes: usize) -> Peers {
        let peer = |node: usize| PeerConfig::new(Ipv4Addr::new(10, 0, 0, node as u8 + 1));
        Peers::new((0..nodes).map(peer).collect()).unwrap()
    }

    pub(crate) fn ledger(nodes: usize, size: u64) -> Profile {
        let transactions = TransactionsConfig {
            procedures: "ledger".to_owned(),
            size,
            replicas: nodes.min(3),
            record: Some("records".into()),
        };
        let engines = EnginesConfig { transactions: Some(transactions), ..EnginesConfig::default() };
        Profile::of(&engines, 1_500, &peers(nodes))
    }

    pub(crate) fn store(nodes: usize, value_bytes: u32) -> Profile {
        let kv = Some(KvConfig { value_bytes, ..KvConfig::DEFAULT });
        Profile::of(&EnginesConfig { kv, ..EnginesConfig::default() }, 1_500, &peers(nodes))
    }

    /// The same profile of a cluster whose one engine keeps its data on disk.
    fn on_disk(mut profile: Profile, disk_lag: Option<Duration>) -> Profile {
        profile.is_durable = true;
        if let Some(kv) = &mut profile.engines.kv {
            (kv.durable_copies, kv.disk_lag) = (1, disk_lag);
        }
        profile
    }

    /// The profile of a cluster with every kind of engine.
    fn whole(size: u64, names: &[String]) -> Profile {
        let transactions = ledger(3, size).engines.transactions;
        let (objects, logs) = names.split_at(names.len() / 2);
        let object =
            |name: &String| ObjectConfig { name: name.clone(), data_type: "lww-register".to_owned() };
        let engines = EnginesConfig {
            kv: Some(KvConfig::DEFAULT),
            transactions,
            objects: objects.iter().map(object).collect(),
            logs: logs.iter().map(|name| LogConfig { name: name.clone() }).collect(),
            rounds: Some(RoundsConfig::DEFAULT),
            data_dir: None,
            lock: Some(LockConfig::DEFAULT),
        };
        Profile::of(&engines, 1_500, &peers(3))
    }

    fn said(ours: &Profile, theirs: &Profile) -> Option<String> {
        ours.difference(theirs, Holder::Node(NodeId::new(2).unwrap())).map(|found| found.to_string())
    }

    const AGREE: &str = "; make the configurations agree";

    #[test]
    fn the_first_difference_is_told_with_both_values_and_the_node() {
        let tells = |ours: &Profile, theirs: &Profile, words: &str| {
            assert_eq!(said(ours, theirs), Some(format!("{words} at node 2{AGREE}")));
        };
        assert_eq!(said(&ledger(3, 10), &ledger(3, 10)), None);
        tells(&ledger(3, 10), &ledger(3, 1_000), "[transactions] size is 10 here and 1000");
        tells(&store(3, 64), &ledger(3, 1_000), "[kv] is present here and absent");
        tells(&store(2, 64), &store(3, 64), "the number of [[node]] is 2 here and 3");
        let places = vec!["10.9.9.9:4793".parse().unwrap(); 2];
        let moved = Profile { places, ..store(2, 64) };
        tells(&moved, &store(2, 64), "[[node]] 0 is 10.9.9.9:4793 here and 10.0.0.1:4793");
        let places = vec!["node0.example:4793".parse().unwrap(), "[::1]:4793".parse().unwrap()];
        let named = Profile { places, ..store(2, 64) };
        tells(&named, &store(2, 64), "[[node]] 0 is node0.example:4793 here and 10.0.0.1:4793");
        let (kept, lags) = (on_disk(store(2, 64), None), on_disk(store(2, 64), Some(KvConfig::DEFAULT_LAG)));
        tells(&kept, &store(2, 64), "[kv] data_dir is given here and absent");
        tells(&kept, &lags, "[kv] lag_ms is absent here and 100");
        let kept = on_disk(ledger(3, 10), None);
        tells(&ledger(3, 10), &kept, "[transactions] data_dir is absent here and given");
        let smaller = Profile { mtu_bytes: 576, ..store(2, 64) };
        tells(&smaller, &store(2, 64), "[cluster] mtu_bytes is 576 here and 1500");
    }

    #[test]
    fn every_engine_is_compared() {
        let names = ["cart", "stock", "events", "audit"].map(str::to_owned);
        let whole = whole(10, &names);
        let changed = |change: fn(&mut EnginesConfig)| {
            let mut other = whole.clone();
            change(&mut other.engines);
            let words = said(&other, &whole).expect("they differ");
            assert_eq!(said(&whole, &whole), None);
            words.trim_end_matches(AGREE).trim_end_matches(" at node 2").to_owned()
        };
        let kv = |engines: &mut EnginesConfig| engines.kv.as_mut().unwrap().value_bytes = 100;
        assert_eq!(changed(kv), "[kv] value_bytes is 100 here and 1024");
        let key = |engines: &mut EnginesConfig| engines.kv.as_mut().unwrap().key_bytes = 16;
        assert_eq!(changed(key), "[kv] key_bytes is 16 here and 8");
        let keys = |engines: &mut EnginesConfig| engines.kv.as_mut().unwrap().capacity_keys = 9;
        assert_eq!(changed(keys), "[kv] capacity_keys is 9 here and 65536");
        let gone = |engines: &mut EnginesConfig| engines.transactions = None;
        assert_eq!(changed(gone), "[transactions] is absent here and present");
        let other = |engines: &mut EnginesConfig| {
            engines.transactions.as_mut().unwrap().procedures = "bank".to_owned();
        };
        assert_eq!(changed(other), "[transactions] procedures is bank here and ledger");
        let fewer = |engines: &mut EnginesConfig| engines.transactions.as_mut().unwrap().replicas = 2;
        assert_eq!(changed(fewer), "[transactions] replicas is 2 here and 3");
        let object = |engines: &mut EnginesConfig| engines.objects.truncate(1);
        assert_eq!(changed(object), "the number of [[object]] is 1 here and 2");
        let order = |engines: &mut EnginesConfig| engines.objects.reverse();
        assert_eq!(changed(order), "[[object]] 0 name is stock here and cart");
        let data_type = |engines: &mut EnginesConfig| engines.objects[1].data_type = "g-set".to_owned();
        assert_eq!(changed(data_type), "[[object]] stock type is g-set here and lww-register");
        let log = |engines: &mut EnginesConfig| engines.logs[0].name = "orders".to_owned();
        assert_eq!(changed(log), "[[log]] 0 name is orders here and events");
        let more = |engines: &mut EnginesConfig| engines.logs.clear();
        assert_eq!(changed(more), "the number of [[log]] is 0 here and 2");
        let rounds = |engines: &mut EnginesConfig| engines.rounds = None;
        assert_eq!(changed(rounds), "[rounds] is absent here and present");
        let period =
            |engines: &mut EnginesConfig| engines.rounds.as_mut().unwrap().period = Duration::from_us(9);
        assert_eq!(changed(period), "[rounds] period_us is 9 here and 1000");
        let lock = |engines: &mut EnginesConfig| engines.lock = None;
        assert_eq!(changed(lock), "[lock] is absent here and present");
        let locks = |engines: &mut EnginesConfig| engines.lock.as_mut().unwrap().locks = 9;
        assert_eq!(changed(locks), "[lock] locks is 9 here and 1024");
    }

    /// No valid configuration has such engines, so no node sends such a profile.
    #[test]
    fn engines_that_no_configuration_has_are_no_profile() {
        let decoded = |change: fn(&mut Profile)| {
            let mut profile = whole(10, &["cart", "stock", "events", "orders"].map(str::to_owned));
            change(&mut profile);
            let mut bytes = Vec::new();
            profile.encode(&mut bytes);
            Profile::decode(&bytes)
        };
        assert!(decoded(|_| {}).is_some());
        for change in [
            (|profile| profile.engines.transactions.as_mut().unwrap().replicas = 4) as fn(&mut Profile),
            |profile| profile.engines.transactions.as_mut().unwrap().replicas = 0,
            |profile| profile.engines.objects[1].name = "A cart".to_owned(),
            |profile| profile.engines.objects[0].data_type = String::new(),
            |profile| profile.engines.logs[1].name = "no/name".to_owned(),
            |profile| *profile = on_disk(profile.clone(), None),
        ] {
            assert_eq!(decoded(change), None);
        }
    }

    proptest! {
        #[test]
        fn a_profile_survives_the_wire_and_nothing_else_is_one(
            nodes in 1usize..=16, size in any::<u64>(), value_bytes in any::<u32>(),
            names in prop::collection::vec("[a-z0-9_-]{1,32}", 0..=12), flip in any::<prop::sample::Index>(),
            places in prop::collection::vec(place(), 1..=8),
        ) {
            let elsewhere = Profile { places, ..store(1, value_bytes) };
            let lag = (size % 2 == 0).then_some(KvConfig::DEFAULT_LAG);
            let kept = on_disk(store(nodes, value_bytes), lag);
            let profiles = [ledger(nodes, size), store(nodes, value_bytes), whole(size, &names), elsewhere];
            for profile in profiles.into_iter().chain([kept, on_disk(ledger(nodes, size), None)]) {
                let mut bytes = Vec::new();
                profile.encode(&mut bytes);
                prop_assert!(bytes.len() <= PROFILE_BYTES_MAX);
                prop_assert_eq!(Profile::decode(&bytes), Some(profile));
                prop_assert_eq!(Profile::decode(&bytes[..bytes.len() - 1]), None);
                let bit = flip.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                if let Some(other) = Profile::decode(&bytes) {
                    let mut again = Vec::new();
                    other.encode(&mut again);
                    prop_assert_eq!(again, bytes);
                }
            }
        }
    }
}
