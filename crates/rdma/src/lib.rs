//! Reliable-connection queue pairs and memory regions as one pure state machine.
//!
//! [`Transport`] holds all queue pairs, memory regions and the completion queue of one NIC. It implements the
//! reliable-connection service of the InfiniBand Architecture Specification (volume 1, chapter 9) as RoCE v2
//! transports it. It has no socket, no clock and no memory of its own. A world passes in the time, packets
//! and memory, and takes out packets, completions and deadlines.
//!
//! # Contract
//!
//! - After any input ([`Transport::receive`], [`Transport::post_send`], [`Transport::handle_deadline`], ...)
//!   there may be packets to send. Call [`Transport::poll_transmit`] until it returns `None`, as fast as the
//!   wire takes them. Each call makes one packet; queue pairs take turns of [`Config::burst_packets`].
//! - Completions and calls of engines wait in bounded queues: [`Transport::poll_completion`] and
//!   [`Transport::poll_rpc`]. If the call queue is full, packets are dropped without a NAK, and
//!   retransmission recovers. If the completion queue is full, further posts are refused.
//! - [`Transport::next_deadline`] returns when [`Transport::handle_deadline`] must be called at the latest. A
//!   late call is no error. `now` never decreases.
//! - [`Transport::receive`] takes packets whose ICRC was checked. Everything else about them is untrusted.
//! - The local memory of a posted request belongs to the transport until the request completes. The transport
//!   keeps no copy: a lost packet is made again from that memory. If a program changes the memory earlier,
//!   the peer may receive the changed bytes.
//! - Requests of one queue pair complete once each, in the order in which they were posted.
//!
//! The packet path does not allocate: queues are allocated when the NIC or the queue pair is created.
//!
//! # Example
//!
//! Two NICs, one connection, one WRITE:
//!
//! ```
//! use std::net::Ipv4Addr;
//! use weft_rdma::*;
//! use weft_time::Instant;
//! use weft_verbs::*;
//! use weft_wire::roce::Packet;
//!
//! let addresses = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
//! let mut memories = [FlatMemory::new(4_096), FlatMemory::new(4_096)];
//! let mut transports = [Transport::new(Config::default()), Transport::new(Config::default())];
//! let keys = [0, 1].map(|end: usize| {
//!     let region = Region::host(0, 4_096, AccessFlags::LOCAL_WRITE.with(AccessFlags::REMOTE_WRITE));
//!     transports[end].register_region(region).unwrap()
//! });
//! let numbers =
//!     [0, 1].map(|end: usize| transports[end].create_queue_pair(QueuePairAttributes::default()).unwrap());
//! for end in 0..2 {
//!     let receive = ReadyToReceive {
//!         destination: addresses[1 - end].into(),
//!         destination_qp_num: numbers[1 - end],
//!         rq_psn: 0,
//!         path_mtu: PathMtu::Bytes1024,
//!         max_dest_rd_atomic: 4,
//!         min_rnr_timer: 12,
//!     };
//!     let send = ReadyToSend { sq_psn: 0, timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 4 };
//!     transports[end].connect(numbers[end], AccessFlags::ALL, receive, send).unwrap();
//! }
//!
//! memories[0].image_mut(Target::Host)[..5].copy_from_slice(b"hello");
//! let remote = RemoteAddress { address: 0x100, rkey: keys[1].rkey };
//! let local = LocalBuffer { address: 0, length: 5, lkey: keys[0].lkey };
//! let request = WorkRequest::new(1, Operation::Write { remote, immediate: None }, local);
//! transports[0].post_send(Instant::ZERO, numbers[0], request).unwrap();
//!
//! // The world: each packet that one end sends is received by the other.
//! let mut bytes = Vec::new();
//! for end in [0, 1] {
//!     transports[end].poll_transmit(Instant::ZERO, &mut memories[end], &mut bytes).unwrap();
//!     let packet = Packet::parse(&bytes).unwrap();
//!     let peer = 1 - end;
//!     transports[peer].receive(Instant::ZERO, addresses[end], &packet, &mut memories[peer]);
//!     bytes.clear();
//! }
//!
//! assert_eq!(transports[0].poll_completion().unwrap().status, CompletionStatus::Success);
//! assert_eq!(&memories[1].image(Target::Host)[0x100..0x105], b"hello");
//! ```
//!
//! # Choices where the specification allows several
//!
//! - Multi-byte words of atomic operations are little-endian in memory.
//! - A queue pair that refuses a request (any NAK but a sequence error or receiver-not-ready) enters the
//!   ERROR state once the NAK is queued; the NAK is still sent. A queue pair whose own request fails enters
//!   the ERROR state too.
//! - The retry counter is decremented by full-length time-outs (those of verbs), by sequence-error NAKs and
//!   by implied NAKs alike. It is reset whenever a further packet is acknowledged.
//! - The time-out follows measured round trips, as TCP's does (RFC 6298), and never exceeds that of verbs. It
//!   doubles if there is no progress. A time-out shorter than that of verbs does not count as a retry, so a
//!   peer has the time that verbs guarantee.
//! - A gap is reported again when the packet that revealed it arrives a second time: the peer has gone back,
//!   and the missing packet was lost again. A requester treats a response that arrives a second time in the
//!   same way.
//! - The acknowledgement of a duplicate covers nothing from the next READ or atomic on. Linux's soft RoCE
//!   takes an acknowledgement with the PSN of a READ or atomic for its completion; an acknowledgement with a
//!   later PSN is an implied NAK to every requester.
//! - A READ or atomic has at most one response due: if it is requested again, the new response replaces the
//!   old one. But a READ again of a part that ends before the whole does is answered at once, and what is due
//!   goes on behind it.
//! - A sequence-error NAK that arrives during the wait after a receiver-not-ready NAK only acknowledges the
//!   packets before it. Linux's soft RoCE sends both NAKs for a SEND of several packets.
//! - A NIC with [`Config::reorder_packets`] keeps requests that arrive beyond a gap, and executes them in PSN
//!   order, never earlier, because programs poll memory. If it has kept later packets, its sequence-error NAK
//!   has the AckReq bit of the base transport header set, which other requesters ignore in answers. A
//!   requester that understands the bit sends the missing packet alone and waits for the acknowledgement of
//!   all. Any other requester goes back, and the packets that it sends again are acknowledged. Once a request
//!   finds no entry, none behind it is kept until the gap is filled, and the requester goes back for it.
//! - With [`Config::read_parts`], the same bit in the response to a READ or atomic tells that the responder
//!   answers a READ of a missing part without ending the stream of the whole. Then a requester stores
//!   responses that arrive out of order at their places in local memory, and requests only missing ones.
//!   Without the bit it goes back, since other responders end the stream, and also if none can be stored.
//! - A request that is refused with receiver-not-ready is not kept, nor are requests beyond it until it
//!   arrives again, and those that were kept are dropped: its requester sends all of them again.
//! - A WRITE with immediate into an RPC region consumes no receive request.
//! - End-to-end credits are not used: acknowledgements carry credit code 31.
//! - The congestion bits of the base transport header are sent as zeros and ignored, as annex A17 specifies
//!   for RoCE v2. Congestion is marked in the IP header, and the NIC passes that on
//!   ([`Transport::receive_marked`]). A congestion notification reports it to the sender. The backward bit of
//!   a notification is set and has no meaning.
//! - With [`Config::rate_control`], requests allow switches to mark them; responses and notifications do not.

mod arbiter;
mod completion;
mod congestion;
mod counters;
mod memory;
mod numbers;
mod psn;
mod queue_pair;
pub mod rate;
mod region;
mod reorder;
mod rpc;
mod shared;
mod shared_receive;
mod sink;
mod timers;
mod transport;

pub use congestion::{AdditiveIncrease, CongestionControl, CongestionControlFactory, FixedWindow, Loss};
pub use counters::Counters;
pub use memory::{FlatMemory, MemoryFault, Part, Passed, RegionMemory};
pub use numbers::{KeyNumbers, QueuePairNumbers};
pub use queue_pair::{local_ack_timeout, rnr_timer, source_port};
pub use rpc::RpcWrite;
pub use shared_receive::SharedReceiveQueueNumber;
pub use sink::PacketSink;
pub use transport::{Config, NOTIFICATION_TYPE_OF_SERVICE, Transmit, Transport};
