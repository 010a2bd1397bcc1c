//! Frames on their way, in buffers that are used again.

use weft_time::Instant;

/// A frame in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameId(u32);

/// A frame, and what must be known of its sender when it arrives.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    /// When its last bit has left the sender.
    pub(crate) last_bit: Instant,
    /// Number of crashes of the sender before it sent the frame.
    pub(crate) incarnation: u32,
}

/// All frames from the moment at which a machine hands them over until they arrive or are lost.
#[derive(Debug, Default)]
pub(crate) struct FramePool {
    frames: Vec<Frame>,
    free: Vec<u32>,
}

impl FramePool {
    /// An empty frame.
    pub(crate) fn take(&mut self) -> FrameId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.frames.push(Frame::default());
            u32::try_from(self.frames.len() - 1).expect("fewer than 2^32 frames are on their way")
        });
        self.frames[index as usize].bytes.clear();
        FrameId(index)
    }

    /// A frame with the same content.
    pub(crate) fn copy(&mut self, original: FrameId) -> FrameId {
        let copy = self.take();
        // Taken out and put back: the two buffers lie in one vector.
        let mut bytes = std::mem::take(&mut self.get_mut(copy).bytes);
        let original = self.get(original);
        bytes.extend_from_slice(&original.bytes);
        let (last_bit, incarnation) = (original.last_bit, original.incarnation);
        *self.get_mut(copy) = Frame { bytes, last_bit, incarnation };
        copy
    }

    pub(crate) fn get(&self, frame: FrameId) -> &Frame {
        &self.frames[frame.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, frame: FrameId) -> &mut Frame {
        &mut self.frames[frame.0 as usize]
    }

    /// Gives a frame back; its buffer stays.
    pub(crate) fn release(&mut self, frame: FrameId) {
        self.free.push(frame.0);
    }

    /// Frames taken and not given back.
    pub(crate) fn in_flight(&self) -> u64 {
        (self.frames.len() - self.free.len()) as u64
    }
}
