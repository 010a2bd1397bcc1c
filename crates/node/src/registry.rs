//! Registration of a program's own types and procedures, and construction of the engines in a configuration.

use std::sync::Arc;

use weft_cluster::{EngineConfig, NodeConfig, ObjectConfig};
use weft_rdt::{Bounds, Type, VerdictError};
use weft_wire::datagram;

use crate::engines::{EngineChoice, message_bytes_of};
use crate::processes;
use crate::rounds::RoundsPauses;
use crate::transactions::{Application, TransactionSizes};

/// Number of elements of each sort in an object's type, unless the program registers the type with other bounds.
pub const ELEMENTS: usize = 1_024;

/// What a program adds to its nodes: an application whose procedures clients call, and data types. Data types that
/// Weft ships need no registration.
#[derive(Clone, Default)]
pub struct Registry<'a> {
    application: Option<&'a dyn Application>,
    types: Vec<(String, Arc<Type>)>,
}

/// Why the engines of a configuration cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The key-value store cannot have these sizes.
    #[error("[kv]: {0}")]
    KeyValue(#[from] weft_kv::ParametersError),
    /// The program has registered no application for the transactions.
    #[error("[transactions]: this program has registered no procedures")]
    NoApplication,
    /// An object's type is neither shipped nor registered.
    #[error("[[object]] {object}: there is no data type `{data_type}`; the types are {types}")]
    NoSuchType {
        /// Name of the object in the configuration.
        object: String,
        /// The name of the type in the configuration.
        data_type: String,
        /// Names of the registered types.
        types: String,
    },
    /// The verdict shipped for a type does not match the type.
    #[error("[[object]] {0}: {1}")]
    Verdict(String, VerdictError),
    /// Rounds cannot have this length.
    #[error("[rounds]: {0}")]
    Rounds(#[from] weft_rounds::ParametersError),
    /// Logs, objects and rounds support fewer members than the cluster has nodes.
    #[error("a cluster with logs, objects or rounds has at most {max} nodes, and this one has {nodes}", max = weft_smr::NODES_MAX)]
    TooManyNodes {
        /// Nodes of the cluster.
        nodes: usize,
    },
}

impl<'a> Registry<'a> {
    /// A registry that has only the types that Weft ships.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the application whose transactions nodes run.
    #[must_use]
    pub fn with_application(self, application: &'a dyn Application) -> Self {
        Self { application: Some(application), ..self }
    }

    /// Registers a data type under a name, which a configuration's `[[object]]` gives as its `type`.
    #[must_use]
    pub fn with_type(mut self, name: &str, kind: Arc<Type>) -> Self {
        self.types.push((name.to_owned(), kind));
        self
    }

    /// The data type of an object: a registered one, or one that Weft ships.
    ///
    /// # Errors
    /// There is no type of this name.
    pub fn data_type(&self, object: &ObjectConfig) -> Result<Arc<Type>, RegistryError> {
        let ObjectConfig { name, data_type } = object;
        if let Some((_, kind)) = self.types.iter().find(|(registered, _)| registered == data_type) {
            return Ok(Arc::clone(kind));
        }
        if !weft_rdt::types::NAMES.contains(&data_type.as_str()) {
            let registered = self.types.iter().map(|(name, _)| name.as_str());
            let types: Vec<&str> = registered.chain(weft_rdt::types::NAMES).collect();
            let (object, data_type) = (name.clone(), data_type.clone());
            return Err(RegistryError::NoSuchType { object, data_type, types: types.join(", ") });
        }
        Type::shipped(data_type, &Bounds::uniform(ELEMENTS))
            .map_err(|error| RegistryError::Verdict(name.clone(), error))
    }

    /// The engines of a configuration, in slot order.
    ///
    /// # Errors
    /// Why one of them cannot be made.
    pub fn engines(&self, config: &NodeConfig) -> Result<Vec<EngineChoice<'a>>, RegistryError> {
        let nodes = config.peers.len();
        let message_bytes = message_bytes_of(datagram_bytes(config));
        let mut engines = Vec::new();
        for slot in config.engines.slots() {
            engines.push(match slot {
                EngineConfig::Kv(kv) => {
                    let mut parameters = processes::key_value(
                        kv.key_bytes as usize,
                        kv.value_bytes as usize,
                        kv.capacity_keys.into(),
                        message_bytes,
                    );
                    parameters.check()?;
                    parameters.durable_copies = kv.durable_copies as usize;
                    parameters.disk_lag = kv.disk_lag;
                    EngineChoice::KeyValue(parameters, None)
                }
                EngineConfig::Transactions(transactions) => {
                    let application = self.application.ok_or(RegistryError::NoApplication)?;
                    let (replicas, record) = (transactions.replicas, transactions.record.is_some());
                    let sizes = TransactionSizes { nodes, replicas, message_bytes, record };
                    EngineChoice::Transactions(application, sizes, None)
                }
                EngineConfig::Object(object) => {
                    EngineChoice::Object(processes::object(self.data_type(object)?, nodes))
                }
                EngineConfig::Log(_) => EngineChoice::Log(processes::log(nodes, message_bytes)),
                EngineConfig::Rounds(rounds) => {
                    let parameters = processes::rounds(rounds.period, message_bytes);
                    parameters.check()?;
                    EngineChoice::Rounds(parameters, RoundsPauses::default())
                }
                EngineConfig::Lock(lock) => EngineChoice::Lock(processes::lock(lock.locks as usize)),
            });
        }
        match engines.iter().all(|engine| nodes <= engine.nodes_max()) {
            true => Ok(engines),
            false => Err(RegistryError::TooManyNodes { nodes }),
        }
    }
}

