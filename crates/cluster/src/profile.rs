//! What the configurations of a cluster's nodes must agree on.
//!
//! A node that starts sends its profile with its heartbeats, and the membership service holds it against those of the others before
//! it counts the node: nodes that disagree about the sizes of a table or the places of data would answer wrong, or not at all.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 1 | application | 1 key-value engine, 2 transactions |
//! | 1 | nodes | *n*, 1 to 16 |
//! | 1 | replicas | of the same data, 1 to *n* |
//! | 1 | name's length | *m*, 0 to 64; 0 for the key-value engine |
//! | 4 | MTU | bytes of an IP packet |
//! | 8 | size | objects of a shard, or keys |
//! | 4, 4 | key, value | bytes; 0 for transactions |
//! | 6 *n* | peers | IPv4 address and port of each node |
//! | *m* | name | of the procedures |

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use weft_waist::{NODES_MAX, NodeId};

use crate::text::Text;

/// The bytes before the peers.
const FIXED_BYTES: usize = 24;
const PEER_BYTES: usize = 6;
/// The longest encoding.
pub(crate) const PROFILE_BYTES_MAX: usize = FIXED_BYTES + NODES_MAX * PEER_BYTES + Text::BYTES_MAX;

/// What a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// The key-value engine.
    KeyValue {
        /// Bytes of every key.
        key_bytes: u32,
        /// Bytes of the longest value.
        value_bytes: u32,
        /// For how many keys the table is built.
        capacity_keys: u64,
    },
    /// Transactions.
    Transactions {
        /// The name of the registered procedures.
        procedures: Text,
        /// How many objects there are on each shard.
        size: u64,
    },
}

/// The part of a node's configuration that is the same at all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    application: Application,
    replicas: u8,
    mtu_bytes: u32,
    nodes: u8,
    peers: [SocketAddrV4; NODES_MAX],
}

/// Who has the value that another one contradicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A node that has registered before.
    Node(NodeId),
    /// The membership service, by its own configuration or its state file.
    Service,
}

/// The first thing in which a node's configuration differs from those of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where it stands in the configuration file.
    pub key: Text,
    /// What the node has there.
    pub ours: Text,
    /// What the cluster has there.
    pub theirs: Text,
    /// Who of the cluster.
    pub holder: Holder,
}

impl Profile {
    /// A profile of nodes at these places, node 0 first.
    ///
    /// # Panics
    /// If there are no nodes or more than 16, or the replicas are none or more than the nodes.
    pub fn new(application: Application, replicas: usize, mtu_bytes: u32, places: &[SocketAddrV4]) -> Self {
        assert!((1..=NODES_MAX).contains(&places.len()), "a cluster has 1 to 16 nodes");
        assert!((1..=places.len()).contains(&replicas), "data is at 1 to all nodes");
        let mut peers = [SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0); NODES_MAX];
        peers[..places.len()].copy_from_slice(places);
        Self { application, replicas: replicas as u8, mtu_bytes, nodes: places.len() as u8, peers }
    }

    /// How many nodes the cluster has.
    pub fn nodes(&self) -> usize {
        usize::from(self.nodes)
    }

    /// How many nodes hold the same data.
    pub fn replicas(&self) -> usize {
        usize::from(self.replicas)
    }

    /// Where `node` takes datagrams; `None` if there is no such node.
    pub fn place(&self, node: NodeId) -> Option<SocketAddrV4> {
        self.peers[..self.nodes()].get(node.index()).copied()
    }

    /// The first thing in which this profile differs from `theirs`, which `holder` has; `None` if there is none.
    pub fn difference(&self, theirs: &Self, holder: Holder) -> Option<Difference> {
        let entries = self.entries();
        let other = theirs.entries();
        let longest = entries.len().max(other.len());
        let absent = ("", Text::of("nothing"));
        (0..longest).find_map(|place| {
            let (key, ours) = entries.get(place).copied().unwrap_or(absent);
            let (other_key, theirs) = other.get(place).copied().unwrap_or(absent);
            let key = if key.is_empty() { other_key } else { key };
            (ours != theirs).then(|| Difference { key: Text::of(key), ours, theirs, holder })
        })
    }

    /// What a configuration file has, in the order in which differences are told: what kind of node it is comes before its sizes.
    fn entries(&self) -> Vec<(&'static str, Text)> {
        let mut entries = Vec::with_capacity(8 + NODES_MAX);
        match self.application {
            Application::KeyValue { key_bytes, value_bytes, capacity_keys } => {
                entries.push(("[kv] or [transactions]", Text::of("the key-value engine")));
                entries.push(("[kv] key_bytes", Text::of(key_bytes)));
                entries.push(("[kv] value_bytes", Text::of(value_bytes)));
                entries.push(("[kv] capacity_keys", Text::of(capacity_keys)));
            }
            Application::Transactions { procedures, size } => {
                entries.push(("[kv] or [transactions]", Text::of("transactions")));
                entries.push(("[transactions] procedures", procedures));
                entries.push(("[transactions] size", Text::of(size)));
            }
        }
        // With other nodes, whoever has all data has other replicas.
        entries.push(("the number of [[peers]]", Text::of(self.nodes)));
        entries.push(("replicas", Text::of(self.replicas)));
        entries.push(("mtu_bytes", Text::of(self.mtu_bytes)));
        entries.extend(
            PEER_KEYS.into_iter().zip(&self.peers[..self.nodes()]).map(|(key, peer)| (key, Text::of(peer))),
        );
        entries
    }

    /// Appends its encoding.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, name, size, key_bytes, value_bytes) = match &self.application {
            Application::KeyValue { key_bytes, value_bytes, capacity_keys } => {
                (1, &[][..], *capacity_keys, *key_bytes, *value_bytes)
            }
            Application::Transactions { procedures, size } => (2, procedures.as_bytes(), *size, 0, 0),
        };
        out.extend([kind, self.nodes, self.replicas, name.len() as u8]);
        out.extend(self.mtu_bytes.to_be_bytes());
        out.extend(size.to_be_bytes());
        out.extend(key_bytes.to_be_bytes());
        out.extend(value_bytes.to_be_bytes());
        for peer in &self.peers[..self.nodes()] {
            out.extend(peer.ip().octets());
            out.extend(peer.port().to_be_bytes());
        }
        out.extend(name);
    }

    /// Reads what [`Profile::encode`] wrote; `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk::<FIXED_BYTES>()?;
        let [kind, nodes, replicas, name_length, sizes @ ..] = *fixed;
        let number = |from: usize| u32::from_be_bytes(sizes[from..from + 4].try_into().expect("four bytes"));
        let size = u64::from_be_bytes(sizes[4..12].try_into().expect("eight bytes"));
        let (key_bytes, value_bytes) = (number(12), number(16));
        if !(1..=NODES_MAX).contains(&nodes.into()) || !(1..=nodes).contains(&replicas) {
            return None;
        }
        let (places, name) = rest.split_at_checked(usize::from(nodes) * PEER_BYTES)?;
        let name = Text::from_bytes(name).filter(|name| name.as_bytes().len() == usize::from(name_length))?;
        let application = match kind {
            1 if name_length == 0 => Application::KeyValue { key_bytes, value_bytes, capacity_keys: size },
            2 if key_bytes == 0 && value_bytes == 0 => Application::Transactions { procedures: name, size },
            _ => return None,
        };
        let place = |bytes: &[u8]| {
            let address = <[u8; 4]>::try_from(&bytes[..4]).expect("four bytes");
            SocketAddrV4::new(Ipv4Addr::from(address), u16::from_be_bytes([bytes[4], bytes[5]]))
        };
        let places: Vec<_> = places.chunks_exact(PEER_BYTES).map(place).collect();
        Some(Self::new(application, replicas.into(), number(0), &places))
    }
}

