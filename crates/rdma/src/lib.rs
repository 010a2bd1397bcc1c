//! Reliable-connection queue pairs and memory regions as one pure state machine.
//!
//! [`Transport`] holds all queue pairs, memory regions and the completion queue of one NIC and speaks the
//! reliable-connection service of the InfiniBand Architecture Specification (volume 1, chapter 9) as RoCE v2
//! carries it. It has no socket, no clock and no memory of its own: a world passes in the time, the packets
//! and the memory, and takes out packets, completions and deadlines.
//!
//! # Contract
//!
//! - Whenever anything was passed in ([`Transport::receive`], [`Transport::post_send`],
//!   [`Transport::handle_deadline`], ...), there may be packets to send: call [`Transport::poll_transmit`]
//!   until it returns `None`, as fast as the wire takes them. Each call makes one packet; queue pairs take
//!   turns of [`Config::burst_packets`].
//! - Completions and calls of engines queue up in bounded space: [`Transport::poll_completion`] and
//!   [`Transport::poll_rpc`]. A full call queue drops packets without a NAK, and retransmission recovers; a
//!   full completion queue refuses further posts.
//! - [`Transport::next_deadline`] says when [`Transport::handle_deadline`] must be called at the latest. A late call
//!   is not an error. `now` never runs backwards.
//! - [`Transport::receive`] takes packets whose ICRC has been checked. Everything else about them is untrusted.
//! - The memory of a posted request belongs to the transport until the request completes. A lost packet is
//!   made again from that memory and not from a copy, so whoever changes it before changes what the peer
//!   gets.
//! - Requests of one queue pair complete once each, in the order in which they were posted.
//!
//! Nothing on the way of a packet allocates: queues are allocated when the NIC or the queue pair is created.
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
//! // The world: what one end sends, the other receives.
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
//! # Choices where the specification leaves one
//!
//! - Multi-byte words of atomic operations lie in memory in little-endian order.
//! - A queue pair that refuses a request (any NAK but a sequence error or receiver-not-ready) enters the ERROR
//!   state once the NAK is queued; the NAK still leaves. So does one whose own request fails.
//! - Retries are counted down by time-outs as long as that of verbs, sequence-error NAKs and implied NAKs alike and
//!   counted afresh whenever a further packet is acknowledged.
//! - A time-out follows measured round trips, as TCP's does (RFC 6298), and is never longer than that of verbs. It
//!   doubles when nothing comes of it. A shorter one than that of verbs is no attempt, so a peer has the time that
//!   verbs promise it.
//! - A gap is reported again when the packet that told of it comes a second time: the peer has gone back, and what it
//!   went back for has been lost again. A requester takes a response that comes a second time in the same way.
//! - The acknowledgement of a duplicate ends before the next READ or atomic, because Linux's soft RoCE takes one
//!   with the PSN of a READ or atomic for its completion. One with a later PSN is an implied NAK to everybody.
//! - A READ or atomic has one response due at most: what is asked for again takes its place.
//! - A sequence-error NAK in the wait after a receiver-not-ready NAK only acknowledges what lies before it:
//!   Linux's soft RoCE sends both for a SEND of several packets.
//! - A NIC with [`Config::reorder_packets`] keeps requests that come too early and carries them out in their turn,
//!   never before: programs poll memory. Its sequence-error NAK has the AckReq bit of the base transport header,
//!   which requesters ignore in answers, if what came behind is kept. A requester that understands it sends the
//!   missing packet alone and waits for the acknowledgement of all; any other goes back, and finds that what it sends
//!   again is acknowledged.
//! - The same bit in the response of a READ or atomic says that a READ of a part that is missing is answered besides
//!   what is still due of the whole. Then a requester takes responses that come too early, each to its place in local
//!   memory, and asks for nothing but what is missing. Without the bit it goes back, since other responders end the
//!   stream.
//! - A request refused with receiver-not-ready is not kept, and neither is what comes behind it until it comes again:
//!   its requester sends all of that again.
//! - A WRITE with immediate into an RPC region consumes no receive request.
//! - End-to-end credits are not used: acknowledgements carry credit code 31.
//! - The congestion bits of the base transport header are sent as zeros and ignored, as annex A17 has it for RoCE v2:
//!   the field of the IP header says what a packet met, which the NIC passes on ([`Transport::receive_marked`]), and
//!   a congestion notification tells the sender. Its backward bit is set and means nothing.
//! - With [`Config::rate_control`], requests say that they may be marked; responses and notifications do not.

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
pub use memory::{FlatMemory, MemoryFault, Part, RegionMemory};
pub use numbers::{KeyNumbers, QueuePairNumbers};
pub use queue_pair::{local_ack_timeout, rnr_timer, source_port};
pub use rpc::RpcWrite;
pub use shared_receive::SharedReceiveQueueNumber;
pub use sink::PacketSink;
pub use transport::{Config, NOTIFICATION_TYPE_OF_SERVICE, Transmit, Transport};
