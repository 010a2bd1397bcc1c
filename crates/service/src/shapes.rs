//! The shapes of services.

/// Queue pairs that the table of services has settings for, as the gateware.
pub const QUEUE_PAIRS: u16 = 512;

/// Direction of payload.
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
    /// Index in a table of `2 * QUEUE_PAIRS` entries, and its bits in gates.
    pub const fn index(self) -> usize {
        self.queue_pair as usize * 2 + self.direction as usize
    }
}

/// A service that changes payload and keeps its length.
///
/// The result may depend on nothing but the flow's configured value, the offset and the bytes themselves, byte by
/// byte or within aligned words of 64 bytes: a message is cut differently by another path MTU and by what is sent
/// again.
pub trait Map {
    /// Changes `bytes`, the first of which is at `offset`.
    fn map(&self, value: u64, offset: u64, bytes: &mut [u8]);
}

/// A service that observes payload. It never stalls and changes nothing.
///
/// The verdict on a packet is pure. It is known before the transport has decided whether it takes the packet, and is
/// forgotten with a packet that it does not take. What the transport accepts changes the flow's 64 bits of state,
/// once.
pub trait Tap {
    /// Verdict of the service on a packet.
    fn verdict(&self, value: u64, offset: u64, bytes: &[u8]) -> u32;

    /// The flow's state behind a packet with this verdict.
    fn accept(&self, state: u64, verdict: u32) -> u64;
}

/// A service whose output has another length than its input, in the direction of receive.
///
/// It sees each byte of a flow once and in order. Its output has a region and a cursor of its own, and is never
/// placed at an address that the peer has named.
pub trait Resize {
    /// Takes bytes from the front of `input` and appends to `output`, at most `credits` bytes. Returns how many bytes
    /// of the input were taken: those behind come again, once there are credits.
    fn push(&mut self, input: &[u8], credits: usize, output: &mut Vec<u8>) -> usize;
}

/// A service that protects whole frames between the MAC and everything else.
pub trait Seal {
    /// Reason for which a frame is not sent, or dropped.
    type Refusal;

    /// Seals a frame that is about to leave. A frame that the transport sends again is a new frame here.
    ///
    /// # Errors
    /// The frame may not leave.
    fn seal(&mut self, frame: &mut Vec<u8>) -> Result<(), Self::Refusal>;

    /// Opens a frame that has arrived.
    ///
    /// # Errors
    /// The frame must be dropped; what `frame` then holds is undefined.
    fn open(&mut self, frame: &mut Vec<u8>) -> Result<(), Self::Refusal>;
}
