//! The client of a cluster.

use std::sync::Arc;

use weft_kv::ReadPolicy;
use weft_net::{Directory, Seal};
use weft_rdt::Definition;
use weft_session::ClientParameters;
use weft_time::Duration;
use weft_txn::client::Pool;
use weft_waist::NodeSet;
use weft_wire::datagram::{HEADER_BYTES, MESSAGE_HEADER_BYTES, TRAILER_BYTES};

use crate::core::Core;
use crate::driver::Driver;
use crate::engines::{
    Handle, KeyValue, KvRequests, LockRequests, Locks, Log, LogRequests, Object, ObjectRequests, Rounds,
    RoundsRequests, TransactionRequests, Transactions,
};
use crate::identity::new_identity;
use crate::requests::{AnyQueue, Inbox, RequestQueue};
use crate::{Cluster, EngineDescription, Error, OpenError};

/// Time after which an unanswered request is sent again.
const REPEAT: Duration = Duration::from_ms(50);

/// The request queues of the engines, by slot.
enum EngineQueue {
    KeyValue(usize, Arc<Inbox<KvRequests>>),
    Transactions(Arc<Inbox<TransactionRequests>>),
    Object(String, Arc<Definition>, Arc<Inbox<ObjectRequests>>),
    Log(String, Arc<Inbox<LogRequests>>),
    Rounds(Arc<Inbox<RoundsRequests>>),
    Lock(Arc<Inbox<LockRequests>>),
}

/// The shared state of a client. The thread ends when the last client or handle is dropped.
struct Inner {
    queues: Vec<EngineQueue>,
    nodes: usize,
    driver: Arc<Driver>,
}

/// A client of a cluster: one port and one thread, for any number of engines, handles, threads and tasks. Cloning
/// it is cheap. It closes when the last clone or handle is dropped.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("engines", &self.0.queues.len()).finish_non_exhaustive()
    }
}

impl Client {
    /// Opens a port and starts a thread. Nothing is sent to a node yet. Names of hosts are looked up, which may block
    /// for seconds; later that does not.
    ///
    /// # Errors
    /// The description of the cluster is invalid, or the system refuses a resource.
    pub fn open(cluster: &Cluster) -> Result<Self, OpenError> {
        cluster.check().map_err(|error| OpenError::Cluster(error.into()))?;
        let mut queues: Vec<Box<dyn AnyQueue>> = Vec::new();
        let mut engine_queues = Vec::new();
        for engine in &cluster.engines {
            let (queue, engine_queue) = queue(cluster, engine)?;
            queues.push(queue);
            engine_queues.push(engine_queue);
        }
        let core = Core::new(cluster.datagram_bytes, queues);
        let seal = match &cluster.security {
            Some((name, security)) => Seal::load(Some(security), *name)?,
            None => None,
        };
        let directory = Directory::open(cluster.nodes.clone())?;
        Ok(Self(Arc::new(Inner {
            queues: engine_queues,
            nodes: cluster.nodes.len(),
            driver: Arc::new(Driver::start(core, directory, seal.as_ref())?),
        })))
    }

    fn find<T>(&self, what: &str, find: impl Fn(&EngineQueue) -> Option<T>) -> Result<T, Error> {
        self.0.queues.iter().find_map(find).ok_or_else(|| {
            let names: Vec<_> = self.0.queues.iter().map(EngineQueue::name).collect();
            let has = if names.is_empty() { "no engines".into() } else { names.join(", ") };
            Error::Invalid(format!("the cluster has no {what}; it has {has}"))
        })
    }

    /// A handle of the key-value store.
    ///
    /// # Errors
    /// The cluster has no key-value store.
    pub fn kv(&self) -> Result<KeyValue, Error> {
        self.find("key-value store", |engine_queue| match engine_queue {
            EngineQueue::KeyValue(key_bytes, inbox) => {
                Some(KeyValue { handle: Handle::new(inbox, &self.0.driver), key_bytes: *key_bytes })
            }
            _ => None,
        })
    }

    /// A handle for transactions.
    ///
    /// # Errors
    /// The cluster runs no transactions.
    pub fn transactions(&self) -> Result<Transactions, Error> {
        self.find("transactions", |engine_queue| match engine_queue {
            EngineQueue::Transactions(inbox) => {
                Some(Transactions { handle: Handle::new(inbox, &self.0.driver) })
            }
            _ => None,
        })
    }

    /// A handle of the object of this name.
    ///
    /// # Errors
    /// The cluster has no such object.
    pub fn object(&self, name: &str) -> Result<Object, Error> {
        self.find(&format!("object `{name}`"), |engine_queue| match engine_queue {
            EngineQueue::Object(known, definition, inbox) if known == name => Some(Object {
                handle: Handle::new(inbox, &self.0.driver),
                definition: Arc::clone(definition),
                replica: None,
                replicas: self.0.nodes,
            }),
            _ => None,
        })
    }

