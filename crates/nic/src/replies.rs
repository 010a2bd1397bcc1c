//! Buffers for answers to calls that came over a queue pair.

use weft_rdma::{AccessFlags, ProtectionDomain, Region, Target, Transport};

/// Answers on their way at a time.
const BUFFERS: u16 = 256;

/// Bytes of one answer.
const BUFFER_BYTES: usize = 2048;

/// Bytes of card memory that the buffers take.
pub(crate) const REPLY_BYTES: usize = BUFFERS as usize * BUFFER_BYTES;

/// A region of card memory in equal buffers, each lent from an answer's SEND to its completion.
#[derive(Debug)]
pub(crate) struct Replies {
    base: u64,
    lkey: u32,
    free: Vec<u16>,
}

impl Replies {
    /// Registers the buffers at `base` of high-bandwidth memory, for the queue pairs of the default domain.
    pub(crate) fn new(base: usize, transport: &mut Transport) -> Self {
        let region = Region {
            domain: ProtectionDomain(0),
            address: base as u64,
            length: REPLY_BYTES as u64,
            access: AccessFlags::NONE,
            target: Target::Hbm,
            write_through: false,
            rpc: None,
        };
        let keys = transport.register_region(region).expect("an empty transport has room for a region");
        Self { base: base as u64, lkey: keys.lkey, free: (0..BUFFERS).rev().collect() }
    }

    /// Lends a buffer for `bytes` bytes; `None` if they are too many or no buffer is free.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<u16> {
        if bytes > BUFFER_BYTES { None } else { self.free.pop() }
    }

    pub(crate) fn give_back(&mut self, buffer: u16) {
        assert!(buffer < BUFFERS && self.free.len() < usize::from(BUFFERS), "only lent buffers come back");
        self.free.push(buffer);
    }

    pub(crate) fn address(&self, buffer: u16) -> u64 {
        self.base + u64::from(buffer) * BUFFER_BYTES as u64
    }

    pub(crate) const fn lkey(&self) -> u32 {
        self.lkey
    }
}
