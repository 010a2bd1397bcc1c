//! Real sockets and real clocks, on Linux and without root.
//!
//! This room holds what a real node needs below its NIC, and a real client below its library:
//!
//! - [`UdpPort`]: a UDP socket with batched system calls and segmentation offload both ways;
//! - [`Clock`]: the machine's monotonic clock as [`weft_time::Instant`];
//! - [`Poller`] and [`IdlePolicy`]: one thread waits for all of its ports, by polling, by sleeping or by one
//!   after the other;
//! - [`Endpoint`] and [`run`]: the loop that drives one node or client over its ports until a [`Stop`];
//! - [`CardPorts`]: a card of [`weft_nic`] between its two ports;
//! - [`Node`] and [`run_node`]: a node of a key-value cluster; [`run_membership`]: its membership service;
//! - [`transactions`]: a node that runs transactions, and who calls them;
//! - [`plain`]: what the same system calls reach with no protocol above them, the limit that a transport is
//!   measured against;
//! - [`process`]: child processes that never outlive their parent.
//!
//! The example `echo` shows a whole server and a whole client in a few lines; `plain_limit` measures this machine.
//!
//! Nothing here knows how a protocol works. Bytes that arrive are handed on as they are; what does not arrive as a whole
//! datagram is dropped and counted.
//!
//! # IP identification
//!
//! RoCE v2's invariant CRC covers the IP identification, which an ordinary socket neither sets nor sees. It can
//! be known all the same. A socket that is not connected and forbids fragmentation sends identification 0
//! (RFC 6864 leaves it free for a datagram that is never fragmented), and segment *i* of a segmented send carries
//! *i*. [`UdpPort`] keeps to such sockets and tells the writer of each datagram, and its reader, the
//! identification.
//!
//! The reader's is inferred from the segment's place. That is exact if every coalesced buffer is one that was
//! segmented at the sender: over loopback and veth, where the buffer crosses whole. A real link's receive
//! offload may join datagrams that were sent one by one, so there [`PortOptions::segmentation`] must be off at both ends;
//! every identification is then 0.

#![deny(unsafe_code)]

mod announcement;
mod ask;
mod card_ports;
mod clock;
mod cores;
mod drive;
mod membership;
mod node;
pub mod plain;
mod poll;
mod port;
pub mod process;
mod program;
mod stop;
mod system;
pub mod transactions;

pub use announcement::{Announcement, Announcer, NoAnnouncement};
pub use ask::{Answer, AskError, Cluster, ask};
pub use card_ports::CardPorts;
pub use clock::Clock;
pub use cores::{NoSuchCore, cores, keep_to_core};
pub use drive::{Endpoint, run};
pub use membership::{MembershipError, run_membership};
pub use node::{KV_SLOT, Node, NodeError, run_node};
pub use poll::{IdlePolicy, Poller, Ready};
pub use port::{
    BindError, Composed, Counters, Datagram, LONGEST_DATAGRAM, OversizedDatagram, PortOptions, UdpPort,
};
pub use program::{KeyValue, Program};
pub use stop::Stop;
