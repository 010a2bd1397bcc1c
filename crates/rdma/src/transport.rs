//! The transport of one NIC: its queue pairs, regions and completion queue.

use std::collections::VecDeque;
use std::net::IpAddr;

use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, ApiError, Completion, Modify, QueuePairAttributes, QueuePairInformation, QueuePairNumber,
    QueuePairState, ReadyToReceive, ReadyToSend, ReceiveRequest, Region, RegionKeys, WorkRequest,
};
use weft_wire::ipv4::CONGESTION_CAPABLE;
use weft_wire::roce::{MASK_24, Packet};

use crate::arbiter::Arbiter;
use crate::completion::CompletionQueue;
use crate::congestion::{CongestionControlFactory, FixedWindow};
use crate::counters::Counters;
use crate::memory::RegionMemory;
use crate::numbers::QueuePairNumbers;
use crate::queue_pair::{QueuePair, Sent};
use crate::region::RegionTable;
use crate::reorder::ReorderPool;
use crate::rpc::{RpcQueue, RpcWrite};
use crate::shared::Shared;
use crate::shared_receive::{SharedReceiveQueueNumber, SharedReceives};
use crate::sink::PacketSink;
use crate::timers::Timers;

/// The most queue pairs and regions of one NIC, so that an index leaves room for the rest of its number.
const TABLE_MAX: usize = 1 << 16;

/// Sizes of a NIC's tables, and its behaviour.
#[derive(Clone, Debug)]
pub struct Config {
    /// Queue pairs; at most 65,536.
    pub max_queue_pairs: usize,
    /// Regions; at most 65,536.
    pub max_regions: usize,
    /// Requests and completions that can exist at a time, over all queue pairs.
    pub completion_queue_depth: usize,
    /// Calls of engines that can wait.
    pub rpc_queue_depth: usize,
    /// Requests in one send or receive queue, at most.
    pub max_queue_depth: u32,
    /// READs and atomics outstanding on one queue pair, in each direction, at most.
    pub max_rd_atomic: u8,
    /// Packets outstanding on one queue pair, at most; 1 to 2^20.
    pub window_packets: u32,
    /// A requester asks for an acknowledgement at least once in so many packets.
    pub acknowledge_interval: u32,
    /// The shortest time-out that measured round trips may come to. A time-out is at most that of verbs, which is also
    /// what a queue pair begins with.
    pub timeout_floor: Duration,
    /// Requests that came too early and can be kept at a time, over all queue pairs, of up to 4,096 bytes each, until
    /// the gap before them is filled. With none, a requester has to send all of them again. Peers are told, so that
    /// those that understand it send nothing again but what is missing.
    pub reorder_packets: usize,
    /// Packets that a queue pair sends in its turn before the next has one; at least 1. More than 1 is for ports that
    /// send runs of packets of equal size at once. The packets of one message behind its first are such a run, and so
    /// are the first packets of messages on several queue pairs: a turn ends between them.
    pub burst_packets: u32,
    /// Congestion control, which decides the window of a queue pair.
    pub congestion_control: CongestionControlFactory,
    /// Whether queue pairs limit their rate when they are told of congestion, by DCQCN ([`crate::rate`]), and tell
    /// switches that requests may be marked. Without it no queue pair waits, whatever the network is like.
    pub rate_control: bool,
    /// Payload bytes that the host-facing path takes before some are returned
    /// ([`Transport::return_host_credits`]); `None` if it never runs short.
    pub host_credit_bytes: Option<u64>,
    /// The partition of all queue pairs.
    pub partition_key: u16,
    /// From where the keys of regions are drawn. Not a secret against a determined attacker: keys are 32 bits,
    /// of which the index takes some.
    pub key_seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_queue_pairs: 512,
            max_regions: 1_024,
            completion_queue_depth: 65_536,
            rpc_queue_depth: 1_024,
            max_queue_depth: 4_096,
            max_rd_atomic: 16,
            window_packets: 64,
            acknowledge_interval: 16,
            timeout_floor: Duration::from_ns(16_384),
            reorder_packets: 0,
            burst_packets: 1,
            congestion_control: FixedWindow::boxed,
            rate_control: false,
            host_credit_bytes: None,
            partition_key: 0xffff,
            key_seed: 0,
        }
    }
}

/// Destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The peer's address; the UDP destination port is [`weft_wire::roce::UDP_PORT`].
    pub destination: IpAddr,
    /// The UDP source port.
    pub source_port: u16,
    /// The local queue pair that sends.
    pub queue_pair: QueuePairNumber,
    /// The type of service of the IP header.
    pub type_of_service: u8,
}

/// The type of service of congestion notifications: class selector 6, which switches serve first, and not to be marked.
pub const NOTIFICATION_TYPE_OF_SERVICE: u8 = 48 << 2;

/// The transport of one NIC. The crate's documentation has the contract.
#[derive(Debug)]
pub struct Transport {
    config: Config,
    /// By the indices in their numbers.
    slots: Vec<Option<QueuePair>>,
    numbers: QueuePairNumbers,
    arbiter: Arbiter,
    /// The queue pair that is sending now, which is not in the arbiter's queue, and its remaining packets.
    turn: Option<(usize, u32)>,
    timers: Timers,
    /// Queue pairs, by index, whose peers await a congestion notification; each at most once.
    notifications: VecDeque<usize>,
    shared: Shared,
}

impl Transport {
    /// A transport without queue pairs and regions.
    ///
    /// # Panics
    /// If a figure of `config` is outside the range that its documentation gives.
    pub fn new(config: Config) -> Self {
        assert!((1..=TABLE_MAX).contains(&config.max_queue_pairs), "1 to 65,536 queue pairs");
        assert!((1..=TABLE_MAX).contains(&config.max_regions), "1 to 65,536 regions");
        assert!((1..=1 << 20).contains(&config.window_packets), "a window of 1 to 2^20 packets");
        assert!(config.burst_packets > 0, "a turn of at least one packet");
        let queue_pairs = config.max_queue_pairs;
        Self {
            slots: (0..queue_pairs).map(|_| None).collect(),
            numbers: QueuePairNumbers::new(queue_pairs),
            arbiter: Arbiter::new(queue_pairs),
            turn: None,
            timers: Timers::new(queue_pairs),
            notifications: VecDeque::with_capacity(queue_pairs),
            shared: Shared {
                regions: RegionTable::new(config.max_regions, config.key_seed),
                completions: CompletionQueue::new(config.completion_queue_depth),
                rpc: RpcQueue::new(config.rpc_queue_depth),
                receives: SharedReceives::default(),
                counters: Counters::default(),
                reorder: ReorderPool::new(config.reorder_packets),
                host_credits: config.host_credit_bytes,
                partition_key: config.partition_key,
                acknowledge_interval: config.acknowledge_interval.max(1),
                rate_control: config.rate_control,
                changed: Vec::new(),
            },
            config,
        }
    }

    /// Creates a queue pair in state RESET.
    ///
    /// # Errors
    /// All queue pairs are in use, or an attribute exceeds the configuration.
    pub fn create_queue_pair(
        &mut self,
        attributes: QueuePairAttributes,
    ) -> Result<QueuePairNumber, ApiError> {
        let depth = u64::from(self.config.max_queue_depth);
        at_most("max_send_wr", attributes.max_send_wr.into(), depth)?;
        at_most("max_recv_wr", attributes.max_recv_wr.into(), depth)?;
        let number = self.numbers.allocate().ok_or(ApiError::TooManyQueuePairs(self.slots.len()))?;
        let window = self.config.window_packets;
        let congestion = (self.config.congestion_control)(window);
        let floor = self.config.timeout_floor;
        let queue_pair = QueuePair::new(number, attributes, congestion, window, floor);
        self.slots[self.numbers.index(number)] = Some(queue_pair);
        Ok(number)
    }

