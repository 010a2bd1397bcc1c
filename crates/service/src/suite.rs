//! The test suite that every implementation of services must pass, in software and in gateware.
//!
//! [`check`] drives a [`Path`] and compares it with the software [`Services`] and with the guarantees of the
//! shapes. It stops at the first violation and describes it.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::inspect::Scan;
use crate::path::{Outcome, Packet, Path};
use crate::services::{Action, MapKind, Services, Setting, TapKind};
use crate::shapes::{Direction, Flow, QUEUE_PAIRS, Tap};

/// Sizes at and near the boundaries of words, beats and packets.
const SIZES: [usize; 16] = [1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 255, 256, 1_024, 4_095, 4_096];

/// Number of bytes of a beat.
const LANES: u64 = 64;

/// A violated guarantee.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{promise}: {what}")]
pub struct Finding {
    /// The guarantee.
    pub promise: &'static str,
    /// The observed violation.
    pub what: String,
}

/// Amount of testing that the suite has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of packets that were passed.
    pub packets: u64,
    /// Number of bytes of those packets.
    pub bytes: u64,
}

/// A path under test, its reference in software, and the random numbers of the run.
struct Bench<'a, P> {
    path: &'a mut P,
    twin: Services,
    chance: Xoshiro256PlusPlus,
    report: Report,
}

/// Tests a path for all guarantees, with `setting` on the flows that have a service. The path must be in the
/// state after reset.
///
/// # Errors
/// The first violated guarantee.
pub fn check(path: &mut impl Path, setting: Setting, seed: u64) -> Result<Report, Finding> {
    check_beside(path, Services::new(), setting, seed)
}

/// As [`check`], for a path that has loaded the same pipelines as `twin`. No flow of `twin` has a service
/// yet.
///
/// # Errors
/// The first violated guarantee.
pub fn check_beside(
    path: &mut impl Path,
    twin: Services,
    setting: Setting,
    seed: u64,
) -> Result<Report, Finding> {
    let chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut bench = Bench { path, twin, chance, report: Report::default() };
    bench.identity()?;
    bench.sizes_and_alignments(setting)?;
    bench.cuts(setting)?;
    bench.retransmission(setting)?;
    bench.queue_pairs(setting)?;
    bench.reconfiguration(setting)?;
    bench.actions(setting)?;
    Ok(bench.report)
}

/// Returns an error if `kept` is false.
fn require(promise: &'static str, kept: bool, what: impl FnOnce() -> String) -> Result<(), Finding> {
    if kept { Ok(()) } else { Err(Finding { promise, what: what() }) }
}

