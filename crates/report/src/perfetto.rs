//! Traces that Perfetto's viewer (ui.perfetto.dev) and `trace_processor` read.
//!
//! Written as `TrackEvent` packets; the field numbers are those of Perfetto's `trace_packet.proto`,
//! `track_event.proto`, `track_descriptor.proto`, `counter_descriptor.proto` and `process_descriptor.proto`.
//! A node is a process, its parts are tracks below it. Times are nanoseconds of the run; events may be written in
//! any order, except that of two events of one track at one time, the first written comes first.

use std::io::{self, Write};

use weft_time::{Duration, Instant};

/// Field numbers, by message.
mod field {
    pub const TRACE_PACKET: u32 = 1;

    pub const PACKET_TIMESTAMP: u32 = 8;
    pub const PACKET_SEQUENCE_ID: u32 = 10;
    pub const PACKET_TRACK_EVENT: u32 = 11;
    pub const PACKET_TRACK_DESCRIPTOR: u32 = 60;

    pub const EVENT_TYPE: u32 = 9;
    pub const EVENT_TRACK_UUID: u32 = 11;
    pub const EVENT_CATEGORIES: u32 = 22;
    pub const EVENT_NAME: u32 = 23;
    pub const EVENT_COUNTER_VALUE: u32 = 30;
    pub const EVENT_FLOW_IDS: u32 = 47;

    pub const DESCRIPTOR_UUID: u32 = 1;
    pub const DESCRIPTOR_NAME: u32 = 2;
    pub const DESCRIPTOR_PROCESS: u32 = 3;
    pub const DESCRIPTOR_PARENT_UUID: u32 = 5;
    pub const DESCRIPTOR_COUNTER: u32 = 8;

    pub const PROCESS_PID: u32 = 1;
    pub const PROCESS_NAME: u32 = 6;

    pub const COUNTER_UNIT_NAME: u32 = 6;
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy)]
enum EventType {
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// The only writer of the trace: Perfetto asks for a number that is not zero.
const SEQUENCE_ID: u64 = 1;

/// A row of the viewer. Slices of one track may nest; they must not overlap otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track(u64);

/// A counter's row of the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter(u64);

/// Arrows that connect slices: those with the same number follow each other in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow(pub u64);

/// A trace that is being written.
#[derive(Debug)]
pub struct Trace<W> {
    writer: W,
    tracks: u64,
    processes: u64,
}

impl<W: Write> Trace<W> {
    /// A trace that goes to `writer`, which should be buffered: every event is one small write.
    pub fn new(writer: W) -> Self {
        Self { writer, tracks: 0, processes: 0 }
    }

    /// Adds a process: a node, or the network between nodes.
    ///
    /// # Errors
    /// Those of the writer, here and in all that follows.
    pub fn process(&mut self, name: &str) -> io::Result<Track> {
        self.processes += 1;
        let process =
            Message::new().number(field::PROCESS_PID, self.processes).text(field::PROCESS_NAME, name);
        self.descriptor(|descriptor| descriptor.message(field::DESCRIPTOR_PROCESS, &process)).map(Track)
    }

    /// Adds a track below another one.
    pub fn track(&mut self, parent: Track, name: &str) -> io::Result<Track> {
        self.descriptor(|descriptor| {
            descriptor.text(field::DESCRIPTOR_NAME, name).number(field::DESCRIPTOR_PARENT_UUID, parent.0)
        })
        .map(Track)
    }

    /// Adds a counter below a track. `unit` is shown behind its values.
    pub fn counter(&mut self, parent: Track, name: &str, unit: &str) -> io::Result<Counter> {
        let counter = Message::new().text(field::COUNTER_UNIT_NAME, unit);
        self.descriptor(|descriptor| {
            descriptor
                .text(field::DESCRIPTOR_NAME, name)
                .number(field::DESCRIPTOR_PARENT_UUID, parent.0)
                .message(field::DESCRIPTOR_COUNTER, &counter)
        })
        .map(Counter)
    }

    /// Something that lasted from `begin` for `length`.
    pub fn slice(
        &mut self,
        track: Track,
        begin: Instant,
        length: Duration,
        name: &str,
        category: &str,
        flows: &[Flow],
    ) -> io::Result<()> {
        let mut event = named(EventType::SliceBegin, track, name, category);
        for flow in flows {
            event = event.fixed64(field::EVENT_FLOW_IDS, flow.0);
        }
        self.event(begin, &event)?;
        self.event(begin + length, &event_of(EventType::SliceEnd, track.0))
    }

    /// Something that happened at one moment.
    pub fn instant(&mut self, track: Track, at: Instant, name: &str, category: &str) -> io::Result<()> {
        self.event(at, &named(EventType::Instant, track, name, category))
    }

    /// The value of a counter from `at` on.
    pub fn count(&mut self, counter: Counter, at: Instant, value: i64) -> io::Result<()> {
        // Protocol buffers write a negative int64 as its two's complement.
        let event = event_of(EventType::Counter, counter.0).number(field::EVENT_COUNTER_VALUE, value as u64);
        self.event(at, &event)
    }

    /// Flushes the writer and gives it back.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.flush()?;
        Ok(self.writer)
    }

    fn descriptor(&mut self, fill: impl FnOnce(Message) -> Message) -> io::Result<u64> {
        self.tracks += 1;
        let descriptor = fill(Message::new().number(field::DESCRIPTOR_UUID, self.tracks));
        self.packet(Message::new().message(field::PACKET_TRACK_DESCRIPTOR, &descriptor))?;
        Ok(self.tracks)
    }

    fn event(&mut self, at: Instant, event: &Message) -> io::Result<()> {
        let packet = Message::new().number(field::PACKET_TIMESTAMP, at.as_ns());
        self.packet(packet.message(field::PACKET_TRACK_EVENT, event))
    }

