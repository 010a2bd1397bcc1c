//! Measures how many cycles a 64-byte WRITE takes between two cards on a link of length zero.
//!
//! Two models are clocked in lock step without MAC and PHY: a beat that one card sends reaches the other in
//! the next cycle. The cards are otherwise idle, and the data is read from the sender's on-chip memory. Services and
//! PSP can be on the path ([`OnPath`]).

use std::fmt::Write;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use weft_nic::{HostCommand, Nic, RdmaDriver};
use weft_time::Instant;
use weft_verbs::{
    AccessFlags, LocalBuffer, Operation, PathMtu, ProtectionDomain, QueuePairAttributes, ReadyToReceive,
    ReadyToSend, Region, RemoteAddress, Target, WorkRequest,
};
use weft_wire::ethernet::MacAddress;

use crate::axi::Latency;
use crate::{CYCLE, OnPath, RtlNic, RtlNicConfig};

/// Bytes of the WRITE.
const BYTES: usize = 64;

/// Number of WRITEs, each posted when its predecessor has completed. The slowest is reported.
const MESSAGES: u64 = 8;

/// Durations of one WRITE in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteLatency {
    /// From the post at the sender's host port until the data is visible at the target.
    pub post_to_visible: u64,
    /// From the first beat at the sender's MAC side until the data is visible at the target.
    pub wire_to_visible: u64,
    /// From the post until the first beat of the acknowledgement arrives at the sender's MAC side.
    pub post_to_acknowledgement: u64,
    /// From the post until the completion at the sender's host port.
    pub post_to_completion: u64,
}

/// WRITEs to each kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteLatencies {
    /// To the register file.
    pub register: WriteLatency,
    /// To on-chip memory.
    pub on_chip: WriteLatency,
    /// To HBM behind AXI4.
    pub hbm: WriteLatency,
    /// The part of `hbm` that the memory takes, from a write's last word to its response. This is a parameter
    /// of the model, not a property of the gateware.
    pub hbm_model_write: u64,
}

impl WriteLatencies {
    /// A table in cycles and nanoseconds, next to SafarDB's table C.1.
    pub fn to_text(&self) -> String {
        let ns = |cycles: u64| (CYCLE * cycles).as_ns();
        let mut text = String::from(
            "64-byte WRITE, link of length zero, no MAC and PHY, source on chip, cycles at 250 MHz:\n\
             target    wire to visible    SafarDB C.1  post to visible    post to ack        post to completion\n",
        );
        let rows = [("register", self.register, 285), ("on chip", self.on_chip, 309), ("HBM", self.hbm, 413)];
        for (name, latency, published) in rows {
            let _ = write!(text, "{name:<9}");
            let WriteLatency {
                post_to_visible,
                wire_to_visible,
                post_to_acknowledgement,
                post_to_completion,
            } = latency;
            let both = |cycles| format!("{cycles} ({} ns)", ns(cycles));
            let _ = writeln!(
                text,
                " {:<18} {:<12} {:<18} {:<18} {}",
                both(wire_to_visible),
                format!("{published} ns"),
                both(post_to_visible),
                both(post_to_acknowledgement),
                both(post_to_completion),
            );
        }
        let _ = writeln!(
            text,
            "the HBM model takes {} cycles ({} ns) of it",
            self.hbm_model_write,
            ns(self.hbm_model_write)
        );
        text
    }
}

/// Measures WRITEs to each kind of memory. `hbm` is the modelled latency of HBM and of the retransmission
/// buffer, which is in HBM.
pub fn measure(hbm: Latency) -> WriteLatencies {
    let write = |target| Joined::new(hbm, target, &OnPath::Nothing).slowest();
    WriteLatencies {
        register: write(Target::Register),
        on_chip: write(Target::OnChip),
        hbm: write(Target::Hbm),
        hbm_model_write: hbm.write_cycles,
    }
}

/// Measures WRITEs to on-chip memory between cards with this on their path.
///
/// # Panics
/// If the gates cannot run the pipeline.
pub fn measure_on_path(hbm: Latency, on_path: &OnPath) -> WriteLatency {
    Joined::new(hbm, Target::OnChip, on_path).slowest()
}

/// A sender and a receiver.
struct Joined<'a> {
    nics: [RtlNic; 2],
    target: Target,
    on_path: &'a OnPath,
    cycle: u64,
}

fn station(end: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, 1 + end as u8])
}

fn address(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + end as u8)
}