    /// Changes the state or the attributes of a queue pair.
    ///
    /// # Errors
    /// The queue pair does not exist, its state does not allow the change, or an attribute is out of range.
    pub fn modify_queue_pair(&mut self, number: QueuePairNumber, change: Modify) -> Result<(), ApiError> {
        let index = self.find(number).ok_or(ApiError::UnknownQueuePair(number))?;
        let resources = self.config.max_rd_atomic.into();
        match change {
            Modify::ReadyToReceive(path) => {
                at_most("rq_psn", path.rq_psn.into(), MASK_24.into())?;
                at_most("dest_qp_num", path.destination_qp_num.0.into(), MASK_24.into())?;
                at_most("min_rnr_timer", path.min_rnr_timer.into(), 31)?;
                at_most("max_dest_rd_atomic", path.max_dest_rd_atomic.into(), resources)?;
            }
            Modify::ReadyToSend(limits) => {
                at_most("sq_psn", limits.sq_psn.into(), MASK_24.into())?;
                at_most("timeout", limits.timeout.into(), 31)?;
                at_most("retry_cnt", limits.retry_cnt.into(), 7)?;
                at_most("rnr_retry", limits.rnr_retry.into(), 7)?;
                at_most("max_rd_atomic", limits.max_rd_atomic.into(), resources)?;
            }
            Modify::Reset | Modify::Init { .. } | Modify::Access(_) | Modify::Error => {}
        }
        let Self { config, slots, shared, .. } = self;
        let queue_pair = slots[index].as_mut().expect("found above");
        queue_pair.modify(change, || (config.congestion_control)(config.window_packets), shared)?;
        if matches!(change, Modify::Reset) {
            self.notifications.retain(|&due| due != index);
        }
        self.settle(index);
        Ok(())
    }

    /// Takes a queue pair from RESET to RTS: what a connection manager does once both ends know each other.
    ///
    /// # Errors
    /// As [`Transport::modify_queue_pair`]; the queue pair is then in the last state that it reached.
    pub fn connect(
        &mut self,
        number: QueuePairNumber,
        access: AccessFlags,
        receive: ReadyToReceive,
        send: ReadyToSend,
    ) -> Result<(), ApiError> {
        self.modify_queue_pair(number, Modify::Init { access })?;
        self.modify_queue_pair(number, Modify::ReadyToReceive(receive))?;
        self.modify_queue_pair(number, Modify::ReadyToSend(send))
    }

