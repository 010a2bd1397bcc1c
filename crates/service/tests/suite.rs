//! Tests that the software services fulfil all guarantees, and that the suite detects violations.

use weft_service::inspect::{Inspect, Scan, Verdict};
use weft_service::preprocess::Pipeline;
use weft_service::{
    Action, Direction, Flow, MapKind, Outcome, Pace, Packet, Path, Resize, Services, Setting, TapKind, suite,
};

const BOTH: Setting = Setting {
    map: MapKind::Xor,
    tap: TapKind::Count,
    value: 0x0123_4567_89ab_cdef,
    action: Action::Mark { threshold: 90 },
};
const INSPECT: Setting = Setting {
    map: MapKind::None,
    tap: TapKind::Inspect,
    value: 0,
    action: Action::Mark { threshold: Inspect::THRESHOLD },
};
const PREPROCESS: Setting = Setting { map: MapKind::Preprocess, value: 0, ..BOTH };

#[test]
fn every_soft_service_keeps_the_promises() {
    for setting in [
        INSPECT,
        Setting::default(),
        Setting { tap: TapKind::None, ..BOTH },
        Setting { map: MapKind::None, ..BOTH },
        BOTH,
    ] {
        let report = suite::check(&mut Services::new(), setting, 1).unwrap();
        assert!(report.packets > 5_000 && report.bytes > 8_000_000, "{report:?}");
    }
}

/// The presets, and other pipelines, because the suite gives different values to neighbouring flows.
fn with_pipelines() -> Services {
    let mut services = Services::new();
    for name in Pipeline::PRESETS {
        services.load(Pipeline::preset(name).unwrap());
    }
    for modulus in 100..120 {
        let text =
            format!("row = {{ int32 = 5 }}\ncolumns.\"1..=3\" = [\"clamp -9 9\", \"modulus {modulus}\"]");
        services.load(text.parse().unwrap());
    }
    services
}

#[test]
fn preprocessing_keeps_the_promises() {
    for value in 0..4 {
        let setting = Setting { value, ..PREPROCESS };
        let report = suite::check_beside(&mut with_pipelines(), with_pipelines(), setting, 3).unwrap();
        assert!(report.packets > 5_000, "{report:?}");
    }
}

/// Planted bugs in a service or its path.
#[derive(Clone, Copy, Debug)]
enum Bug {
    ChangesAlways,
    StartsAnewWithEachPacket,
    OffsetOf16Bits,
    SkipsPartialBeats,
    ConvertsPartialValues,
    KeepsTheFormerFlow,
    ForgetsTheDirection,
    CountsOnSight,
    CountsTwice,
    KeepsTheState,
    KeepsTheFormerSetting,
    Shortens,
    Bubble,
    InspectsBeatsAlone,
    NeverFlags,
    BeginsNoMessage,
    MarksAbove,
    MarksAlways,
    MarksWithoutAction,
    MarksByAllBits,
}

/// The bugs, and the guarantee that each violates, whatever the map.
const BUGS: [(Bug, &str); 15] = [
    (Bug::ChangesAlways, "identity"),
    (Bug::StartsAnewWithEachPacket, "sizes and alignments"),
    (Bug::OffsetOf16Bits, "sizes and alignments"),
    (Bug::SkipsPartialBeats, "sizes and alignments"),
    (Bug::KeepsTheFormerFlow, "no cross-talk between queue pairs"),
    (Bug::ForgetsTheDirection, "no cross-talk between queue pairs"),
    (Bug::CountsOnSight, "retransmission"),
    (Bug::CountsTwice, "retransmission"),
    (Bug::KeepsTheState, "reconfiguration"),
    (Bug::KeepsTheFormerSetting, "reconfiguration"),
    (Bug::Shortens, "sizes and alignments"),
    (Bug::Bubble, "no bubbles"),
    (Bug::MarksAbove, "actions"),
    (Bug::MarksAlways, "identity"),
    (Bug::MarksWithoutAction, "actions"),
];

