//! Opcodes, and the properties of a packet that follow from its opcode alone.

/// Operations of the reliable-connection service (table 38 of the specification; the service's three
/// leading bits are zero), and the congestion notification packet of RoCE v2 (annex A17.9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Opcode {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastWithImmediate = 0x03,
    SendOnly = 0x04,
    SendOnlyWithImmediate = 0x05,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteLastWithImmediate = 0x09,
    WriteOnly = 0x0a,
    WriteOnlyWithImmediate = 0x0b,
    ReadRequest = 0x0c,
    ReadResponseFirst = 0x0d,
    ReadResponseMiddle = 0x0e,
    ReadResponseLast = 0x0f,
    ReadResponseOnly = 0x10,
    Acknowledge = 0x11,
    AtomicAcknowledge = 0x12,
    CompareSwap = 0x13,
    FetchAdd = 0x14,
    CongestionNotification = 0x81,
}

use Opcode::*;

impl Opcode {
    /// Every opcode of the reliable connection in the order of its number (`ALL[n] as usize == n`), then the
    /// congestion notification.
    pub const ALL: [Opcode; 22] = [
        SendFirst,
        SendMiddle,
        SendLast,
        SendLastWithImmediate,
        SendOnly,
        SendOnlyWithImmediate,
        WriteFirst,
        WriteMiddle,
        WriteLast,
        WriteLastWithImmediate,
        WriteOnly,
        WriteOnlyWithImmediate,
        ReadRequest,
        ReadResponseFirst,
        ReadResponseMiddle,
        ReadResponseLast,
        ReadResponseOnly,
        Acknowledge,
        AtomicAcknowledge,
        CompareSwap,
        FetchAdd,
        CongestionNotification,
    ];

    /// The opcode with this number; `None` for opcodes of other services, such as datagrams, and unassigned
    /// numbers.
    pub const fn from_u8(number: u8) -> Option<Opcode> {
        match number {
            0x00..=0x14 => Some(Self::ALL[number as usize]),
            0x81 => Some(CongestionNotification),
            _ => None,
        }
    }

    /// Whether the packet belongs to a SEND, with or without immediate.
    pub const fn is_send(self) -> bool {
        matches!(
            self,
            SendFirst | SendMiddle | SendLast | SendLastWithImmediate | SendOnly | SendOnlyWithImmediate
        )
    }

    /// Whether the packet belongs to an RDMA WRITE, with or without immediate.
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            WriteFirst
                | WriteMiddle
                | WriteLast
                | WriteLastWithImmediate
                | WriteOnly
                | WriteOnlyWithImmediate
        )
    }

    /// Whether the packet is a CMP_SWAP or FETCH_ADD.
    pub const fn is_atomic(self) -> bool {
        matches!(self, CompareSwap | FetchAdd)
    }

    /// Whether the requester sends the packet to the responder.
    pub const fn is_request(self) -> bool {
        self.is_send() || self.is_write() || self.is_atomic() || matches!(self, ReadRequest)
    }

    /// Whether the responder sends the packet to the requester.
    pub const fn is_response(self) -> bool {
        !self.is_request() && !self.is_congestion_notification()
    }

    /// Whether the packet is a congestion notification, which the receiver of a marked packet sends to its
    /// sender. It is part of no message.
    pub const fn is_congestion_notification(self) -> bool {
        matches!(self, CongestionNotification)
    }

    /// Whether the packet carries data of a READ.
    pub const fn is_read_response(self) -> bool {
        matches!(self, ReadResponseFirst | ReadResponseMiddle | ReadResponseLast | ReadResponseOnly)
    }

    /// Whether it is the first of several packets of a message.
    pub const fn is_first(self) -> bool {
        matches!(self, SendFirst | WriteFirst | ReadResponseFirst)
    }

    /// Whether it is neither the first nor the last packet of a message.
    pub const fn is_middle(self) -> bool {
        matches!(self, SendMiddle | WriteMiddle | ReadResponseMiddle)
    }

    /// Whether it is the last of several packets of a message.
    pub const fn is_last(self) -> bool {
        matches!(
            self,
            SendLast | SendLastWithImmediate | WriteLast | WriteLastWithImmediate | ReadResponseLast
        )
    }

    /// Whether it is the only packet of its message. All messages that cannot be segmented (READ REQUEST,
    /// atomics, acknowledgements) have only one packet.
    pub const fn is_only(self) -> bool {
        !(self.is_first() || self.is_middle() || self.is_last())
    }

    /// Whether it is the first or only packet of its message.
    pub const fn starts_message(self) -> bool {
        self.is_first() || self.is_only()
    }

    /// Whether it is the last or only packet of its message.
    pub const fn ends_message(self) -> bool {
        self.is_last() || self.is_only()
    }

    /// Whether the packet has a [`Reth`](super::Reth).
    pub const fn has_reth(self) -> bool {
        matches!(self, WriteFirst | WriteOnly | WriteOnlyWithImmediate | ReadRequest)
    }

    /// Whether the packet has an [`AtomicEth`](super::AtomicEth).
    pub const fn has_atomic(self) -> bool {
        self.is_atomic()
    }

    /// Whether the packet has an [`Aeth`](super::Aeth).
    pub const fn has_aeth(self) -> bool {
        matches!(
            self,
            ReadResponseFirst | ReadResponseLast | ReadResponseOnly | Acknowledge | AtomicAcknowledge
        )
    }

    /// Whether the packet has the word's value from before an atomic operation.
    pub const fn has_atomic_ack(self) -> bool {
        matches!(self, AtomicAcknowledge)
    }

    /// Whether the packet has four bytes of immediate data, which the receiver's completion reports.
    pub const fn has_immediate(self) -> bool {
        matches!(
            self,
            SendLastWithImmediate | SendOnlyWithImmediate | WriteLastWithImmediate | WriteOnlyWithImmediate
        )
    }

    /// Whether the packet may have payload. Other packets end with their extended headers.
    pub const fn has_payload(self) -> bool {
        self.is_send() || self.is_write() || self.is_read_response()
    }

    /// Reserved bytes after the base header, which are sent as zeros and ignored on receipt.
    pub const fn reserved_bytes(self) -> usize {
        if self.is_congestion_notification() { 16 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_opcodes_correspond() {
        for number in 0..=u8::MAX {
            match Opcode::from_u8(number) {
                Some(opcode) => assert_eq!(opcode as u8, number),
                None => assert!(number > 0x14 && number != 0x81),
            }
        }
    }

    #[test]
    fn each_opcode_has_one_direction_and_one_position() {
        for opcode in Opcode::ALL {
            let directions = [opcode.is_request(), opcode.is_response(), opcode.is_congestion_notification()];
            assert_eq!(directions.iter().filter(|direction| **direction).count(), 1, "{opcode:?}");
            let positions = [opcode.is_first(), opcode.is_middle(), opcode.is_last(), opcode.is_only()];
            assert_eq!(positions.iter().filter(|position| **position).count(), 1, "{opcode:?}");
        }
    }

    /// The sums of table 38's columns, and the length of annex A17.9.3.
    #[test]
    fn header_bytes_follow_the_table() {
        let bytes = Opcode::ALL.map(Opcode::header_bytes);
        assert_eq!(
            bytes,
            [12, 12, 12, 16, 12, 16, 28, 12, 12, 16, 28, 32, 28, 16, 12, 16, 16, 16, 24, 40, 40, 28]
        );
    }
}
