//! Description of the cluster for its clients.

use std::sync::Arc;

use weft_cluster::{
    ClusterConfig, ClusterName, EngineConfig, EnginesConfig, NodeConfig, Peers, Place, SecurityConfig,
};
use weft_rdt::{Definition, types};
use weft_time::Duration;
use weft_wire::datagram::BYTES_MAX;

/// The properties of an engine that its clients need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineDescription {
    /// The key-value store.
    KeyValue {
        /// Bytes of a key; all keys have this length.
        key_bytes: usize,
    },
    /// Transactions, whose procedures the nodes' programs define.
    Transactions,
    /// A replicated object.
    Object {
        /// Name in the cluster.
        name: String,
        /// The name of its type: one of [`Cluster::types`] or of [`weft_rdt::types::NAMES`].
        kind: String,
    },
    /// A replicated log.
    Log {
        /// Name in the cluster.
        name: String,
    },
    /// Consensus in rounds.
    Rounds,
    /// Locks with fencing tokens.
    Lock,
}

/// A cluster's addresses and engines, and the behaviour of its client.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Hosts and ports at which the nodes receive datagrams, node 0 first; 1 to 16 of them.
    pub nodes: Vec<Place>,
    /// The longest datagram, in bytes, including its own header and trailer.
    pub datagram_bytes: usize,
    /// The engines of a node, indexed by slot.
    pub engines: Vec<EngineDescription>,
    /// Data types that Weft does not ship, with the names under which the nodes' program registers them.
    pub types: Vec<(String, Arc<Definition>)>,
    /// The node to call first if any node will do.
    pub first: usize,
    /// Time after which an unanswered call ends: more than 0, at most 20 s.
    pub give_up: Duration,
    /// The name of the cluster, and the file with its key, if datagrams are sealed.
    pub security: Option<(ClusterName, SecurityConfig)>,
}

impl Cluster {
    /// A cluster of these nodes without engines, with datagrams of 1,408 bytes and a time-out of calls of 5 s.
    pub fn new(nodes: Vec<Place>) -> Self {
        Self {
            nodes,
            datagram_bytes: 1_408,
            engines: Vec::new(),
            types: Vec::new(),
            first: 0,
            give_up: Duration::from_secs(5),
            security: None,
        }
    }

    /// Adds a data type that Weft does not ship, under the name that the configuration's `[[object]]` gives as its
    /// `type`. The nodes' program must register it under the same name.
    #[must_use]
    pub fn with_type(mut self, name: &str, definition: Definition) -> Self {
        self.types.push((name.to_owned(), Arc::new(definition)));
        self
    }

    /// The data type with this name: one of [`Cluster::types`], or a shipped one.
    pub(crate) fn data_type(&self, name: &str) -> Result<Arc<Definition>, String> {
        if let Some((_, definition)) = self.types.iter().find(|(known, _)| known == name) {
            return Ok(Arc::clone(definition));
        }
        types::by_name(name).map(Arc::new).ok_or_else(|| {
            let own = self.types.iter().map(|(name, _)| name.as_str());
            let known: Vec<_> = own.chain(types::NAMES).collect();
            format!("the type `{name}`; the types are {}", known.join(", "))
        })
    }

    /// Adds an engine in the next slot.
    #[must_use]
    pub fn with(mut self, engine: EngineDescription) -> Self {
        self.engines.push(engine);
        self
    }

    /// Checks that the description is valid.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let require = |holds, what| if holds { Ok(()) } else { Err(what) };
        require((1..=weft_waist::NODES_MAX).contains(&self.nodes.len()), "a cluster has 1 to 16 nodes")?;
        require(self.first < self.nodes.len(), "the node that is asked first is none of the cluster's")?;
        require((256..=BYTES_MAX).contains(&self.datagram_bytes), "datagrams have 256 to 65504 bytes")?;
        let give_up = self.give_up;
        require(
            give_up > Duration::ZERO && give_up <= weft_session::GIVE_UP_MAX,
            "calls are given up after more than 0 and at most 20 s",
        )
    }
}

impl From<&EngineConfig<'_>> for EngineDescription {
    fn from(engine: &EngineConfig<'_>) -> Self {
        match engine {
            EngineConfig::Kv(kv) => Self::KeyValue { key_bytes: kv.key_bytes as usize },
            EngineConfig::Transactions(_) => Self::Transactions,
            EngineConfig::Object(object) => {
                Self::Object { name: object.name.clone(), kind: object.data_type.clone() }
            }
            EngineConfig::Log(log) => Self::Log { name: log.name.clone() },
            EngineConfig::Rounds(_) => Self::Rounds,
            EngineConfig::Lock(_) => Self::Lock,
        }
    }
}

/// The cluster of the configuration, with the default time-outs of [`Cluster::new`].
fn configured(
    peers: &Peers,
    engines: &EnginesConfig,
    datagram_bytes: usize,
    security: Option<(ClusterName, SecurityConfig)>,
) -> Cluster {
    let nodes = peers.iter().map(|(_, peer)| peer.datagram_place()).collect();
    let engines = engines.slots().iter().map(EngineDescription::from).collect();
    Cluster { datagram_bytes: datagram_bytes.min(BYTES_MAX), engines, security, ..Cluster::new(nodes) }
}

impl From<&ClusterConfig> for Cluster {
    /// The cluster that a `weft.toml` describes, with all of its engines.
    fn from(config: &ClusterConfig) -> Self {
        let security = config.security.clone().map(|security| (config.name, security));
        configured(&config.peers, &config.engines, config.datagram_bytes(), security)
    }
}

impl From<&NodeConfig> for Cluster {
    /// The cluster to which a node belongs.
    fn from(config: &NodeConfig) -> Self {
        let security = config.security.clone().map(|security| (config.cluster, security));
        configured(&config.peers, &config.engines, config.datagram_bytes(), security)
    }
}
