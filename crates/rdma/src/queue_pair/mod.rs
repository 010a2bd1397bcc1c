//! One queue pair: its state, its requester and its responder.

mod requester;
mod responder;
mod timer_codes;

use std::net::{IpAddr, Ipv4Addr};

use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, ApiError, Modify, PathMtu, ProtectionDomain, QueuePairAttributes, QueuePairInformation,
    QueuePairNumber, QueuePairState, ReceiveRequest, WorkRequest,
};
use weft_wire::roce::{Bth, Congestion, Opcode, Packet};

pub use timer_codes::{local_ack_timeout, rnr_timer};

use crate::congestion::CongestionControl;
use crate::memory::RegionMemory;
use crate::psn;
use crate::rate::{NotificationPoint, ReactionPoint};
use crate::shared::Shared;
use crate::shared_receive::SharedReceiveQueueNumber;
use crate::sink::PacketSink;
use requester::{Fault, Requester};
use responder::Responder;

/// The UDP source port of a connection, by which switches hash connections to paths (annex A17.3.1). It is in
/// the dynamic range and constant for a connection. It is a hash of both queue pair numbers in which every
/// bit of the port depends on all bits of both. Linux uses the product of the numbers; that leaves half of
/// four paths unused if both sides count alike.
pub fn source_port(number: QueuePairNumber, destination: QueuePairNumber) -> u16 {
    let pair = (u64::from(number.0) << 24) | u64::from(destination.0);
    0xc000 | (pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as u16
}

/// Attributes of the queue pair and its peer that requester and responder share.
#[derive(Clone, Copy, Debug)]
struct Setup {
    number: QueuePairNumber,
    domain: ProtectionDomain,
    /// The operations that the peer may perform through this queue pair.
    access: AccessFlags,
    destination: IpAddr,
    destination_qp: QueuePairNumber,
    mtu: u32,
    max_dest_rd_atomic: usize,
    min_rnr_timer: u8,
    /// The local acknowledgement time-out; `None` if the requester waits without limit.
    timeout: Option<Duration>,
    /// The lower bound of time-outs that follow measured round trips.
    timeout_floor: Duration,
    retry_cnt: u8,
    rnr_retry: u8,
    max_rd_atomic: usize,
}

impl Setup {
    /// A base transport header for a packet to the peer.
    #[inline]
    fn header(&self, shared: &Shared, opcode: Opcode, sequence: u64) -> Bth {
        Bth {
            opcode,
            solicited: false,
            migration: true,
            pad: 0,
            partition_key: shared.partition_key,
            congestion: Congestion::default(),
            destination: self.destination_qp.0,
            acknowledge: false,
            psn: psn::wire(sequence),
        }
    }

    /// Number of packets for `length` bytes; a message without payload takes one.
    #[inline]
    fn packets(&self, length: u32) -> u32 {
        length.div_ceil(self.mtu).max(1)
    }
}

/// Passes `packet` to `out`, and counts it.
#[inline]
fn emit(packet: &Packet<'_>, shared: &mut Shared, out: &mut impl PacketSink) {
    out.put(packet);
    shared.counters.sent_pkts += 1;
}

/// Kind of the packet that a queue pair has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Nothing,
    Request,
    Response,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct QueuePair {
    state: QueuePairState,
    setup: Setup,
    attributes: QueuePairAttributes,
    requester: Requester,
    responder: Responder,
    rate: ReactionPoint,
    marks: NotificationPoint,
    /// Whether the responder has the next turn if both responder and requester have something to send.
    responder_turn: bool,
    resets: u32,
}

impl QueuePair {
    pub(crate) fn new(
        number: QueuePairNumber,
        attributes: QueuePairAttributes,
        congestion: Box<dyn CongestionControl>,
        window: u32,
        timeout_floor: Duration,
    ) -> Self {
        Self {
            state: QueuePairState::Reset,
            setup: Setup {
                number,
                domain: attributes.domain,
                access: AccessFlags::NONE,
                destination: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                destination_qp: QueuePairNumber(0),
                mtu: PathMtu::Bytes1024.bytes(),
                max_dest_rd_atomic: 0,
                min_rnr_timer: 0,
                timeout: None,
                timeout_floor,
                retry_cnt: 0,
                rnr_retry: 0,
                max_rd_atomic: 0,
            },
            attributes,
            requester: Requester::new(attributes.max_send_wr, congestion, window),
            responder: Responder::new(attributes.max_recv_wr),
            rate: ReactionPoint::default(),
            marks: NotificationPoint::default(),
            responder_turn: true,
            resets: 0,
        }
    }

    pub(crate) fn state(&self) -> QueuePairState {
        self.state
    }

    /// Number of resets.
    pub(crate) fn resets(&self) -> u32 {
        self.resets
    }

    pub(crate) fn number(&self) -> QueuePairNumber {
        self.setup.number
    }

    pub(crate) fn destination(&self) -> IpAddr {
        self.setup.destination
    }

    pub(crate) fn destination_qp(&self) -> QueuePairNumber {
        self.setup.destination_qp
    }

    pub(crate) fn source_port(&self) -> u16 {
        source_port(self.setup.number, self.setup.destination_qp)
    }

    pub(crate) fn information(&self) -> QueuePairInformation {
        QueuePairInformation {
            state: self.state,
            attributes: self.attributes,
            access: self.setup.access,
            destination: self.setup.destination,
            destination_qp_num: self.setup.destination_qp,
            path_mtu_bytes: self.setup.mtu,
            sq_psn: psn::wire(self.requester.next_to_send()),
            rq_psn: psn::wire(self.responder.expected()),
            send_queued: self.requester.queued(),
            receive_queued: self.responder.queued(),
            window: self.requester.window(),
        }
    }

    pub(crate) fn modify(
        &mut self,
        change: Modify,
        congestion: impl FnOnce() -> Box<dyn CongestionControl>,
        shared: &mut Shared,
    ) -> Result<(), ApiError> {
        use QueuePairState::{Init, ReadyToReceive, ReadyToSend, Reset};
        let setup = &mut self.setup;
        match (change, self.state) {
            (Modify::Reset, _) => self.reset(shared),
            (Modify::Error, _) => {
                self.responder.forget_output();
                self.enter_error(None, shared);
            }
            (Modify::Init { access }, Reset | Init) => {
                setup.access = access;
                self.state = Init;
            }
            (Modify::Access(access), Init | ReadyToReceive | ReadyToSend) => setup.access = access,
            (Modify::ReadyToReceive(path), Init) => {
                setup.destination = path.destination;
                setup.destination_qp = path.destination_qp_num;
                setup.mtu = path.path_mtu.bytes();
                setup.max_dest_rd_atomic = usize::from(path.max_dest_rd_atomic);
                setup.min_rnr_timer = path.min_rnr_timer;
                self.responder.start(path.rq_psn, setup.max_dest_rd_atomic);
                self.state = ReadyToReceive;
            }
            (Modify::ReadyToSend(limits), ReadyToReceive) => {
                setup.timeout = local_ack_timeout(limits.timeout);
                setup.retry_cnt = limits.retry_cnt;
                setup.rnr_retry = limits.rnr_retry;
                setup.max_rd_atomic = usize::from(limits.max_rd_atomic);
                self.requester.start(limits.sq_psn, setup, congestion());
                self.rate = ReactionPoint::default();
                self.state = ReadyToSend;
            }
            _ => return Err(self.wrong_state()),
        }
        Ok(())
    }

    /// Drops all requests without completions.
    pub(crate) fn reset(&mut self, shared: &mut Shared) {
        let requests = self.requester.clear() + self.responder.clear(shared);
        shared.completions.release(requests);
        self.rate = ReactionPoint::default();
        self.marks = NotificationPoint::default();
        self.state = QueuePairState::Reset;
        self.resets = self.resets.wrapping_add(1);
    }

    pub(crate) fn post_send(&mut self, request: WorkRequest, shared: &mut Shared) -> Result<(), ApiError> {
        match self.state {
            QueuePairState::ReadyToSend | QueuePairState::Error => {}
            _ => return Err(self.wrong_state()),
        }
        self.requester.post(request, &self.setup, shared)?;
        if self.state == QueuePairState::Error {
            self.requester.flush(None, &self.setup, shared);
        }
        Ok(())
    }

    /// Makes the queue pair take its receive requests from a shared queue from now on.
    pub(crate) fn share_receives(&mut self, source: SharedReceiveQueueNumber) {
        self.responder.share(source);
    }

    pub(crate) fn post_receive(
        &mut self,
        request: ReceiveRequest,
        shared: &mut Shared,
    ) -> Result<(), ApiError> {
        if self.state == QueuePairState::Reset {
            return Err(self.wrong_state());
        }
        self.responder.post(request, shared)?;
        if self.state == QueuePairState::Error {
            self.responder.flush(&self.setup, shared);
        }
        Ok(())
    }

    /// Handles a packet. Returns whether its sender must be notified that the packet was marked.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        source: IpAddr,
        packet: &Packet<'_>,
        marked: bool,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> bool {
        use QueuePairState::{ReadyToReceive, ReadyToSend};
        let response = !packet.bth.opcode.is_request();
        match self.state {
            ReadyToSend => {}
            ReadyToReceive if !response => {}
            _ => {
                shared.counters.drop_wrong_state += 1;
                return false;
            }
        }
        if self.setup.destination != source {
            shared.counters.drop_wrong_source += 1;
            return false;
        }
        if packet.bth.opcode.is_congestion_notification() {
            shared.counters.congestion_marks += 1;
            self.requester.on_mark(now);
            if shared.rate_control {
                self.rate.on_notification(now);
            }
            return false;
        }
        shared.counters.congestion_marks += u64::from(marked);
        if response {
            if let Err(fault) = self.requester.receive(now, packet, &self.setup, shared, memory) {
                self.enter_error(Some(fault), shared);
            }
        } else if self.responder.receive(packet, &self.setup, shared, memory).is_err() {
            self.enter_error(None, shared);
        }
        marked && self.marks.on_marked(now)
    }

    /// Whether [`QueuePair::transmit`] has a packet to make.
    #[inline]
    pub(crate) fn wants_to_send(&self) -> bool {
        self.responder.has_output() || self.requester_ready()
    }

    /// Makes at most one packet, and returns its kind.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
        out: &mut impl PacketSink,
    ) -> Sent {
        if self.responder.has_output() && (self.responder_turn || !self.requester_ready()) {
            self.responder_turn = false;
            match self.responder.transmit(&self.setup, shared, memory, out) {
                Ok(true) => Sent::Response,
                Ok(false) => Sent::Nothing,
                Err(_) => {
                    self.enter_error(None, shared);
                    Sent::Nothing
                }
            }
        } else if self.requester_ready() {
            self.responder_turn = true;
            let before = out.bytes();
            match self.requester.transmit(now, &self.setup, shared, memory, out) {
                Ok(true) => {
                    self.rate.on_sent(now, (out.bytes() - before) as u32);
                    Sent::Request
                }
                Ok(false) => Sent::Nothing,
                Err(fault) => {
                    self.enter_error(Some(fault), shared);
                    Sent::Nothing
                }
            }
        } else {
            Sent::Nothing
        }
    }

    /// Whether the next packet differs in length from the last one because one of them is the first of a
    /// message.
    #[inline]
    pub(crate) fn is_next_to_first_packet(&self) -> bool {
        self.requester.is_next_to_first_packet()
    }

    /// When [`QueuePair::handle_deadline`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.requester.deadline().into_iter().chain(self.rate.deadline()).min()
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant, shared: &mut Shared) {
        self.rate.handle_deadline(now);
        if let Err(fault) = self.requester.handle_deadline(now, shared) {
            self.enter_error(Some(fault), shared);
        }
    }

    #[inline]
    fn requester_ready(&self) -> bool {
        self.state == QueuePairState::ReadyToSend
            && !self.rate.is_blocked()
            && self.requester.ready(&self.setup)
    }

    /// Enters the ERROR state and ends all requests: the oldest work request with `fault`, if there is one,
    /// the others as flushed.
    fn enter_error(&mut self, fault: Option<Fault>, shared: &mut Shared) {
        self.state = QueuePairState::Error;
        self.rate = ReactionPoint::default();
        self.requester.flush(fault, &self.setup, shared);
        self.responder.flush(&self.setup, shared);
    }

    fn wrong_state(&self) -> ApiError {
        ApiError::WrongState { queue_pair: self.setup.number, state: self.state }
    }
}