impl<P: Path> Bench<'_, P> {
    fn below(&mut self, bound: u64) -> u64 {
        self.chance.next_u64() % bound
    }

    fn random(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.chance.fill_bytes(&mut bytes);
        bytes
    }

    /// The payload of a packet for a flow with `setting`.
    fn payload(&mut self, setting: Setting, length: usize) -> Vec<u8> {
        match (setting.tap, self.below(3)) {
            (TapKind::Inspect, 0) => self.repetitive(length),
            (TapKind::Inspect, 1) => self.like_code(length),
            _ => self.random(length),
        }
    }

    /// Random bytes, many of which were there shortly before.
    fn repetitive(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = self.random(length);
        for at in 1..length {
            let back = 1 + self.below(24) as usize;
            if back <= at && self.below(4) > 0 {
                bytes[at] = bytes[at - back];
            }
        }
        bytes
    }

    /// Bytes that the inspection takes for code: the best of a few random bytes, again and again. Only a part
    /// of them, so that scores rise and fall.
    fn like_code(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = self.random(length);
        let mut scan = Scan::new();
        let candidates = 1 + self.below(6);
        for (at, byte) in bytes.iter_mut().enumerate() {
            if at % 512 < 300 {
                let random = (0..candidates).map(|_| self.chance.next_u64() as u8);
                *byte = random.max_by_key(|byte| scan.score_of(*byte)).unwrap_or(*byte);
            }
            scan.push(&[*byte]);
        }
        bytes
    }

    fn flow(&mut self) -> Flow {
        let direction = if self.below(2) == 0 { Direction::Receive } else { Direction::Transmit };
        Flow { queue_pair: self.below(QUEUE_PAIRS.into()) as u16, direction }
    }

    fn configure(&mut self, flow: Flow, setting: Setting) {
        self.path.configure(flow, setting);
        self.twin.configure(flow, setting);
    }

    /// Passes packets without a pause, and compares each output with that of the reference.
    fn pass(&mut self, promise: &'static str, packets: &[Packet]) -> Result<Vec<Outcome>, Finding> {
        let found = self.path.pass(packets);
        let expected = Path::pass(&mut self.twin, packets);
        self.report.packets += packets.len() as u64;
        self.report.bytes += packets.iter().map(|packet| packet.bytes.len() as u64).sum::<u64>();
        require(promise, found.len() == expected.len(), || {
            format!("{} packets went in, {} came out", packets.len(), found.len())
        })?;
        for (packet, (found, expected)) in packets.iter().zip(found.iter().zip(&expected)) {
            let Packet { flow, offset, bytes } = packet;
            let place = || format!("{flow:?}, {} bytes at offset {offset}", bytes.len());
            require(promise, found.bytes.len() == bytes.len(), || {
                format!("{}: {} bytes came out", place(), found.bytes.len())
            })?;
            let differs = found.bytes.iter().zip(&expected.bytes).position(|(a, b)| a != b);
            require(promise, differs.is_none(), || {
                let at = differs.unwrap_or_default();
                let [was, is, twin] = [bytes[at], found.bytes[at], expected.bytes[at]];
                format!("{}: byte {at} was {was:#04x} and became {is:#04x}, not {twin:#04x}", place())
            })?;
            require(promise, found.verdict == expected.verdict, || {
                format!("{}: verdict {}, not {}", place(), found.verdict, expected.verdict)
            })?;
        }
        if let Some(pace) = self.path.pace() {
            let expected = pace.beats + pace.latency;
            require("no bubbles", pace.cycles == expected, || {
                format!("{} beats took {} cycles, not {expected}", pace.beats, pace.cycles)
            })?;
        }
        Ok(found)
    }

    fn accept(&mut self, promise: &'static str, flow: Flow, verdict: u32) -> Result<bool, Finding> {
        let (found, expected) = (self.path.accept(flow, verdict), self.twin.accept(flow, verdict));
        require(promise, found == expected, || {
            format!("{flow:?}, verdict {verdict}: marked is {found}, and must be {expected}")
        })?;
        Ok(found)
    }

    fn readings(&mut self, promise: &'static str, flow: Flow) -> Result<(), Finding> {
        let (found, expected) = (self.path.reading(flow), self.twin.reading(flow));
        require(promise, found == expected, || format!("{flow:?}: the state is {found}, not {expected}"))
    }

    /// Without a configured service, payloads do not change.
    fn identity(&mut self) -> Result<(), Finding> {
        for size in SIZES {
            let packet = Packet { flow: self.flow(), offset: self.below(1 << 20), bytes: self.random(size) };
            let outcomes = self.pass("identity", std::slice::from_ref(&packet))?;
            require("identity", outcomes[0].bytes == packet.bytes, || "a byte changed".into())?;
            self.accept("identity", packet.flow, outcomes[0].verdict)?;
            self.readings("identity", packet.flow)?;
        }
        Ok(())
    }

    /// Tests all alignments with the sizes near boundaries, and all sizes at some alignment.
    fn sizes_and_alignments(&mut self, setting: Setting) -> Result<(), Finding> {
        let flow = self.flow();
        self.configure(flow, setting);
        let far = self.below(1 << 40) * LANES;
        for alignment in 0..LANES {
            let packet = |bytes| Packet { flow, offset: far + alignment, bytes };
            let packets: Vec<_> = SIZES.map(|size| self.payload(setting, size)).map(packet).into();
            self.pass("sizes and alignments", &packets)?;
        }
        let mut packets = Vec::new();
        for size in 1..=4_096 {
            packets.push(Packet { flow, offset: self.below(1 << 32), bytes: self.payload(setting, size) });
            if packets.len() == 64 {
                self.pass("sizes and alignments", &packets)?;
                packets.clear();
            }
        }
        Ok(())
    }

    /// The result of a message does not depend on how it is divided into packets.
    fn cuts(&mut self, setting: Setting) -> Result<(), Finding> {
        const PROMISE: &str = "independence of the path MTU";
        let flow = self.flow();
        self.configure(flow, setting);
        let message = self.payload(setting, 3 * 4_096 + 77);
        let mut first: Option<Vec<u8>> = None;
        for unit in [256, 512, 1_024, 2_048, 4_096] {
            let packets: Vec<_> = (0_u64..)
                .zip(message.chunks(unit))
                .map(|(index, bytes)| Packet { flow, offset: index * unit as u64, bytes: bytes.into() })
                .collect();
            let whole: Vec<u8> =
                self.pass(PROMISE, &packets)?.into_iter().flat_map(|outcome| outcome.bytes).collect();
            let first = first.get_or_insert_with(|| whole.clone());
            require(PROMISE, *first == whole, || format!("packets of {unit} bytes make another message"))?;
        }
        Ok(())
    }

    /// Retransmitted packets, from any position in a message, give the same result, and only accepted packets
    /// count.
    fn retransmission(&mut self, setting: Setting) -> Result<(), Finding> {
        const PROMISE: &str = "retransmission";
        let flow = self.flow();
        self.configure(flow, setting);
        let message = self.payload(setting, 20 * 1_024);
        let packets: Vec<_> = (0_u64..)
            .zip(message.chunks(1_024))
            .map(|(index, bytes)| Packet { flow, offset: index * 1_024, bytes: bytes.into() })
            .collect();
        let lossless = Path::pass(&mut self.twin, &packets);
        let mut accepted = 0;
        while accepted < packets.len() {
            // Go back to the missing packet. Some later packets are lost after this path.
            let sent = &packets[accepted..(accepted + 6).min(packets.len())];
            let outcomes = self.pass(PROMISE, sent)?;
            let arrives = 1 + self.below(sent.len() as u64) as usize;
            for (index, outcome) in (accepted..).zip(&outcomes[..arrives]) {
                require(PROMISE, *outcome == lossless[index], || format!("packet {index} changed"))?;
                self.accept(PROMISE, flow, outcome.verdict)?;
            }
            accepted += arrives;
            // A duplicate of an accepted packet is not accepted again.
            let again = self.below(accepted as u64) as usize;
            let outcomes = self.pass(PROMISE, &packets[again..=again])?;
            require(PROMISE, outcomes[0] == lossless[again], || format!("packet {again} changed"))?;
        }
        // The response of a repeated READ begins anywhere in the region.
        for _ in 0..64 {
            let start = self.below(message.len() as u64) as usize;
            let length = (1 + self.below(4_096) as usize).min(message.len() - start);
            let bytes = message[start..start + length].to_vec();
            self.pass(PROMISE, &[Packet { flow, offset: start as u64, bytes }])?;
        }
        self.readings(PROMISE, flow)
    }

    /// Packets of many queue pairs, one directly after the other, do not influence each other.
    fn queue_pairs(&mut self, setting: Setting) -> Result<(), Finding> {
        const PROMISE: &str = "no cross-talk between queue pairs";
        let mut flows = Vec::new();
        for queue_pair in [0, 1, 2, 255, 256, 511] {
            flows.extend(
                [Direction::Receive, Direction::Transmit].map(|direction| Flow { queue_pair, direction }),
            );
        }
        for (index, flow) in (0_u64..).zip(flows.clone()) {
            let own = Setting { value: setting.value.rotate_left(5 * index as u32) ^ index, ..setting };
            let own = match index % 4 {
                0 => Setting { map: MapKind::None, ..own },
                1 => Setting { tap: TapKind::None, ..own },
                2 => Setting::default(),
                _ => own,
            };
            self.configure(flow, own);
        }
        let mut packets = Vec::new();
        for _ in 0..400 {
            let flow = flows[self.below(flows.len() as u64) as usize];
            let size = [8, 64, 100, 300][self.below(4) as usize];
            let bytes = self.payload(setting, size);
            packets.push(Packet { flow, offset: self.below(1 << 16), bytes });
        }
        let outcomes = self.pass(PROMISE, &packets)?;
        for (packet, outcome) in packets.iter().zip(&outcomes) {
            if self.below(4) > 0 {
                self.accept(PROMISE, packet.flow, outcome.verdict)?;
            }
        }
        flows.into_iter().try_for_each(|flow| self.readings(PROMISE, flow))
    }

    /// A new setting takes effect from the next packet on, with a state of 0.
    fn reconfiguration(&mut self, setting: Setting) -> Result<(), Finding> {
        const PROMISE: &str = "reconfiguration";
        let flow = self.flow();
        for round in 0..4 {
            self.configure(flow, Setting { value: setting.value ^ round, ..setting });
            self.readings(PROMISE, flow)?;
            let packets = [0, 64].map(|offset| Packet { flow, offset, bytes: self.random(64) });
            for outcome in self.pass(PROMISE, &packets)? {
                self.accept(PROMISE, flow, outcome.verdict)?;
            }
            self.readings(PROMISE, flow)?;
        }
        self.configure(flow, Setting::default());
        let packet = Packet { flow, offset: 0, bytes: self.random(64) };
        self.pass(PROMISE, &[packet])?;
        self.readings(PROMISE, flow)
    }

    /// A packet is marked if its level reaches the action's threshold, and only then.
    fn actions(&mut self, setting: Setting) -> Result<(), Finding> {
        const PROMISE: &str = "actions";
        let flow = self.flow();
        for length in [1, 64, 300, 1_024, 4_096] {
            for offset in [0, 4_096] {
                let packet = Packet { flow, offset, bytes: self.payload(setting, length) };
                let verdict = setting.tap.verdict(setting.value, offset, &packet.bytes);
                let level = setting.tap.level(verdict);
                let thresholds = [0, level.saturating_sub(1), level, level + 1, u32::MAX];
                let marks = thresholds.map(|threshold| Action::Mark { threshold });
                for action in marks.into_iter().chain([Action::None]) {
                    self.configure(flow, Setting { action, ..setting });
                    let outcomes = self.pass(PROMISE, std::slice::from_ref(&packet))?;
                    let marked = self.accept(PROMISE, flow, outcomes[0].verdict)?;
                    let expected = match action {
                        Action::None => false,
                        Action::Mark { threshold } => setting.tap != TapKind::None && level >= threshold,
                    };
                    require(PROMISE, marked == expected, || {
                        format!("{action:?} at level {level}: {marked}")
                    })?;
                    self.readings(PROMISE, flow)?;
                }
            }
        }
        Ok(())
    }
}
