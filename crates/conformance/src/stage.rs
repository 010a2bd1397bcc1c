//! Two NICs and the wire between them; frames are delivered one at a time.
//!
//! After a frame is delivered, its receiver gets as much time as it needs to finish all consequences. So the
//! result depends only on the order of the frames, and not on the depth of a pipeline, and twins can be
//! compared frame by frame.

use std::collections::VecDeque;
use std::net::IpAddr;

use weft_time::Instant;
use weft_verbs::{
    AccessFlags, ApiError, LocalBuffer, Modify, PathMtu, QueuePairNumber, ReadyToReceive, ReadyToSend,
    ReceiveRequest, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};

use crate::twin::{Kind, MEMORY_BYTES, Options, REGISTER_BYTES, Twin, address};

/// Parameters of a connection between two queue pairs.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Path MTU.
    pub path_mtu: PathMtu,
    /// First PSN in each direction.
    pub psn: [u32; 2],
    /// Code of the local acknowledgement time-out.
    pub timeout: u8,
    /// Maximum number of retries.
    pub retry_cnt: u8,
    /// Maximum number of retries after RNR NAKs.
    pub rnr_retry: u8,
    /// Timer code of RNR NAKs.
    pub min_rnr_timer: u8,
    /// Outstanding READs and atomics, in each direction.
    pub rd_atomic: u8,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            path_mtu: PathMtu::Bytes256,
            psn: [100, 500],
            timeout: 8,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            rd_atomic: 4,
        }
    }
}

impl Connection {
    /// The attributes of a queue pair on one side.
    pub const fn attributes(&self, side: usize, peer: QueuePairNumber) -> (ReadyToReceive, ReadyToSend) {
        let receive = ReadyToReceive {
            destination: IpAddr::V4(address(1 - side)),
            destination_qp_num: peer,
            rq_psn: self.psn[1 - side],
            path_mtu: self.path_mtu,
            max_dest_rd_atomic: self.rd_atomic,
            min_rnr_timer: self.min_rnr_timer,
        };
        let send = ReadyToSend {
            sq_psn: self.psn[side],
            timeout: self.timeout,
            retry_cnt: self.retry_cnt,
            rnr_retry: self.rnr_retry,
            max_rd_atomic: self.rd_atomic,
        };
        (receive, send)
    }
}

/// Two NICs with one connected queue pair each, and a region that covers all of their host memory.
#[derive(Debug)]
pub struct Stage {
    /// The NICs.
    pub twins: [Twin; 2],
    /// The queue pair of each NIC.
    pub queue_pairs: [QueuePairNumber; 2],
    /// The keys of the region over each NIC's host memory.
    pub keys: [RegionKeys; 2],
    /// Frames that wait for the wire, by sending side.
    pub outbox: [VecDeque<Vec<u8>>; 2],
    now: Instant,
}

impl Stage {
    /// Creates two NICs of these kinds; side 0 is the first.
    ///
    /// # Panics
    /// If a NIC refuses the set-up.
    pub fn new(kinds: [Kind; 2], connection: &Connection, options: Options) -> Self {
        let mut twins = [0, 1].map(|side| Twin::new(kinds[side], side, options));
        let region = Region::host(0, MEMORY_BYTES as u64, AccessFlags::ALL);
        let keys = [0, 1].map(|side: usize| twins[side].driver().register_region(region).expect("room"));
        let queue_pairs = [0, 1].map(|side: usize| twins[side].create_queue_pair().expect("room"));
        for side in 0..2 {
            let (receive, send) = connection.attributes(side, queue_pairs[1 - side]);
            let number = queue_pairs[side];
            twins[side].driver().connect(number, AccessFlags::ALL, receive, send).expect("legal");
            // Recognisable content, different on each side.
            let image: Vec<u8> =
                (0..MEMORY_BYTES).map(|index| (index * 7 + index / 256 + 100 * side) as u8).collect();
            twins[side].fill(Target::Host, 0, &image);
            // A reset of the gateware does not clear these memories.
            twins[side].fill(Target::OnChip, 0, &[0; MEMORY_BYTES]);
            twins[side].fill(Target::Register, 0, &[0; REGISTER_BYTES]);
        }
        let now = Instant::ZERO;
        let mut stage = Self { twins, queue_pairs, keys, outbox: Default::default(), now };
        for side in 0..2 {
            stage.settle(side);
        }
        stage
    }

    /// The current time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Advances the time of both sides.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Lets one side run until it is quiet.
    pub fn settle(&mut self, side: usize) {
        let twin = &mut self.twins[side];
        twin.settle(self.now);
        self.now = self.now.max(twin.now());
        self.outbox[side].extend(twin.take_frames());
    }

    /// Delivers a frame to one side and lets that side finish all consequences.
    pub fn deliver(&mut self, side: usize, frame: &[u8]) {
        self.twins[side].receive(self.now, frame);
        self.settle(side);
    }

    /// Posts a work request on one side and lets that side finish all consequences.
    pub fn post(&mut self, side: usize, request: WorkRequest) {
        let number = self.queue_pairs[side];
        self.twins[side].post_send(self.now, number, request);
        self.settle(side);
    }

    /// Posts a receive request on one side.
    ///
    /// # Errors
    /// Like [`weft_nic::RdmaDriver::post_receive`].
    pub fn post_receive(&mut self, side: usize, request: ReceiveRequest) -> Result<(), ApiError> {
        let number = self.queue_pairs[side];
        self.twins[side].post_receive(number, request)?;
        self.settle(side);
        Ok(())
    }

    /// Modifies the queue pair of one side.
    ///
    /// # Errors
    /// Like [`weft_nic::RdmaDriver::modify_queue_pair`].
    pub fn modify(&mut self, side: usize, change: Modify) -> Result<(), ApiError> {
        let number = self.queue_pairs[side];
        self.twins[side].driver().modify_queue_pair(number, change)?;
        self.settle(side);
        Ok(())
    }

    /// The earlier of both sides' next deadlines.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.twins.iter_mut().filter_map(Twin::next_deadline).min()
    }

    /// A buffer in one side's host memory, for that side's requests.
    pub const fn local(&self, side: usize, address: u64, length: u32) -> LocalBuffer {
        LocalBuffer { address, length, lkey: self.keys[side].lkey }
    }

    /// An address in one side's host memory, for its peer's requests.
    pub const fn remote(&self, side: usize, address: u64) -> RemoteAddress {
        RemoteAddress { address, rkey: self.keys[side].rkey }
    }

    /// Delivers frames without faults until neither side sends any. Timers do not expire.
    pub fn exchange(&mut self) {
        loop {
            let Some(side) = (0..2).find(|side| !self.outbox[*side].is_empty()) else { return };
            let frame = self.outbox[side].pop_front().expect("not empty");
            self.deliver(1 - side, &frame);
        }
    }
}
