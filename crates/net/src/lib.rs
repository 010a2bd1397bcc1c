//! Real sockets and real clocks, on Linux and without root.
//!
//! This crate holds what a real node needs below its NIC, and a real client below its library:
//!
//! - [`UdpPort`]: a UDP socket with batched system calls and segmentation offload both ways; [`Seal`]: what its
//!   datagrams are sealed with;
//! - [`FramePort`]: Ethernet frames, of a TAP device ([`TapPort`]), a packet socket ([`PacketPort`]) or an AF_XDP
//!   socket ([`XdpPort`]);
//! - [`Clock`]: the machine's monotonic clock as [`weft_time::Instant`];
//! - [`Poller`] and [`IdlePolicy`]: one thread waits for all of its ports, by polling, by sleeping or by one
//!   after the other;
//! - [`Endpoint`] and [`run`]: the loop that drives one node or client over its ports until a [`Stop`];
//! - [`CardPorts`]: a card of [`weft_nic`] behind its port; [`RocePath`]: any [`RoceEnd`] behind a UDP socket;
//! - [`Context`]: the verbs of a program on a [`Device`], which is a card over a UDP socket ([`SocketDevice`]) or any
//!   NIC on a port for frames ([`FrameDevice`]); [`Introduction`] and [`connect`]: how two programs' queue pairs meet;
//! - [`RegionEnd`]: one end of two programs that write into each other's memory;
//! - [`Directory`]: where the machines of a cluster are now, by address or by name;
//! - [`Node`] and [`run_node`]: a node of a cluster; [`run_membership`]: its membership service, if that is a process
//!   of its own;
//! - a server for clients of Redis at a node, if it is configured;
//! - [`FileDisk`]: a file as the disk of a store;
//! - [`transactions`]: a node that runs transactions;
//! - [`plain`]: the rate of the same system calls without a protocol above them, the limit for any transport;
//! - [`log`]: the events that nodes log, and the format of the lines;
//! - [`process`]: child processes that never outlive their parent.
//!
//! The example `echo` has a whole server and a whole client in a few lines, `remote_write` a program of verbs;
//! `plain_limit` measures this machine.
//!
//! Nothing here depends on a protocol. Received bytes are passed on unchanged; incomplete datagrams are dropped
//! and counted.
//!
//! # IP identification
//!
//! RoCE v2's invariant CRC covers the IP identification, which an ordinary socket can neither set nor read. It can
//! be predicted all the same. A socket that is not connected and forbids fragmentation sends identification 0 (RFC
//! 6864 leaves it free for a datagram that is never fragmented), and segment *i* of a segmented send carries *i*.
//! [`UdpPort`] uses only such sockets, and reports to the writer of each datagram the identification that it will
//! carry.
//!
//! Received datagrams may come from any sender: Linux's soft RoCE counts its identifications up, and the receive
//! offload of a real link joins datagrams that were sent one by one. [`CardPorts`] solves the identification from
//! the ICRC and accepts those that the peer may have chosen:
//!
//! | a damaged packet passes with a probability of at most | when |
//! |---|---|
//! | 2^-31 | the peer sends as Weft does: 0, or the segment's number |
//! | 2^-22 | the peer counts, and its packets arrive every 10 ms or more often |
//! | 2^-16 | the first packet, one after a minute of silence, or after two that were dropped for their identification |
//!
//! Ethernet's frame check sequence and, where the sender fills it in, UDP's checksum detect most damage before
//! that. A peer whose counter jumps, for example because it was restarted, loses two packets, which its transport
//! retransmits. None of this needs a privilege.
//!
//! [`PortOptions::segmentation`] of IPv4 ports must be off on real links as long as a network card may segment: which
//! identifications it writes is not known.
//!
//! IPv6 ([`SocketDevice::open_ipv6`]) has no identification: the ICRC is checked in full, 2^-32, and segmentation
//! may be on everywhere. The frames of the soft NIC and of the gateware are those of IPv4. Inside the card of a node,
//! the others have IPv4 addresses by their numbers, whatever their addresses on the network are.

#![deny(unsafe_code)]

mod address;
mod announcement;
mod card_ports;
mod clock;
mod cluster_card;
mod connection;
mod cores;
mod data;
mod device;
mod directory;
mod disk;
mod drive;
mod exit_watch;
mod frame_port;
mod identification;
mod inside;
pub mod log;
mod membership;
mod metrics;
mod node;
mod outgoing;
pub mod plain;
mod poll;
mod port;
pub mod process;
mod readings;
mod redis;
mod region_end;
mod resolve;
mod roce_end;
mod seal;
mod status;
mod stop;
mod system;
pub mod transactions;
mod watch;

pub use address::Address;
pub use announcement::{Announcement, Announcer, NoAnnouncement};
pub use card_ports::CardPorts;
pub use clock::Clock;
pub use connection::{ConnectionOptions, Introduction, NoIntroduction, RemoteMemory, connect};
pub use cores::{NoSuchCore, cores, keep_to_core};
pub use device::{Context, Device, FrameDevice, SocketDevice};
pub use directory::{Directory, DirectoryError};
pub use disk::{FileDisk, FileDiskError};
pub use drive::{Endpoint, run};
pub use exit_watch::{ExitWatch, WatchError, watch_exit};
pub use frame_port::{FramePort, PacketPort, TapPort, XdpPort};
pub use membership::{
    MembershipError, StoreState, found_coordinators, run_membership, run_membership_storing,
};
pub use metrics::MetricsError;
pub use node::{Node, NodeError, run_node, run_watched_node};
pub use outgoing::Outgoing;
pub use poll::{IdlePolicy, Poller, Ready};
pub use port::{
    BindError, Composed, Counters, Datagram, LONGEST_DATAGRAM, OversizedDatagram, PortOptions, UdpPort,
};
pub use redis::RedisError;
pub use region_end::{RegionEnd, RegionEndError, RegionEvent, RegionMemoryKind};
pub use roce_end::{RoceEnd, RocePath};
pub use seal::{KeyFileError, Seal, WAKE, write_new_key};
pub use stop::Stop;

/// The slot of the key-value engine.
pub const KV_SLOT: u8 = 0;