    /// Takes a queue pair away, with its requests and without completions for them.
    ///
    /// # Errors
    /// The queue pair does not exist.
    pub fn destroy_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), ApiError> {
        let index = self.find(number).ok_or(ApiError::UnknownQueuePair(number))?;
        let mut queue_pair = self.slots[index].take().expect("found above");
        queue_pair.reset(&mut self.shared);
        self.timers.set(index, None);
        self.notifications.retain(|&due| due != index);
        self.numbers.release(number);
        Ok(())
    }

    /// What a queue pair is like now.
    ///
    /// # Errors
    /// The queue pair does not exist.
    pub fn query_queue_pair(&self, number: QueuePairNumber) -> Result<QueuePairInformation, ApiError> {
        let index = self.find(number).ok_or(ApiError::UnknownQueuePair(number))?;
        Ok(self.slots[index].as_ref().expect("found above").information())
    }

    /// The state of a queue pair; `None` if it does not exist.
    pub fn state(&self, number: QueuePairNumber) -> Option<QueuePairState> {
        let index = self.find(number)?;
        Some(self.slots[index].as_ref().expect("found above").state())
    }

    /// Number of resets of a queue pair since it was created; `None` if it does not exist.
    pub fn resets(&self, number: QueuePairNumber) -> Option<u32> {
        let index = self.find(number)?;
        Some(self.slots[index].as_ref().expect("found above").resets())
    }

    /// Registers a region.
    ///
    /// # Errors
    /// All regions are in use, or the region leaves the address space.
    pub fn register_region(&mut self, region: Region) -> Result<RegionKeys, ApiError> {
        self.shared.regions.register(region)
    }

    /// Registers a region whose first byte lies at `place` of the target's own memory, apart from the address under
    /// which peers see it.
    ///
    /// # Errors
    /// As [`Transport::register_region`].
    pub fn register_region_at(&mut self, region: Region, place: u64) -> Result<RegionKeys, ApiError> {
        self.shared.regions.register_at(region, place)
    }

    /// Changes what is allowed in a region, from the next packet on.
    ///
    /// # Errors
    /// No region has these keys.
    pub fn modify_region(&mut self, keys: RegionKeys, access: AccessFlags) -> Result<(), ApiError> {
        self.shared.regions.modify(keys, access)
    }

    /// Takes a region away, from the next packet on, and returns what it was.
    ///
    /// # Errors
    /// No region has these keys.
    pub fn deregister_region(&mut self, keys: RegionKeys) -> Result<Region, ApiError> {
        self.shared.regions.deregister(keys)
    }

    /// Queues a work request. On a queue pair in ERROR it completes at once, flushed.
    ///
    /// # Errors
    /// The queue pair does not exist or is not in RTS or ERROR, a queue is full, or the request can never be
    /// carried out.
    pub fn post_send(
        &mut self,
        _now: Instant,
        number: QueuePairNumber,
        request: WorkRequest,
    ) -> Result<(), ApiError> {
        let index = self.find(number).ok_or(ApiError::UnknownQueuePair(number))?;
        let queue_pair = self.slots[index].as_mut().expect("found above");
        queue_pair.post_send(request, &mut self.shared)?;
        self.settle(index);
        Ok(())
    }

    /// Queues a receive request. On a queue pair in ERROR it completes at once, flushed.
    ///
    /// # Errors
    /// The queue pair does not exist or is in RESET, or a queue is full.
    pub fn post_receive(&mut self, number: QueuePairNumber, request: ReceiveRequest) -> Result<(), ApiError> {
        let index = self.find(number).ok_or(ApiError::UnknownQueuePair(number))?;
        self.slots[index].as_mut().expect("found above").post_receive(request, &mut self.shared)
    }

    /// Makes a queue of at most `depth` receive requests that queue pairs share.
    pub fn create_shared_receive_queue(&mut self, depth: u32) -> SharedReceiveQueueNumber {
        self.shared.receives.create(depth)
    }

    /// Takes a shared receive queue away, with its requests and without completions for them.
    pub fn destroy_shared_receive_queue(&mut self, number: SharedReceiveQueueNumber) {
        let Shared { receives, completions, .. } = &mut self.shared;
        receives.destroy(number, completions);
    }

    /// Lets a queue pair, to which nothing has been posted, take its receive requests from a shared queue: one when a
    /// message needs one.
    ///
    /// # Errors
    /// The queue pair does not exist.
    pub fn share_receives(
        &mut self,
        number: QueuePairNumber,
        source: SharedReceiveQueueNumber,
    ) -> Result<(), ApiError> {
        let index = self.find(number).ok_or(ApiError::UnknownQueuePair(number))?;
        self.slots[index].as_mut().expect("found above").share_receives(source);
        Ok(())
    }

    /// Queues a receive request for any queue pair that shares the queue.
    ///
    /// # Errors
    /// There is no such queue, or it or the completion queue is full.
    pub fn post_shared_receive(
        &mut self,
        number: SharedReceiveQueueNumber,
        request: ReceiveRequest,
    ) -> Result<(), ApiError> {
        let Shared { receives, completions, .. } = &mut self.shared;
        receives.post(number, request, completions)
    }

    /// Takes the oldest receive request out of a shared queue, for who receives by another service. The transport
    /// completes it no more.
    pub fn take_shared_receive(&mut self, number: SharedReceiveQueueNumber) -> Option<ReceiveRequest> {
        let request = self.shared.receives.take(number)?;
        self.shared.completions.release(1);
        Some(request)
    }

    /// Receive requests in a shared queue.
    pub fn shared_receives_queued(&self, number: SharedReceiveQueueNumber) -> usize {
        self.shared.receives.queued(number)
    }

    /// Takes a packet from `source`, without a congestion mark and with a correct ICRC.
    pub fn receive(
        &mut self,
        now: Instant,
        source: impl Into<IpAddr>,
        packet: &Packet<'_>,
        memory: &mut impl RegionMemory,
    ) {
        self.receive_marked(now, source, packet, false, memory);
    }

    /// As [`Transport::receive`]; `marked` says whether a switch has set "congestion experienced" in the IP header.
    pub fn receive_marked(
        &mut self,
        now: Instant,
        source: impl Into<IpAddr>,
        packet: &Packet<'_>,
        marked: bool,
        memory: &mut impl RegionMemory,
    ) {
        let counters = &mut self.shared.counters;
        counters.rcvd_pkts += 1;
        let Some(index) = find(&self.slots, &self.numbers, QueuePairNumber(packet.bth.destination)) else {
            counters.drop_unknown_queue_pair += 1;
            return;
        };
        let queue_pair = self.slots[index].as_mut().expect("found above");
        if !same_partition(packet.bth.partition_key, self.config.partition_key) {
            counters.drop_partition_key += 1;
            return;
        }
        if queue_pair.receive(now, source.into(), packet, marked, &mut self.shared, memory)
            && !self.notifications.contains(&index)
        {
            self.notifications.push_back(index);
        }
        self.settle(index);
    }

    /// Gives the next packet to `out`, without ICRC, and says where it goes; a vector is appended to. Returns `None`,
    /// and leaves `out` as it is, if there is nothing to send now.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        memory: &mut impl RegionMemory,
        out: &mut impl PacketSink,
    ) -> Option<Transmit> {
        if let Some(transmit) = self.transmit_notification(out) {
            return Some(transmit);
        }
        loop {
            let (index, left) = match self.turn.take() {
                Some(turn) => turn,
                None => (self.arbiter.next()?, self.config.burst_packets),
            };
            let Some(queue_pair) = self.slots[index].as_mut() else { continue };
            let sent = queue_pair.transmit(now, &mut self.shared, memory, out);
            let is_request = sent == Sent::Request;
            let sent = sent != Sent::Nothing;
            let transmit = Transmit {
                destination: queue_pair.destination(),
                source_port: queue_pair.source_port(),
                queue_pair: queue_pair.number(),
                type_of_service: if is_request && self.config.rate_control { CONGESTION_CAPABLE } else { 0 },
            };
            // The first packets of several queue pairs are a run of equal size, too.
            if sent && left > 1 && !queue_pair.is_beside_first() {
                self.timers.set(index, queue_pair.deadline());
                self.turn = Some((index, left - 1));
            } else {
                self.settle(index);
            }
            if sent {
                return Some(transmit);
            }
        }
    }

    /// The congestion notification that is due, if there is one: before all else.
    fn transmit_notification(&mut self, out: &mut impl PacketSink) -> Option<Transmit> {
        let index = self.notifications.pop_front()?;
        let queue_pair =
            self.slots[index].as_ref().expect("a queue pair that goes away takes its notification");
        let packet =
            Packet::congestion_notification(queue_pair.destination_qp().0, self.config.partition_key);
        out.put(&packet);
        self.shared.counters.sent_pkts += 1;
        self.shared.counters.np_cnp_sent += 1;
        Some(Transmit {
            destination: queue_pair.destination(),
            source_port: queue_pair.source_port(),
            queue_pair: queue_pair.number(),
            type_of_service: NOTIFICATION_TYPE_OF_SERVICE,
        })
    }

    /// When [`Transport::handle_deadline`] must be called at the latest; `None` if no timer runs.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.first()
    }

    /// Handles all deadlines up to `now`.
    pub fn handle_deadline(&mut self, now: Instant) {
        while let Some(index) = self.timers.expired(now) {
            let queue_pair = self.slots[index].as_mut().expect("a timer belongs to a queue pair");
            queue_pair.handle_deadline(now, &mut self.shared);
            self.settle(index);
        }
    }

    /// The oldest completion.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.shared.completions.pop()
    }

    /// Takes out the completions of a queue pair that wait to be polled: with a reset, nothing of its earlier life is
    /// left.
    pub fn forget_completions(&mut self, number: QueuePairNumber) {
        self.shared.completions.forget(number);
    }

    /// The oldest call of an engine.
    pub fn poll_rpc(&mut self) -> Option<RpcWrite> {
        self.shared.rpc.pop()
    }

    /// The host-facing path has taken `bytes` of payload and can take as many more.
    pub fn return_host_credits(&mut self, bytes: u64) {
        if let (Some(credits), Some(limit)) = (&mut self.shared.host_credits, self.config.host_credit_bytes) {
            *credits = credits.saturating_add(bytes).min(limit);
        }
    }

    /// The configuration it was made with.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Counters since the NIC began.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    fn find(&self, number: QueuePairNumber) -> Option<usize> {
        find(&self.slots, &self.numbers, number)
    }

    /// Brings the timer and the turn of a queue pair in line with what it wants after a change.
    #[inline]
    fn settle(&mut self, index: usize) {
        let Some(queue_pair) = &self.slots[index] else { return };
        self.timers.set(index, queue_pair.deadline());
        let has_turn = self.turn.is_some_and(|(turn, _)| turn == index);
        if !has_turn && queue_pair.wants_to_send() {
            self.arbiter.activate(index);
        }
    }
}

