//! Overload of the gateware's memories: a packet that finds no credit or buffer is dropped and counted, and
//! then retransmitted.

use weft_gateware::{Latency, Pressure};
use weft_time::Duration;
use weft_verbs::{AccessFlags, Operation, PathMtu, Region, RemoteAddress, Target, WorkRequest};

use crate::stage::{Connection, Stage};
use crate::twin::{Kind, Options};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const LOG: u64 = 0x8000;

/// Number of WRITEs: fewer packets than the window, but more than the receive buffer holds.
const WRITES: u64 = 60;

/// A memory that is too slow for the incoming data.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The memory.
    pub target: Target,
    /// Bytes of each WRITE.
    pub bytes: u32,
    /// The counter of packets that find no room.
    pub counter: &'static str,
    options: Options,
}

/// All cases.
pub const CASES: [Case; 3] = [
    // So slow that all credit is in use.
    Case {
        target: Target::Host,
        bytes: 4_096,
        counter: "drop_no_credit",
        options: Options {
            memory_latency: Some(Latency { read_cycles: 100, write_cycles: 20_000 }),
            pressure: None,
            power_on_seed: 0,
            reorder_packets: 0,
            read_parts: false,
            services: false,
        },
    },
    // So slow that payloads fill the receive buffer; this memory needs no credit.
    Case {
        target: Target::Hbm,
        bytes: 4_096,
        counter: "drop_receive_buffer_full",
        options: Options {
            memory_latency: None,
            pressure: Some(Pressure { seed: 1, stalls_of_256: 252 }),
            power_on_seed: 0,
            reorder_packets: 0,
            read_parts: false,
            services: false,
        },
    },
    // Equally slow, with small packets, of which the receive buffer holds many: their verdicts wait.
    Case {
        target: Target::Hbm,
        bytes: 64,
        counter: "placement_stall",
        options: Options {
            memory_latency: None,
            pressure: Some(Pressure { seed: 1, stalls_of_256: 252 }),
            power_on_seed: 0,
            reorder_packets: 0,
            read_parts: false,
            services: false,
        },
    },
];

/// 60 WRITEs to the same address arrive at the rate of the line, while the gateware's memory is slow. In the
/// end all data must be in memory.
///
/// # Errors
/// No packet was dropped for the expected reason, or the data is wrong in the end.
///
/// # Panics
/// If a NIC refuses the set-up.
pub fn check(case: &Case) -> Result<(), String> {
    let Case { target, bytes, counter, options } = *case;
    let connection = Connection { path_mtu: PathMtu::Bytes4096, timeout: 14, ..Connection::default() };
    let mut stage = Stage::new([Kind::Soft, Kind::Rtl], &connection, options);
    let region = Region { target, ..Region::host(LOG, bytes.into(), AccessFlags::ALL) };
    let keys = stage.twins[SERVER].driver().register_region(region).expect("room");
    let remote = RemoteAddress { address: LOG, rkey: keys.rkey };
    let local = stage.local(CLIENT, 0x1000, bytes);
    for id in 1..=WRITES {
        stage.post(CLIENT, WorkRequest::new(id, Operation::Write { remote, immediate: None }, local));
    }
    let frames: Vec<_> = stage.outbox[CLIENT].drain(..).collect();
    let mut now = stage.now();
    for frame in &frames {
        let server = &mut stage.twins[SERVER];
        server.receive(now, frame);
        now += Duration::from_ps(u64::from(bytes + 90) * 80);
        server.advance(now);
    }
    let dropped = stage.twins[SERVER].counter(counter);
    stage.advance(now);
    for side in [SERVER, CLIENT] {
        stage.settle(side);
    }
    for _ in 0..1_000 {
        stage.exchange();
        if stage.twins[CLIENT].take_completions().iter().any(|completion| completion.id == WRITES) {
            let source = stage.twins[CLIENT].image(Target::Host, 0x1000 + bytes as usize).split_off(0x1000);
            let end = LOG as usize + bytes as usize;
            let landed = stage.twins[SERVER].image(target, end).split_off(LOG as usize);
            return match (dropped > 0, landed == source) {
                (true, true) => Ok(()),
                (false, _) => Err(format!("{target:?}: {counter} is zero")),
                _ => Err(format!("{target:?}: other bytes")),
            };
        }
        let Some(next) = stage.next_deadline() else { break };
        stage.advance(next);
        for side in [CLIENT, SERVER] {
            stage.settle(side);
        }
    }
    Err(format!("{target:?}: the WRITEs do not end"))
}