impl<'a> Joined<'a> {
    fn new(hbm: Latency, target: Target, on_path: &'a OnPath) -> Self {
        let nics = [0, 1].map(|end| {
            let mut nic = RtlNic::new(&on_path.on_card(RtlNicConfig {
                hardware: station(end),
                address: address(end),
                transport: weft_rdma::Config::default(),
                region_bytes: 4_096,
                bits_per_s: 100_000_000_000,
                hbm,
                host: hbm,
                pressure: None,
                power_on_seed: 0,
                psp: None,
                services: false,
                engine: None,
            }));
            nic.add_neighbour(address(1 - end), station(1 - end));
            on_path.associate(&mut nic, address(end), address(1 - end));
            nic
        });
        Self { nics, target, on_path, cycle: 1 }
    }

    fn slowest(mut self) -> WriteLatency {
        let attributes = QueuePairAttributes { domain: ProtectionDomain(0), max_send_wr: 8, max_recv_wr: 8 };
        let region = |target| Region { target, ..Region::host(0, 512, AccessFlags::ALL) };
        let expected = "a new card has room";
        let local = self.nics[0].register_region(region(Target::OnChip)).expect(expected);
        let remote = self.nics[1].register_region(region(self.target)).expect(expected);
        let numbers = self.nics.each_mut().map(|nic| nic.create_queue_pair(attributes).expect(expected));
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
            let connected = self.nics[end].connect(numbers[end], AccessFlags::ALL, receive, send);
            connected.expect("the neighbour is known");
        }
        self.on_path.serve(&mut self.nics[1], &numbers[1..]).expect("the gates can run the pipeline");
        let mut slowest = WriteLatency::default();
        for message in 0..MESSAGES {
            let bytes: Vec<u8> = (0..BYTES as u64).map(|index| (index * 7 + message * 29) as u8).collect();
            self.nics[0].memory().write(Target::OnChip, 0, &bytes).expect("it is that large");
            let remote = RemoteAddress { address: 64 * message, rkey: remote.rkey };
            let local = LocalBuffer { address: 0, length: BYTES as u32, lkey: local.lkey };
            let request = WorkRequest::new(message, Operation::Write { remote, immediate: None }, local);
            self.nics[0].submit(Instant::ZERO, HostCommand::PostSend(numbers[0], request));
            let latency = self.follow();
            let arrived = self.nics[1].memory().read(self.target, remote.address, BYTES);
            assert_eq!(arrived, Ok(&self.on_path.stored(&bytes)[..]), "{:?}", self.target);
            slowest = WriteLatency {
                post_to_visible: slowest.post_to_visible.max(latency.post_to_visible),
                wire_to_visible: slowest.wire_to_visible.max(latency.wire_to_visible),
                post_to_acknowledgement: slowest.post_to_acknowledgement.max(latency.post_to_acknowledgement),
                post_to_completion: slowest.post_to_completion.max(latency.post_to_completion),
            };
        }
        slowest
    }

    /// Clocks both cards until the request just posted has completed.
    ///
    /// # Panics
    /// If the request does not complete.
    fn follow(&mut self) -> WriteLatency {
        let begin = self.cycle;
        let mut on_link = [None; 2];
        let (mut sent, mut placed, mut acknowledged) = (None, None, None);
        // Far more cycles than it takes.
        while self.cycle < begin + 10_000 {
            let received = on_link;
            for end in 0..2 {
                on_link[end] = self.nics[end].board().tick_joined(self.cycle, received[1 - end].as_ref());
            }
            let cycle = self.cycle;
            self.cycle += 1;
            if on_link[0].is_some() {
                sent.get_or_insert(cycle);
            }
            if self.nics[1].board().has_placed() {
                // Reads see the data from the next cycle on.
                placed.get_or_insert(cycle + 1);
            }
            if received[1].is_some() {
                acknowledged.get_or_insert(cycle);
            }
            if self.nics[0].board().completions.pop_front().is_some() {
                let times = sent.zip(placed).zip(acknowledged);
                let ((sent, placed), acknowledged) = times.expect("a completion comes after all that");
                return WriteLatency {
                    post_to_visible: placed - begin,
                    wire_to_visible: placed - sent,
                    post_to_acknowledgement: acknowledged - begin,
                    post_to_completion: cycle - begin,
                };
            }
        }
        panic!("gateware: a WRITE does not complete on a link of length zero")
    }
}

#[cfg(all(test, feature = "models"))]
mod tests {
    use super::*;

    #[test]
    fn a_slower_memory_shows_in_its_row_alone() {
        let of = |write_cycles| measure(Latency { read_cycles: 40, write_cycles });
        let (fast, slow) = (of(20), of(50));
        assert_eq!((fast.register, fast.on_chip), (slow.register, slow.on_chip));
        assert_eq!(slow.hbm.wire_to_visible - fast.hbm.wire_to_visible, 30);
        assert!(fast.register.wire_to_visible < fast.register.post_to_visible);
        assert!(fast.register.post_to_visible < fast.register.post_to_acknowledgement);
        assert!(fast.register.post_to_acknowledgement < fast.register.post_to_completion);
        assert!(fast.to_text().contains("285 ns"));
    }
}
