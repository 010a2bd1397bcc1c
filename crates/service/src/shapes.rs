//! The shapes (kinds) of services.

/// Number of queue pairs for which the table of services has settings; the same as in the gateware.
pub const QUEUE_PAIRS: u16 = 512;

/// Direction of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the wire into memory.
    Receive,
    /// From memory onto the wire.
    Transmit,
}

/// One direction of one queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Index of the queue pair: the low bits of its number, below [`QUEUE_PAIRS`].
    pub queue_pair: u16,
    /// The direction.
    pub direction: Direction,
}

impl Flow {
    /// Index in a table of `2 * QUEUE_PAIRS` entries. The gateware uses the same index.
    pub const fn index(self) -> usize {
        self.queue_pair as usize * 2 + self.direction as usize
    }
}

/// A service that changes payload and keeps its length.
///
/// The result may depend only on the flow's configured value, on the offset and on the bytes themselves,
/// where each byte of the result depends only on the same byte or the same aligned word of 64 bytes: another
/// path MTU or a retransmission divides a message differently.
pub trait Map {
    /// Changes `bytes`. The first byte is at `offset`.
    fn map(&self, value: u64, offset: u64, bytes: &mut [u8]);
}

/// A service that observes payload. It never stalls the path and never changes the payload.
///
/// The verdict on a packet is a pure function. It is computed before the transport has decided whether to
/// accept the packet, and is discarded if the transport does not accept it. Each accepted packet changes the
/// flow's 64-bit state once.
pub trait Tap {
    /// The verdict on a packet.
    fn verdict(&self, value: u64, offset: u64, bytes: &[u8]) -> u32;

    /// The flow's next state, after a packet with this verdict was accepted.
    fn accept(&self, state: u64, verdict: u32) -> u64;

    /// The number in a verdict that an action compares with its threshold.
    fn level(&self, verdict: u32) -> u32 {
        verdict
    }
}

/// A service whose output has another length than its input, in the receive direction.
///
/// It gets each byte of a flow once and in order. Its output is written to a region with a cursor of its own,
/// never to an address that the peer chooses.
pub trait Resize {
    /// Consumes bytes from the front of `input` and appends at most `credits` bytes to `output`. Returns the
    /// number of consumed bytes. The caller passes the remaining bytes again when there are credits.
    fn push(&mut self, input: &[u8], credits: usize, output: &mut Vec<u8>) -> usize;
}

/// A service that encrypts and authenticates whole frames between the MAC and the rest of the card.
pub trait Seal {
    /// Reason for which a frame is not sent or is dropped.
    type Refusal;

    /// Seals a frame that is about to be sent. A retransmission is a new frame here.
    ///
    /// # Errors
    /// If the frame must not be sent.
    fn seal(&mut self, frame: &mut Vec<u8>) -> Result<(), Self::Refusal>;

    /// Opens a frame that has arrived.
    ///
    /// # Errors
    /// If the frame must be dropped. The content of `frame` is then undefined.
    fn open(&mut self, frame: &mut Vec<u8>) -> Result<(), Self::Refusal>;
}
