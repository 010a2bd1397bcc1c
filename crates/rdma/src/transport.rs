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

/// The most queue pairs and regions of one NIC, so that an index leaves some bits of the number or key for
/// the generation or tag.
const TABLE_MAX: usize = 1 << 16;

/// The configuration of a NIC: table sizes and behaviour.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of queue pairs; at most 65,536.
    pub max_queue_pairs: usize,
    /// Number of regions; at most 65,536.
    pub max_regions: usize,
    /// The most requests and completions that exist at a time, over all queue pairs.
    pub completion_queue_depth: usize,
    /// The most calls of engines that may be queued.
    pub rpc_queue_depth: usize,
    /// The most requests in one send or receive queue.
    pub max_queue_depth: u32,
    /// The most outstanding READs and atomics on one queue pair, in each direction.
    pub max_rd_atomic: u8,
    /// The most outstanding packets on one queue pair; 1 to 2^20.
    pub window_packets: u32,
    /// A requester requests an acknowledgement at least once in this number of packets.
    pub acknowledge_interval: u32,
    /// The lower bound of time-outs that follow measured round trips. A queue pair starts with the time-out
    /// of verbs, which is also the upper bound.
    pub timeout_floor: Duration,
    /// The most requests that are kept if they arrive beyond a gap, over all queue pairs, with up to 4,096
    /// bytes each. With 0, a requester must send all packets beyond a gap again. Otherwise answers tell peers
    /// of this ability, so that those that understand it send only missing packets again.
    pub reorder_packets: usize,
    /// Whether responses tell peers that they may request a missing part of a READ without losing the rest.
    /// Peers that understand it then request only missing responses again.
    pub read_parts: bool,
    /// Packets that a queue pair sends before the next queue pair has its turn; at least 1. More than 1 is
    /// for ports that send runs of packets of equal size at once. The packets of one message after its first
    /// form such a run, and so do the first packets of messages on several queue pairs. A turn ends between
    /// these.
    pub burst_packets: u32,
    /// Creates the congestion control of each queue pair.
    pub congestion_control: CongestionControlFactory,
    /// Whether queue pairs limit their rates by DCQCN ([`crate::rate`]) when they receive congestion
    /// notifications, and allow switches to mark their requests. Without it, queue pairs ignore congestion.
    pub rate_control: bool,
    /// Payload bytes that the path to the host takes before credits must be returned
    /// ([`Transport::return_host_credits`]); `None` if it has no limit.
    pub host_credit_bytes: Option<u64>,
    /// The partition key of all queue pairs.
    pub partition_key: u16,
    /// The seed of region keys. It does not protect against a determined attacker: keys have 32 bits, of
    /// which the index takes some.
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
            read_parts: false,
            burst_packets: 1,
            congestion_control: FixedWindow::boxed,
            rate_control: false,
            host_credit_bytes: None,
            partition_key: 0xffff,
            key_seed: 0,
        }
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The peer's address; the UDP destination port is [`weft_wire::roce::UDP_PORT`].
    pub destination: IpAddr,
    /// The UDP source port.
    pub source_port: u16,
    /// The local queue pair that sends.
    pub queue_pair: QueuePairNumber,
    /// The type of service for the IP header.
    pub type_of_service: u8,
}

/// The type of service of congestion notifications: class selector 6, which switches serve first, and not
/// markable.
pub const NOTIFICATION_TYPE_OF_SERVICE: u8 = 48 << 2;

/// The transport of one NIC. The crate's documentation has its contract.
#[derive(Debug)]
pub struct Transport {
    config: Config,
    /// The queue pairs, indexed by the index in their numbers.
    slots: Vec<Option<QueuePair>>,
    numbers: QueuePairNumbers,
    arbiter: Arbiter,
    /// The queue pair whose turn it is, with the number of packets that it may still send. It is not in the
    /// arbiter's list.
    turn: Option<(usize, u32)>,
    timers: Timers,
    /// Indices of queue pairs whose peers are to get a congestion notification; each index at most once.
    notifications: VecDeque<usize>,
    shared: Shared,
}

