//! Measures the card's transport between MAC and HBM, as NIC-KV's tables 5.3 and 5.4 do.

use serde::{Deserialize, Serialize};
use weft_gateware::lock_step::{Act, LockStep, Observation};
use weft_gateware::{Latency, RtlNicConfig};
use weft_harness::gateware;
use weft_harness::{address, hardware};
use weft_nic::{HostCommand, Nic, RdmaDriver};
use weft_time::Instant;
use weft_verbs::{
    AccessFlags, LocalBuffer, Operation, PathMtu, ProtectionDomain, QueuePairAttributes, QueuePairNumber,
    ReadyToReceive, ReadyToSend, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};

use super::NicKvError;
use super::passages::BEAT_BYTES;

/// Bytes of each memory region.
const REGION_BYTES: usize = 8_192;

/// Cycles to wait between requests; after these, nothing of the previous request is in flight.
const SETTLE: u64 = 600;

/// Limit of a simulation in cycles, far above the length of any request here.
const LIMIT: u64 = 100_000;

/// Bytes of a READ response besides its payload: Ethernet, IPv4, UDP, BTH, AETH and ICRC.
const RESPONSE_OVERHEAD: usize = 14 + 20 + 8 + 12 + 4 + 4;

/// Cycles that a message of one packet takes at the card whose memory it accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HbmAccess {
    /// Payload of the message in bytes.
    pub bytes: u32,
    /// Cycles of a WRITE: from the last beat of the incoming packet to the first beat of its acknowledgement.
    pub write_cycles: u64,
    /// The memory model's part of the WRITE's cycles: from the last word to the response.
    pub write_memory_cycles: u64,
    /// Cycles of a READ: from the last beat of the request to the last beat of the response.
    pub read_cycles: u64,
    /// The memory model's part of the READ's cycles: from the address to the first word.
    pub read_memory_cycles: u64,
}

/// Two cards that are connected by a queue pair.
struct Pair {
    cards: LockStep,
    number: QueuePairNumber,
    local: RegionKeys,
    remote: RegionKeys,
    requests: u64,
}

impl Pair {
    fn new(memory: Latency) -> Self {
        let config = |node| RtlNicConfig {
            region_bytes: REGION_BYTES,
            hbm: memory,
            ..gateware::card(hardware(node), address(node))
        };
        let mut cards = LockStep::new(&[config(0), config(1)], &[]);
        let attributes = QueuePairAttributes { domain: ProtectionDomain(0), max_send_wr: 8, max_recv_wr: 8 };
        let region = Region { target: Target::Hbm, ..Region::host(0, REGION_BYTES as u64, AccessFlags::ALL) };
        let expected = "a new card has room";
        let [local, remote] = [0, 1].map(|end| cards.nic(end).register_region(region).expect(expected));
        let numbers = [0, 1].map(|end| cards.nic(end).create_queue_pair(attributes).expect(expected));
        for end in 0..2 {
            let receive = ReadyToReceive {
                destination: address(1 - end).into(),
                destination_qp_num: numbers[1 - end],
                rq_psn: 0,
                path_mtu: PathMtu::Bytes4096,
                max_dest_rd_atomic: 16,
                min_rnr_timer: 12,
            };
            let send = ReadyToSend { sq_psn: 0, timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 16 };
            let connected = cards.nic(end).connect(numbers[end], AccessFlags::ALL, receive, send);
            connected.expect("the neighbour is known");
        }
        Self { cards, number: numbers[0], local, remote, requests: 0 }
    }

    /// Posts a request at card 0 and waits until card 0 has received a frame.
    fn run(&mut self, operation: Operation, bytes: u32) -> Result<Vec<Observation>, NicKvError> {
        for _ in 0..SETTLE {
            self.cards.step();
        }
        // Removes the completion of the previous request.
        self.cards.status(0);
        self.cards.take_observations();
        self.requests += 1;
        let local = LocalBuffer { address: 0, length: bytes, lkey: self.local.lkey };
        let request = WorkRequest::new(self.requests, operation, local);
        self.cards.nic(0).submit(Instant::ZERO, HostCommand::PostSend(self.number, request));
        let mut observations = Vec::new();
        for _ in 0..LIMIT {
            self.cards.step();
            observations.extend(self.cards.take_observations());
            if observations.iter().any(|seen| seen.card == 0 && seen.act == Act::FrameIn) {
                return Ok(observations);
            }
        }
        Err(NicKvError::Unanswered)
    }
}

fn cycle(seen: &[Observation], card: usize, act: Act) -> Result<u64, NicKvError> {
    let found = seen.iter().find(|seen| seen.card == card && seen.act == act);
    found.map(|seen| seen.cycle).ok_or(NicKvError::Unseen("frame of the transport"))
}

/// Measures messages of these sizes on idle cards: two WRITEs and two READs for each size, of which the
/// slower counts.
pub(super) fn measure(memory: Latency, sizes: &[u32]) -> Result<Vec<HbmAccess>, NicKvError> {
    let mut pair = Pair::new(memory);
    let remote = RemoteAddress { address: 0, rkey: pair.remote.rkey };
    let mut accesses = Vec::new();
    for &bytes in sizes {
        let (mut write, mut read) = (0, 0);
        for _ in 0..2 {
            let seen = pair.run(Operation::Write { remote, immediate: None }, bytes)?;
            write = write.max(cycle(&seen, 1, Act::FrameOut)? - cycle(&seen, 1, Act::FrameIn)?);
            let seen = pair.run(Operation::Read { remote }, bytes)?;
            // A response reaches the other card when its last beat has left, and enters beat by beat from the next
            // cycle on.
            let beats = (bytes as usize + RESPONSE_OVERHEAD).div_ceil(BEAT_BYTES) as u64;
            let left = cycle(&seen, 0, Act::FrameIn)? - beats;
            read = read.max(left - cycle(&seen, 1, Act::FrameIn)?);
        }
        accesses.push(HbmAccess {
            bytes,
            write_cycles: write,
            write_memory_cycles: memory.write_cycles,
            read_cycles: read,
            read_memory_cycles: memory.read_cycles,
        });
    }
    Ok(accesses)
}
