//! The client of a Weft cluster.
//!
//! ```no_run
//! use weft_client::{Client, Cluster, EngineDescription};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes = vec!["10.0.0.1:4793".parse()?, "10.0.0.2:4793".parse()?, "10.0.0.3:4793".parse()?];
//! let cluster = Cluster::new(nodes)
//!     .with(EngineDescription::KeyValue { key_bytes: 8 })
//!     .with(EngineDescription::Log { name: "events".into() })
//!     .with(EngineDescription::Object { name: "till".into(), kind: "account".into() });
//! let client = Client::open(&cluster)?;
//!
//! // A call sends its request at once. Waiting for the answers afterwards lets all requests run at the same time.
//! let kv = client.kv()?;
//! let writes: Vec<_> = (0..10u64).map(|key| kv.put(&key.to_be_bytes(), b"value")).collect();
//! for write in writes {
//!     println!("version {}", write.wait()?);
//! }
//!
//! let index = client.log("events")?.append(b"started").wait()?;
//! let balance = client.object("till")?.query("balance", &[]).wait()?;
//! println!("entry {index}, balance {balance}");
//! # Ok(())
//! # }
//! ```
//!
//! Every call returns a [`Pending`]. It is a future that works with any runtime, and [`Pending::wait`] blocks a
//! thread until the answer is there:
//!
//! ```no_run
//! # async fn example(client: weft_client::Client) -> Result<(), weft_client::Error> {
//! let till = client.object("till")?;
//! till.update("deposit", &[5]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! **Guarantees.** An update takes effect at most once, however often its datagrams are lost or repeated. If there
//! is an answer, it is the outcome. An [`Error`] tells whether the update may have taken effect all the same
//! ([`Error::may_have_happened`]). A call ends with an error at the latest [`Cluster::give_up`] after it was made,
//! including the time that it was queued because too many calls were outstanding.
//!
//! **Implementation.** A client has one UDP port and one thread, which drives the pure client halves of the
//! engines. Threads and tasks enqueue requests in the engines' inboxes and wake that thread. The client needs no
//! runtime of futures.

mod client;
mod cluster;
mod core;
mod driver;
mod engines;
mod error;
mod identity;
mod key_mismatch;
mod pending;
mod requests;
mod status;

pub use client::Client;
pub use cluster::{Cluster, EngineDescription};
pub use engines::{
    Acquired, Backup, BackupPart, CompareAndSet, Decision, DecisionList, Ended, Entry, Holder, KeyValue,
    Lease, Locks, Log, Object, Proposal, Read, Rounds, Tail, Transactions, Update, Versioned,
};
pub use error::{Error, OpenError};
pub use pending::Pending;
pub use status::{ClusterStatus, NodeOverview, state_name, status};