    fn packet(&mut self, packet: Message) -> io::Result<()> {
        let packet = packet.number(field::PACKET_SEQUENCE_ID, SEQUENCE_ID);
        self.writer.write_all(&Message::new().message(field::TRACE_PACKET, &packet).0)
    }
}

fn event_of(kind: EventType, track: u64) -> Message {
    Message::new().number(field::EVENT_TYPE, kind as u64).number(field::EVENT_TRACK_UUID, track)
}

fn named(kind: EventType, track: Track, name: &str, category: &str) -> Message {
    event_of(kind, track.0).text(field::EVENT_CATEGORIES, category).text(field::EVENT_NAME, name)
}

/// A message of the protocol-buffer wire format under construction.
struct Message(Vec<u8>);

impl Message {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn number(mut self, field: u32, value: u64) -> Self {
        self.tag(field, 0);
        self.varint(value);
        self
    }

    fn fixed64(mut self, field: u32, value: u64) -> Self {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A value of the wire format, decoded here on its own.
    #[derive(Clone, Debug, PartialEq)]
    enum Value {
        Number(u64),
        Fixed(u64),
        Bytes(Vec<u8>),
    }

    fn decode(mut bytes: &[u8]) -> Vec<(u64, Value)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let mut value = 0u128;
            for i in 0.. {
                let (first, rest) = bytes.split_first().expect("a varint ends");
                *bytes = rest;
                value += u128::from(first % 128) * 128u128.pow(i);
                if *first < 128 {
                    break;
                }
            }
            u64::try_from(value).expect("a varint fits 64 bits")
        }
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = match tag % 8 {
                0 => Value::Number(varint(&mut bytes)),
                1 => {
                    let (head, rest) = bytes.split_at(8);
                    bytes = rest;
                    Value::Fixed(u64::from_le_bytes(head.try_into().unwrap()))
                }
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (head, rest) = bytes.split_at(length);
                    bytes = rest;
                    Value::Bytes(head.to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push((tag / 8, value));
        }
        fields
    }

    fn inner(fields: &[(u64, Value)], field: u64) -> Vec<(u64, Value)> {
        match fields.iter().find(|(f, _)| *f == field) {
            Some((_, Value::Bytes(bytes))) => decode(bytes),
            other => panic!("field {field} is {other:?}"),
        }
    }

    fn text(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }

    fn at(ns: u64) -> Instant {
        Instant::ZERO + Duration::from_ns(ns)
    }

    /// The numbers in here are read off Perfetto's .proto files, not taken from the constants above.
    #[test]
    fn a_trace_decodes_by_the_public_field_numbers() {
        use Value::{Fixed, Number};
        let mut trace = Trace::new(Vec::new());
        let node = trace.process("node0").unwrap();
        let pipeline = trace.track(node, "pipeline").unwrap();
        let window = trace.counter(node, "window", "entries").unwrap();
        trace.slice(pipeline, at(1_000), Duration::from_ns(250), "put", "kv", &[Flow(77)]).unwrap();
        trace.instant(node, at(3_000), "crash", "fault").unwrap();
        trace.count(window, at(4_000), -5).unwrap();
        let bytes = trace.finish().unwrap();

        let packets: Vec<_> = decode(&bytes)
            .into_iter()
            .map(|(field, value)| match value {
                Value::Bytes(bytes) if field == 1 => decode(&bytes),
                other => panic!("{field}: {other:?}"),
            })
            .collect();
        assert_eq!(packets.len(), 7);
        assert!(packets.iter().all(|packet| packet.contains(&(10, Number(1)))));

        let process = inner(&packets[0], 60);
        assert_eq!(process[0], (1, Number(1)));
        assert_eq!(inner(&process, 3), [(1, Number(1)), (6, text("node0"))]);
        let track = inner(&packets[1], 60);
        assert_eq!(track, [(1, Number(2)), (2, text("pipeline")), (5, Number(1))]);
        let counter = inner(&packets[2], 60);
        assert_eq!(counter[..3], [(1, Number(3)), (2, text("window")), (5, Number(1))]);
        assert_eq!(inner(&counter, 8), [(6, text("entries"))]);

        assert!(packets[3].contains(&(8, Number(1_000))));
        assert_eq!(
            inner(&packets[3], 11),
            [(9, Number(1)), (11, Number(2)), (22, text("kv")), (23, text("put")), (47, Fixed(77))]
        );
        assert!(packets[4].contains(&(8, Number(1_250))));
        assert_eq!(inner(&packets[4], 11), [(9, Number(2)), (11, Number(2))]);
        assert_eq!(
            inner(&packets[5], 11),
            [(9, Number(3)), (11, Number(1)), (22, text("fault")), (23, text("crash"))]
        );
        assert_eq!(inner(&packets[6], 11), [(9, Number(4)), (11, Number(3)), (30, Number(-5i64 as u64))]);
    }

    /// Bytes worked out by hand from the wire format's description.
    #[test]
    fn known_bytes() {
        assert_eq!(Message::new().number(1, 150).0, [0x08, 0x96, 0x01]);
        assert_eq!(Message::new().text(2, "testing").0, b"\x12\x07testing");
        assert_eq!(Message::new().number(60, 1).0, [0xe0, 0x03, 0x01]);
    }

    proptest! {
        #[test]
        fn the_wire_format_round_trips(field in 1u32..=0x1fff_ffff, number: u64, fixed: u64, words in ".{0,40}") {
            let message = Message::new().number(field, number).fixed64(field, fixed).text(field, &words);
            let field = u64::from(field);
            prop_assert_eq!(
                decode(&message.0),
                [(field, Value::Number(number)), (field, Value::Fixed(fixed)), (field, text(&words))]
            );
        }
    }
}