/// The longest Weft datagram that the network and the datagram format allow, in bytes.
pub fn datagram_bytes(config: &NodeConfig) -> usize {
    config.datagram_bytes().min(datagram::BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use weft_cluster::ClusterConfig;
    use weft_waist::NodeId;

    use super::*;
    use crate::transactions::Ledger;

    /// The configuration of node 0 in a cluster of `nodes` nodes with these engines.
    fn config(nodes: u8, engines: &str) -> NodeConfig {
        let mut text = "[membership]\naddress = \"10.0.0.1:4794\"\n".to_owned();
        for node in 0..nodes {
            text += &format!("[[node]]\naddress = \"10.0.0.{}\"\n", 1 + node);
        }
        ClusterConfig::parse(&(text + engines)).unwrap().node(NodeId::new(0).unwrap()).unwrap()
    }

    fn refused(config: &NodeConfig, registry: &Registry<'_>) -> String {
        registry.engines(config).err().expect("it is refused").to_string()
    }

    #[test]
    fn engines_come_in_the_order_of_their_slots() {
        let ledger = Ledger::new(10);
        let registry = Registry::new().with_application(&ledger);
        let all = "[kv]\n[transactions]\nprocedures = \"ledger\"\nsize = 10\n\
                   [[object]]\nname = \"till\"\ntype = \"account\"\n[[log]]\nname = \"audit\"\n[rounds]\n[lock]\n";
        let engines = registry.engines(&config(3, all)).unwrap();
        assert!(matches!(
            engines[..],
            [
                EngineChoice::KeyValue(..),
                EngineChoice::Transactions(..),
                EngineChoice::Object(_),
                EngineChoice::Log(_),
                EngineChoice::Rounds(..),
                EngineChoice::Lock(_)
            ]
        ));
    }

    #[test]
    fn what_the_program_has_not_registered_is_named() {
        let nothing = Registry::new();
        let transactions = config(3, "[transactions]\nprocedures = \"ledger\"\nsize = 10\n");
        let error = "[transactions]: this program has registered no procedures";
        assert_eq!(refused(&transactions, &nothing), error);
        let object = config(3, "[[object]]\nname = \"likes\"\ntype = \"hearts\"\n");
        let error = refused(&object, &nothing);
        assert!(
            error.starts_with("[[object]] likes: there is no data type `hearts`; the types are g-counter, ")
        );
        let kind = Type::shipped("g-counter", &Bounds::uniform(4)).unwrap();
        assert_eq!(nothing.with_type("hearts", kind).engines(&object).unwrap().len(), 1);
    }

    #[test]
    fn a_cluster_that_an_engine_is_too_small_for_is_refused() {
        for engine in ["[[log]]\nname = \"audit\"\n", "[[object]]\nname = \"till\"\ntype = \"account\"\n"] {
            assert!(Registry::new().engines(&config(8, engine)).is_ok());
            let error = "a cluster with logs, objects or rounds has at most 8 nodes, and this one has 9";
            assert_eq!(refused(&config(9, engine), &Registry::new()), error);
        }
        assert!(Registry::new().engines(&config(9, "[kv]\n")).is_ok());
    }
}
