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
//! // Requests leave at once. Wait for the answers one by one, and they have been under way together.
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
//! Every call returns a [`Pending`], which is a future of no particular runtime, and blocks a thread with
//! [`Pending::wait`]:
//!
//! ```no_run
//! # async fn example(client: weft_client::Client) -> Result<(), weft_client::Error> {
//! let till = client.object("till")?;
//! till.update("deposit", &[5]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! **What is promised.** An update takes effect at most once, however often its datagrams are lost or repeated. If it
//! has an answer it has ended as that says. An [`Error`] says whether it may have happened all the same
//! ([`Error::may_have_happened`]). A call is given up [`Cluster::give_up`] after it was begun; one that has to wait
//! in the client, because too many are under way, waits as long at most.
//!
//! **How it runs.** A client has one UDP port and one thread, which drives the pure client halves of the engines.
//! Threads and tasks leave requests in the engines' inboxes and wake it. A runtime of futures is not needed, so none
//! is chosen.

mod client;
mod cluster;
mod core;
mod driver;
mod engines;
mod error;
mod identity;
mod pending;
mod requests;
mod status;

pub use client::Client;
pub use cluster::{Cluster, EngineDescription};
pub use engines::{
    Acquired, CompareAndSet, Decision, DecisionList, Ended, Entry, Holder, KeyValue, Lease, Locks, Log,
    Object, Proposal, Read, Rounds, Tail, Transactions, Update, Versioned,
};
pub use error::{Error, OpenError};
pub use pending::Pending;
pub use status::{ClusterStatus, NodeOverview, state_name, status};