struct Planted {
    inner: Services,
    bug: Bug,
    configured: Vec<Flow>,
    former: Option<Flow>,
    pace: Option<Pace>,
    /// The action that was set last.
    action: Action,
}

impl Planted {
    fn new(bug: Bug) -> Self {
        Self {
            inner: with_pipelines(),
            bug,
            configured: Vec::new(),
            former: None,
            pace: None,
            action: Action::None,
        }
    }

    fn flow(&self, flow: Flow) -> Flow {
        match self.bug {
            Bug::ForgetsTheDirection => Flow { direction: Direction::Receive, ..flow },
            _ => flow,
        }
    }

    fn pass_one(&mut self, packet: &Packet) -> Outcome {
        let mut flow = self.flow(packet.flow);
        if matches!(self.bug, Bug::KeepsTheFormerFlow) {
            flow = self.former.replace(flow).filter(|former| former.queue_pair == 256).unwrap_or(flow);
        }
        let offset = match self.bug {
            Bug::StartsAnewWithEachPacket => 0,
            _ => packet.offset,
        };
        let mut bytes = packet.bytes.clone();
        let verdict = self.inner.pass(flow, offset, &mut bytes);
        if matches!(self.bug, Bug::ConvertsPartialValues) {
            let end = offset + packet.bytes.len() as u64;
            let mut longer = [&*packet.bytes, &[0; 4][..(end.wrapping_neg() % 4) as usize]].concat();
            self.inner.pass(flow, offset, &mut longer);
            bytes.copy_from_slice(&longer[..packet.bytes.len()]);
        }
        let configured = self.configured.contains(&flow);
        match self.bug {
            Bug::ChangesAlways => bytes[0] ^= 1,
            Bug::OffsetOf16Bits if configured && packet.offset >> 16 != 0 => bytes[0] ^= 1,
            Bug::SkipsPartialBeats if !bytes.len().is_multiple_of(64) => {
                let whole = bytes.len() / 64 * 64;
                bytes[whole..].copy_from_slice(&packet.bytes[whole..]);
            }
            Bug::Shortens if configured && bytes.len() == 4_096 => bytes.truncate(4_095),
            Bug::CountsOnSight => drop(self.inner.accept(flow, verdict)),
            _ => {}
        }
        Outcome { bytes, verdict: self.inspected(packet, verdict) }
    }

    /// The verdict of an inspection with a planted bug, in place of `verdict`.
    fn inspected(&self, packet: &Packet, verdict: u32) -> u32 {
        let right = Verdict::from_bits(verdict);
        let wrong = match self.bug {
            Bug::InspectsBeatsAlone => {
                let first = (packet.offset.wrapping_neg() % 64) as usize;
                let (head, rest) = packet.bytes.split_at(first.min(packet.bytes.len()));
                let scores = std::iter::once(head).chain(rest.chunks(64)).map(|beat| {
                    let mut scan = Scan::new();
                    scan.push(beat);
                    scan.verdict().score
                });
                Verdict { score: scores.max().unwrap_or(0), ..right }
            }
            Bug::NeverFlags => Verdict { flagged: false, ..right },
            Bug::BeginsNoMessage => Verdict { begins: false, ..right },
            _ => return verdict,
        };
        if verdict == 0 { 0 } else { wrong.to_bits() }
    }
}

impl Path for Planted {
    fn configure(&mut self, flow: Flow, setting: Setting) {
        let flow = self.flow(flow);
        let known = self.configured.contains(&flow);
        self.configured.push(flow);
        self.action = setting.action;
        match self.bug {
            Bug::KeepsTheFormerSetting if known => {}
            Bug::KeepsTheState if known => {
                let state = self.inner.reading(flow);
                self.inner.configure(flow, setting);
                self.inner.accept(flow, state as u32);
            }
            Bug::MarksAbove => {
                let action = match setting.action {
                    Action::Mark { threshold } => Action::Mark { threshold: threshold.saturating_add(1) },
                    Action::None => Action::None,
                };
                self.inner.configure(flow, Setting { action, ..setting });
            }
            Bug::MarksWithoutAction if setting.action == Action::None => {
                self.inner.configure(flow, Setting { action: Action::Mark { threshold: 0 }, ..setting });
            }
            _ => self.inner.configure(flow, setting),
        }
    }

