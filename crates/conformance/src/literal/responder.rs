//! A responder that at first lacks receive requests. As Linux's soft RoCE does, it also reports the gap
//! behind a packet that found no receive request.

use weft_wire::roce::{MASK_24, NakCode, Packet, Syndrome};

/// A responder that accepts SENDs.
#[derive(Clone, Debug)]
pub struct Responder {
    expected: u32,
    gap_reported: bool,
    /// Number of RNR NAKs with which the responder still answers the next message.
    pub not_ready: u32,
    timer: u8,
    message: Vec<u8>,
    /// Complete messages.
    pub messages: Vec<Vec<u8>>,
    /// Number of gaps that the responder has reported.
    pub gaps: u64,
}

impl Responder {
    /// Creates a responder that expects `psn` first, and whose RNR NAKs have timer code `timer`.
    pub const fn new(psn: u32, timer: u8) -> Self {
        Self {
            expected: psn,
            gap_reported: false,
            not_ready: 0,
            timer,
            message: Vec::new(),
            messages: Vec::new(),
            gaps: 0,
        }
    }

    /// Processes a packet of a SEND. Returns the answer, with its PSN.
    pub fn receive(&mut self, packet: &Packet<'_>) -> Option<(u32, Syndrome)> {
        let positive = Syndrome::Ack { credits: 31 };
        let ahead = packet.bth.psn.wrapping_sub(self.expected) & MASK_24;
        if ahead > MASK_24 / 2 {
            return Some((self.expected.wrapping_sub(1) & MASK_24, positive));
        }
        if ahead > 0 {
            if std::mem::replace(&mut self.gap_reported, true) {
                return None;
            }
            self.gaps += 1;
            return Some((self.expected, Syndrome::Nak(NakCode::PsnSequenceError)));
        }
        // A packet with the expected PSN ends the gap even if it is refused, so the packet behind it is
        // reported as a new gap.
        self.gap_reported = false;
        let opcode = packet.bth.opcode;
        if opcode.starts_message() && self.not_ready > 0 {
            self.not_ready -= 1;
            return Some((self.expected, Syndrome::RnrNak { timer: self.timer }));
        }
        self.expected = (self.expected + 1) & MASK_24;
        self.message.extend(packet.payload);
        if opcode.ends_message() {
            self.messages.push(std::mem::take(&mut self.message));
        }
        packet.bth.acknowledge.then_some((packet.bth.psn, positive))
    }
}