impl Transport {
    /// A transport without queue pairs and regions.
    ///
    /// # Panics
    /// If a value of `config` is out of range.
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
                read_parts: config.read_parts,
                host_credits: config.host_credit_bytes,
                partition_key: config.partition_key,
                acknowledge_interval: config.acknowledge_interval.max(1),
                rate_control: config.rate_control,
                changed: Vec::new(),
            },
            config,
        }
    }

    /// Creates a queue pair in the state RESET.
    ///
    /// # Errors
    /// If all queue pairs are in use, or an attribute exceeds the configuration.
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
    /// If the queue pair does not exist, its state does not allow the change, or an attribute is out of
    /// range.
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

    /// Takes a queue pair from RESET to RTS, as a connection manager does after both ends have exchanged
    /// their numbers.
    ///
    /// # Errors
    /// As [`Transport::modify_queue_pair`]. Then the queue pair is in the last state that it reached.
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

    /// Destroys a queue pair. Its requests are dropped without completions.
    ///
    /// # Errors
    /// If the queue pair does not exist.
    pub fn destroy_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), ApiError> {
        let index = self.find(number).ok_or(ApiError::UnknownQueuePair(number))?;
        let mut queue_pair = self.slots[index].take().expect("found above");
        queue_pair.reset(&mut self.shared);
        self.timers.set(index, None);
        self.notifications.retain(|&due| due != index);
        self.numbers.release(number);
        Ok(())
    }

    /// The present state and attributes of a queue pair.
    ///
    /// # Errors
    /// If the queue pair does not exist.
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
    /// If all regions are in use, or the region exceeds the address space.
    pub fn register_region(&mut self, region: Region) -> Result<RegionKeys, ApiError> {
        self.shared.regions.register(region)
    }

    /// Registers a region whose first byte is at address `place` of the target's own memory. The address that
    /// peers use can be different.
    ///
    /// # Errors
    /// As [`Transport::register_region`].
    pub fn register_region_at(&mut self, region: Region, place: u64) -> Result<RegionKeys, ApiError> {
        self.shared.regions.register_at(region, place)
    }

    /// Changes the access flags of a region. The change applies from the next packet on.
    ///
    /// # Errors
    /// If no region has these keys.
    pub fn modify_region(&mut self, keys: RegionKeys, access: AccessFlags) -> Result<(), ApiError> {
        self.shared.regions.modify(keys, access)
    }

    /// Deregisters a region, and returns it. Accesses are refused from the next packet on.
    ///
    /// # Errors
    /// If no region has these keys.
    pub fn deregister_region(&mut self, keys: RegionKeys) -> Result<Region, ApiError> {
        self.shared.regions.deregister(keys)
    }

    /// Posts a work request. On a queue pair in the state ERROR it completes at once as flushed.
    ///
    /// # Errors
    /// If the queue pair does not exist or is not in RTS or ERROR, a queue is full, or the request can never
    /// be executed.
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

    /// Posts a receive request. On a queue pair in the state ERROR it completes at once as flushed.
    ///
    /// # Errors
    /// If the queue pair does not exist or is in RESET, or a queue is full.
    pub fn post_receive(&mut self, number: QueuePairNumber, request: ReceiveRequest) -> Result<(), ApiError> {
        let index = self.find(number).ok_or(ApiError::UnknownQueuePair(number))?;
        self.slots[index].as_mut().expect("found above").post_receive(request, &mut self.shared)
    }

    /// Creates a shared receive queue for at most `depth` receive requests.
    pub fn create_shared_receive_queue(&mut self, depth: u32) -> SharedReceiveQueueNumber {
        self.shared.receives.create(depth)
    }

    /// Destroys a shared receive queue. Its requests are dropped without completions.
    pub fn destroy_shared_receive_queue(&mut self, number: SharedReceiveQueueNumber) {
        let Shared { receives, completions, .. } = &mut self.shared;
        receives.destroy(number, completions);
    }

    /// Makes a queue pair take its receive requests from a shared queue, one when a message needs one. No
    /// receive requests must have been posted to the queue pair itself.
    ///
    /// # Errors
    /// If the queue pair does not exist.
    pub fn share_receives(
        &mut self,
        number: QueuePairNumber,
        source: SharedReceiveQueueNumber,
    ) -> Result<(), ApiError> {
        let index = self.find(number).ok_or(ApiError::UnknownQueuePair(number))?;
        self.slots[index].as_mut().expect("found above").share_receives(source);
        Ok(())
    }

    /// Posts a receive request for any queue pair that shares the queue.
    ///
    /// # Errors
    /// If the queue does not exist, or it or the completion queue is full.
    pub fn post_shared_receive(
        &mut self,
        number: SharedReceiveQueueNumber,
        request: ReceiveRequest,
    ) -> Result<(), ApiError> {
        let Shared { receives, completions, .. } = &mut self.shared;
        receives.post(number, request, completions)
    }

    /// Removes the oldest receive request from a shared queue, for a receiver of another service (such as
    /// datagrams). The transport does not complete this request.
    pub fn take_shared_receive(&mut self, number: SharedReceiveQueueNumber) -> Option<ReceiveRequest> {
        let request = self.shared.receives.take(number)?;
        self.shared.completions.release(1);
        Some(request)
    }

    /// Number of receive requests in a shared queue.
    pub fn shared_receives_queued(&self, number: SharedReceiveQueueNumber) -> usize {
        self.shared.receives.queued(number)
    }

    /// Handles a packet from `source` that has a correct ICRC and no congestion mark.
    pub fn receive(
        &mut self,
        now: Instant,
        source: impl Into<IpAddr>,
        packet: &Packet<'_>,
        memory: &mut impl RegionMemory,
    ) {
        self.receive_marked(now, source, packet, false, memory);
    }

    /// As [`Transport::receive`]. `marked`: whether a switch has set "congestion experienced" in the IP
    /// header.
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

    /// Passes the next packet, without ICRC, to `out` (a vector gets it appended), and returns its
    /// destination. Returns `None`, and does not change `out`, if there is nothing to send now.
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
            // First packets are a run of their own size, so the turn ends before and after one.
            if sent && left > 1 && !queue_pair.is_next_to_first_packet() {
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

    /// Makes the congestion notification that is due, if there is one. It precedes all other packets.
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

    /// Removes the oldest completion and returns it.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.shared.completions.pop()
    }

    /// Removes the completions of a queue pair that are not polled yet. Together with a reset this removes
    /// all traces of its former connection.
    pub fn forget_completions(&mut self, number: QueuePairNumber) {
        self.shared.completions.forget(number);
    }

    /// Removes the oldest call of an engine and returns it.
    pub fn poll_rpc(&mut self) -> Option<RpcWrite> {
        self.shared.rpc.pop()
    }

    /// Returns credits: the path to the host has accepted `bytes` bytes of payload, so it can take as many
    /// more.
    pub fn return_host_credits(&mut self, bytes: u64) {
        if let (Some(credits), Some(limit)) = (&mut self.shared.host_credits, self.config.host_credit_bytes) {
            *credits = credits.saturating_add(bytes).min(limit);
        }
    }

    /// The configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Counters since the NIC was created.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    fn find(&self, number: QueuePairNumber) -> Option<usize> {
        find(&self.slots, &self.numbers, number)
    }

    /// Updates the timer and the arbitration of a queue pair after an event.
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

/// The index of a queue pair, if it exists.
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