    fn pass(&mut self, packets: &[Packet]) -> Vec<Outcome> {
        let beats = packets.len() as u64;
        let late = u64::from(matches!(self.bug, Bug::Bubble) && packets.len() > 100);
        self.pace = Some(Pace { beats, cycles: beats + 2 + late, latency: 2 });
        packets.iter().map(|packet| self.pass_one(packet)).collect()
    }

    fn accept(&mut self, flow: Flow, verdict: u32) -> bool {
        let flow = self.flow(flow);
        let marked = match self.bug {
            Bug::CountsOnSight => Services::new().accept(flow, verdict),
            _ => self.inner.accept(flow, verdict),
        };
        if matches!(self.bug, Bug::CountsTwice) {
            self.inner.accept(flow, verdict);
        }
        match (self.bug, self.action) {
            (Bug::MarksAlways, _) => true,
            (Bug::MarksByAllBits, Action::Mark { threshold }) => verdict >= threshold,
            _ => marked,
        }
    }

    fn reading(&mut self, flow: Flow) -> u64 {
        self.inner.reading(self.flow(flow))
    }

    fn pace(&self) -> Option<Pace> {
        self.pace
    }
}

#[test]
fn the_suite_finds_what_was_planted() {
    let in_all =
        BUGS.into_iter().flat_map(|(bug, promise)| [(bug, promise, BOTH), (bug, promise, PREPROCESS)]);
    let in_one = [
        (Bug::ConvertsPartialValues, "sizes and alignments", PREPROCESS),
        (Bug::InspectsBeatsAlone, "sizes and alignments", INSPECT),
        (Bug::NeverFlags, "sizes and alignments", INSPECT),
        (Bug::BeginsNoMessage, "independence of the path MTU", INSPECT),
        (Bug::MarksByAllBits, "retransmission", INSPECT),
    ];
    for (bug, promise, setting) in in_all.chain(in_one) {
        let found = suite::check_beside(&mut Planted::new(bug), with_pipelines(), setting, 2);
        let finding = found.expect_err(&format!("{bug:?} was not found with {setting:?}"));
        assert_eq!(finding.promise, promise, "{bug:?} with {setting:?}: {finding}");
    }
}

/// Keeps every second byte: a service whose output is shorter than its input.
struct Halve {
    keep: bool,
}

impl Resize for Halve {
    fn push(&mut self, input: &[u8], credits: usize, output: &mut Vec<u8>) -> usize {
        let mut left = credits;
        for (taken, &byte) in input.iter().enumerate() {
            if self.keep && left == 0 {
                return taken;
            }
            if self.keep {
                output.push(byte);
                left -= 1;
            }
            self.keep = !self.keep;
        }
        input.len()
    }
}

/// A service of the shape [`Resize`] gives the same output for a stream, however the stream is divided and
/// however often credits run out.
#[test]
fn a_service_that_resizes_is_bounded_by_its_credits() {
    let input: Vec<u8> = (0..=255).cycle().take(10_000).map(|byte: u16| byte as u8).collect();
    let expected: Vec<u8> = input.iter().copied().step_by(2).collect();
    for (unit, credits) in [(10_000, 10_000), (1, 1), (64, 5), (4_096, 100), (333, 7)] {
        let mut service = Halve { keep: true };
        let mut output = Vec::new();
        for packet in input.chunks(unit) {
            let mut rest = packet;
            while !rest.is_empty() {
                let before = output.len();
                let taken = service.push(rest, credits, &mut output);
                assert!(output.len() - before <= credits);
                rest = &rest[taken..];
            }
        }
        assert_eq!(output, expected, "packets of {unit} bytes, {credits} credits");
    }
}
