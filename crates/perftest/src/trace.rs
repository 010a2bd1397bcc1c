//! A run as a Perfetto trace: every frame at every port for the time that it is on the wire, and the effects
//! of faults.

use std::io;

use weft_report::perfetto::{Trace, Track};
use weft_sim::{Direction, Event, MachineId, Tap};
use weft_time::{Duration, Instant};
use weft_wire::roce::Opcode;

use super::census::{OPCODE_AT, on_wire};

/// Writes a trace to memory; writing to memory never fails.
pub(super) struct FrameTrace {
    trace: Option<Trace<Vec<u8>>>,
    bits_per_s: u64,
    ports: Vec<Port>,
    faults: Option<Track>,
}

/// The tracks of a machine, for frames that it sends and frames that it receives, each with the end of the
/// last frame.
struct Port {
    process: Track,
    sent: (Track, Instant),
    received: (Track, Instant),
}

impl FrameTrace {
    pub(super) fn new(bits_per_s: u64) -> Self {
        Self { trace: Some(Trace::new(Vec::new())), bits_per_s, ports: Vec::new(), faults: None }
    }

    /// Ends the trace and returns its bytes.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let trace = self.trace.take().expect("a trace is finished once");
        trace.finish().expect("memory takes every byte")
    }

    fn add_port(&mut self, name: &str) -> io::Result<()> {
        let Some(trace) = &mut self.trace else { return Ok(()) };
        let process = trace.process(name)?;
        let sent = (trace.track(process, "sends")?, Instant::ZERO);
        let received = (trace.track(process, "receives")?, Instant::ZERO);
        self.ports.push(Port { process, sent, received });
        Ok(())
    }

    fn add_event(&mut self, at: Instant, event: &Event) -> io::Result<()> {
        let Some(trace) = &mut self.trace else { return Ok(()) };
        let track = match (event, self.faults) {
            (Event::Dropped(machine, _), _) => self.ports[machine.index()].process,
            (_, Some(track)) => track,
            (_, None) => *self.faults.insert(trace.process("faults")?),
        };
        trace.instant(track, at, &event.to_string(), "fault")
    }
}

/// Name of a packet, for example `WriteOnly psn 17 to queue pair 3`.
fn name(frame: &[u8]) -> String {
    let Some([opcode, _, _, _, _, qp @ .., _, high, middle, low]) = frame.get(OPCODE_AT..OPCODE_AT + 12)
    else {
        return "frame".into();
    };
    let psn = u32::from_be_bytes([0, *high, *middle, *low]);
    let number = qp.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
    match Opcode::from_u8(*opcode) {
        Some(opcode) => format!("{opcode:?} psn {psn} to queue pair {number:#x}"),
        None => format!("opcode {opcode:#x} to queue pair {number:#x}"),
    }
}

impl Tap for FrameTrace {
    fn machine(&mut self, _: MachineId, name: &str) {
        self.add_port(name).expect("memory takes every byte");
    }

    fn frame(&mut self, at: Instant, machine: MachineId, direction: Direction, frame: &[u8]) {
        let Some(trace) = &mut self.trace else { return };
        let port = &mut self.ports[machine.index()];
        let (track, ended) = match direction {
            Direction::Out => &mut port.sent,
            Direction::In => &mut port.received,
        };
        // Copies of frames that a fault adds do not wait for the wire, but slices of one track must not
        // overlap.
        let length = Duration::from_ps(on_wire(frame) * 8_000_000_000_000 / self.bits_per_s);
        let begin = Instant::from_ps(at.as_ps().saturating_sub(length.as_ps())).max(*ended);
        let written = trace.slice(*track, begin, at.saturating_since(begin), &name(frame), "frame", &[]);
        written.expect("memory takes every byte");
        *ended = at.max(begin);
    }

    fn event(&mut self, at: Instant, event: &Event) {
        self.add_event(at, event).expect("memory takes every byte");
    }
}