    /// A handle of the log of this name.
    ///
    /// # Errors
    /// The cluster has no such log.
    pub fn log(&self, name: &str) -> Result<Log, Error> {
        self.find(&format!("log `{name}`"), |engine_queue| match engine_queue {
            EngineQueue::Log(known, inbox) if known == name => {
                Some(Log { handle: Handle::new(inbox, &self.0.driver) })
            }
            _ => None,
        })
    }

    /// A handle of the rounds.
    ///
    /// # Errors
    /// The cluster has no rounds.
    pub fn rounds(&self) -> Result<Rounds, Error> {
        self.find("rounds", |engine_queue| match engine_queue {
            EngineQueue::Rounds(inbox) => Some(Rounds { handle: Handle::new(inbox, &self.0.driver) }),
            _ => None,
        })
    }

    /// A handle of the locks.
    ///
    /// # Errors
    /// The cluster has no locks.
    pub fn lock(&self) -> Result<Locks, Error> {
        self.find("locks", |engine_queue| match engine_queue {
            EngineQueue::Lock(inbox) => Some(Locks { handle: Handle::new(inbox, &self.0.driver) }),
            _ => None,
        })
    }
}

impl EngineQueue {
    fn name(&self) -> String {
        match self {
            Self::KeyValue(..) => "a key-value store".into(),
            Self::Transactions(_) => "transactions".into(),
            Self::Object(name, definition, _) => format!("the object `{name}` ({})", definition.name),
            Self::Log(name, _) => format!("the log `{name}`"),
            Self::Rounds(_) => "rounds".into(),
            Self::Lock(_) => "locks".into(),
        }
    }
}

/// Makes the client half of an engine with its request queue, and the inbox of that queue.
fn queue(
    cluster: &Cluster,
    engine: &EngineDescription,
) -> Result<(Box<dyn AnyQueue>, EngineQueue), OpenError> {
    let (nodes, first, give_up) = (cluster.nodes.len(), cluster.first, cluster.give_up);
    let room = cluster.datagram_bytes - HEADER_BYTES - TRAILER_BYTES - MESSAGE_HEADER_BYTES;
    let session = || ClientParameters {
        first,
        repeat: REPEAT,
        give_up,
        ..ClientParameters::new(new_identity(), nodes)
    };
    Ok(match engine {
        EngineDescription::KeyValue { key_bytes } => {
            let client = weft_kv::Client::new(weft_kv::ClientParameters {
                key_bytes: *key_bytes,
                reads: ReadPolicy::Leader,
                timeout: REPEAT,
                give_up,
                ..weft_kv::ClientParameters::new(new_identity(), NodeSet::first(nodes))
            });
            let queue = RequestQueue::new(client, give_up, room);
            let engine_queue = EngineQueue::KeyValue(*key_bytes, queue.inbox());
            (Box::new(queue), engine_queue)
        }
        EngineDescription::Transactions => {
            let client = |_| weft_txn::client::ClientParameters {
                first,
                give_up,
                ..weft_txn::client::ClientParameters::new(new_identity(), nodes)
            };
            let clients = Pool::new((0..TransactionRequests::CALLERS).map(client));
            let queue = RequestQueue::new(clients, give_up, room);
            let engine_queue = EngineQueue::Transactions(queue.inbox());
            (Box::new(queue), engine_queue)
        }
        EngineDescription::Object { name, kind } => {
            let definition = cluster
                .data_type(kind)
                .map_err(|error| OpenError::Cluster(format!("the object `{name}` has {error}")))?;
            let queue = RequestQueue::new(weft_rdt::client::Client::new(session()), give_up, room);
            let engine_queue = EngineQueue::Object(name.clone(), definition, queue.inbox());
            (Box::new(queue), engine_queue)
        }
        EngineDescription::Log { name } => {
            let client = weft_smr::client::Client::new(weft_smr::client::ClientParameters {
                first,
                timeout: REPEAT,
                give_up,
                ..weft_smr::client::ClientParameters::new(new_identity(), nodes)
            });
            let queue = RequestQueue::new(client, give_up, room);
            let engine_queue = EngineQueue::Log(name.clone(), queue.inbox());
            (Box::new(queue), engine_queue)
        }
        EngineDescription::Rounds => {
            let queue = RequestQueue::new(weft_rounds::client::Client::new(session()), give_up, room);
            let engine_queue = EngineQueue::Rounds(queue.inbox());
            (Box::new(queue), engine_queue)
        }
        EngineDescription::Lock => {
            let queue = RequestQueue::new(weft_lock::Client::new(session()), give_up, room);
            let engine_queue = EngineQueue::Lock(queue.inbox());
            (Box::new(queue), engine_queue)
        }
    })
}