const PEER_KEYS: [&str; NODES_MAX] = [
    "[[peers]] node 0",
    "[[peers]] node 1",
    "[[peers]] node 2",
    "[[peers]] node 3",
    "[[peers]] node 4",
    "[[peers]] node 5",
    "[[peers]] node 6",
    "[[peers]] node 7",
    "[[peers]] node 8",
    "[[peers]] node 9",
    "[[peers]] node 10",
    "[[peers]] node 11",
    "[[peers]] node 12",
    "[[peers]] node 13",
    "[[peers]] node 14",
    "[[peers]] node 15",
];

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node {}", node.index()),
            Self::Service => f.write_str("the membership service"),
        }
    }
}

/// As the node tells it whose configuration it is.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, ours, theirs, holder } = self;
        write!(f, "{key} is {ours} here and {theirs} at {holder}; make the configurations agree")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places(nodes: usize) -> Vec<SocketAddrV4> {
        (0..nodes).map(|node| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, node as u8 + 1), 4793)).collect()
    }

    pub(crate) fn ledger(nodes: usize, size: u64) -> Profile {
        let procedures = Text::new("ledger").unwrap();
        Profile::new(Application::Transactions { procedures, size }, nodes.min(3), 1_500, &places(nodes))
    }

    pub(crate) fn store(nodes: usize, value_bytes: u32) -> Profile {
        let application = Application::KeyValue { key_bytes: 8, value_bytes, capacity_keys: 65_536 };
        Profile::new(application, nodes, 1_500, &places(nodes))
    }

    fn said(ours: Profile, theirs: Profile) -> Option<String> {
        ours.difference(&theirs, Holder::Node(NodeId::new(2).unwrap())).map(|found| found.to_string())
    }

    #[test]
    fn the_first_difference_is_told_with_both_values_and_the_node() {
        let agree = "; make the configurations agree";
        assert_eq!(said(ledger(3, 10), ledger(3, 10)), None);
        assert_eq!(
            said(ledger(3, 10), ledger(3, 1_000)),
            Some(format!("[transactions] size is 10 here and 1000 at node 2{agree}"))
        );
        assert_eq!(
            said(store(3, 64), ledger(3, 1_000)),
            Some(format!(
                "[kv] or [transactions] is the key-value engine here and transactions at node 2{agree}"
            ))
        );
        assert_eq!(
            said(store(2, 64), store(3, 64)),
            Some(format!("the number of [[peers]] is 2 here and 3 at node 2{agree}"))
        );
        let moved =
            Profile { peers: std::array::from_fn(|_| "10.9.9.9:4793".parse().unwrap()), ..store(2, 64) };
        assert_eq!(
            said(moved, store(2, 64)),
            Some(format!("[[peers]] node 0 is 10.9.9.9:4793 here and 10.0.0.1:4793 at node 2{agree}"))
        );
        let smaller = Profile { mtu_bytes: 576, ..store(2, 64) };
        assert!(said(smaller, store(2, 64)).unwrap().starts_with("mtu_bytes is 576 here and 1500 at"));
    }

    proptest! {
        #[test]
        fn a_profile_survives_the_wire_and_nothing_else_is_one(
            nodes in 1usize..=16, size in any::<u64>(), value_bytes in any::<u32>(), flip in any::<prop::sample::Index>(),
        ) {
            for profile in [ledger(nodes, size), store(nodes, value_bytes)] {
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
