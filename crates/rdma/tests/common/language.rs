//! The language of the scripts: it parses commands and prints packets and completions.
//!
//! The conformance suite uses it too, between whole NICs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weft_verbs::{AccessFlags, Completion, CompletionStatus, QueuePairNumber, Target};
use weft_wire::roce::{Aeth, Bth, Congestion, NakCode, Opcode, Packet, Syndrome};

/// A command: `[A|B] verb [operand ...] [key=value ...]`.
pub struct Words<'a> {
    pub side: usize,
    pub verb: &'a str,
    pub operands: Vec<&'a str>,
    pub keys: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    pub fn new(command: &'a str) -> Self {
        let mut words = command.split_whitespace().peekable();
        let side = match words.peek() {
            Some(&"A") => Some(0),
            Some(&"B") => Some(1),
            _ => None,
        };
        if side.is_some() {
            words.next();
        }
        let verb = words.next().expect("a command has a verb");
        let (keys, operands): (Vec<_>, Vec<_>) = words.partition(|word| word.contains('='));
        let keys = keys.into_iter().map(|word| word.split_once('=').unwrap()).collect();
        Self { side: side.unwrap_or(0), verb, operands, keys }
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.keys.get(key).map(|text| number(text))
    }

    pub fn has(&self, word: &str) -> bool {
        self.operands.contains(&word)
    }
}

pub fn number(text: &str) -> u64 {
    text.strip_prefix("0x")
        .map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16))
        .unwrap_or_else(|_| panic!("`{text}` is not a number"))
}

pub fn access(text: &str) -> AccessFlags {
    text.split(',').fold(AccessFlags::LOCAL_WRITE, |flags, word| {
        flags.with(match word {
            "none" => AccessFlags::NONE,
            "read" => AccessFlags::REMOTE_READ,
            "write" => AccessFlags::REMOTE_WRITE,
            "atomic" => AccessFlags::REMOTE_ATOMIC,
            _ => panic!("unknown access `{word}`"),
        })
    })
}

pub fn target(text: &str) -> Target {
    match text {
        "register" => Target::Register,
        "onchip" => Target::OnChip,
        "hbm" => Target::Hbm,
        "host" => Target::Host,
        _ => panic!("unknown target `{text}`"),
    }
}

/// What happens to a packet on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Lose,
    Duplicate,
    /// The packet arrives after all others of its round.
    Delay,
    /// A switch marks the packet: congestion experienced.
    Mark,
}

/// The packet that the command `nak` injects: a NAK "PSN sequence error" for a queue pair.
pub fn sequence_nak(destination: QueuePairNumber, psn: u32) -> Packet<'static> {
    let bth = Bth {
        opcode: Opcode::Acknowledge,
        solicited: false,
        migration: true,
        pad: 0,
        partition_key: 0xffff,
        congestion: Congestion::default(),
        destination: destination.0,
        acknowledge: false,
        psn,
    };
    let aeth = Aeth { syndrome: Syndrome::Nak(NakCode::PsnSequenceError), msn: 0 };
    Packet { aeth: Some(aeth), ..Packet::new(bth, &[]) }
}

pub const NAMES: [char; 2] = ['A', 'B'];

/// Prints a packet in one line. Keys are left out, because they depend on the sizes of the tables.
pub fn describe(packet: &Packet<'_>) -> String {
    let mut line = format!("{} psn={}", name(packet.bth.opcode), packet.bth.psn);
    if packet.bth.acknowledge {
        // The AckReq bit in a response announces that its sender keeps out-of-order packets.
        line.push_str(if packet.bth.opcode.is_response() { " keeps" } else { " ack?" });
    }
    if packet.bth.solicited {
        line.push_str(" solicited");
    }
    if let Some(reth) = packet.reth {
        write!(line, " at={:#x} length={}", reth.address, reth.length).unwrap();
    }
    if let Some(atomic) = packet.atomic {
        write!(line, " at={:#x} operand={}", atomic.address, atomic.swap_or_add).unwrap();
        if packet.bth.opcode == Opcode::CompareSwap {
            write!(line, " if={}", atomic.compare).unwrap();
        }
    }
    if let Some(value) = packet.immediate {
        write!(line, " immediate={value:#x}").unwrap();
    }
    if let Some(original) = packet.atomic_ack {
        write!(line, " original={original}").unwrap();
    }
    if let Some(aeth) = packet.aeth {
        match aeth.syndrome {
            Syndrome::Ack { .. } => {}
            Syndrome::RnrNak { timer } => write!(line, " RNR timer={timer}").unwrap(),
            Syndrome::Nak(code) => write!(line, " NAK {code:?}").unwrap(),
        }
        write!(line, " msn={}", aeth.msn).unwrap();
    }
    if !packet.payload.is_empty() {
        write!(line, " payload={}", packet.payload.len()).unwrap();
    }
    line
}

/// The opcode in the specification's spelling: `WRITE_LAST_WITH_IMMEDIATE`.
pub fn name(opcode: Opcode) -> String {
    let mut name = String::new();
    for letter in format!("{opcode:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// Prints a completion in one line.
pub fn describe_completion(completion: &Completion) -> String {
    let mut line = format!("#{} {}", completion.id, completion.status.name());
    if completion.status == CompletionStatus::Success {
        write!(line, " {:?}", completion.opcode).unwrap();
        if completion.bytes > 0 {
            write!(line, " {} bytes", completion.bytes).unwrap();
        }
        if let Some(value) = completion.immediate {
            write!(line, " immediate {value:#x}").unwrap();
        }
    } else if completion.vendor_error != 0 {
        write!(line, " vendor_err {:#x}", completion.vendor_error).unwrap();
    }
    line
}