/// The place of a queue pair, from its number alone.
#[inline]
fn find(slots: &[Option<QueuePair>], numbers: &QueuePairNumbers, number: QueuePairNumber) -> Option<usize> {
    let index = numbers.index(number);
    slots.get(index)?.as_ref().filter(|queue_pair| queue_pair.number() == number).map(|_| index)
}

/// Two partition keys match if their low 15 bits do and at least one has full membership (clause 10.9.3).
fn same_partition(one: u16, other: u16) -> bool {
    (one ^ other) & 0x7fff == 0 && (one | other) & 0x8000 != 0
}

fn at_most(attribute: &'static str, value: u64, limit: u64) -> Result<(), ApiError> {
    if value > limit { Err(ApiError::AttributeOutOfRange { attribute, value, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_match_unless_both_members_are_limited() {
        assert!(same_partition(0xffff, 0xffff));
        assert!(same_partition(0x7fff, 0xffff));
        assert!(!same_partition(0x7fff, 0x7fff));
        assert!(!same_partition(0xffff, 0x8001));
    }

    #[test]
    fn the_number_of_a_destroyed_queue_pair_is_not_the_next_one_in_its_place() {
        let mut transport = Transport::new(Config { max_queue_pairs: 1, ..Config::default() });
        let old = transport.create_queue_pair(QueuePairAttributes::default()).unwrap();
        assert!(old.0 > 1);
        assert_eq!(
            transport.create_queue_pair(QueuePairAttributes::default()),
            Err(ApiError::TooManyQueuePairs(1))
        );
        transport.destroy_queue_pair(old).unwrap();
        let new = transport.create_queue_pair(QueuePairAttributes::default()).unwrap();
        assert_ne!(old, new);
        assert_eq!(transport.query_queue_pair(old), Err(ApiError::UnknownQueuePair(old)));
    }
}
