//! Frames in transit, in buffers that are reused.

use weft_time::Instant;

/// Identifies a frame in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameId(u32);

/// A frame, and what must be known of its sender when it arrives.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    /// When the frame's last bit was sent.
    pub(crate) last_bit: Instant,
    /// Number of crashes of the sender before it sent the frame.
    pub(crate) incarnation: u32,
}

/// All frames from the moment when a machine passes them to the world until they arrive or are lost.
#[derive(Debug, Default)]
pub(crate) struct FramePool {
    frames: Vec<Frame>,
    free: Vec<u32>,
}

impl FramePool {
    /// Allocates an empty frame.
    pub(crate) fn take(&mut self) -> FrameId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.frames.push(Frame::default());
            u32::try_from(self.frames.len() - 1).expect("fewer than 2^32 frames are on their way")
        });
        self.frames[index as usize].bytes.clear();
        FrameId(index)
    }

    /// Allocates a frame with the same content.
    pub(crate) fn copy(&mut self, original: FrameId) -> FrameId {
        let copy = self.take();
        // Taken out and put back, because both buffers are in the same vector.
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

    /// Frees a frame; its buffer is kept for reuse.
    pub(crate) fn release(&mut self, frame: FrameId) {
        self.free.push(frame.0);
    }

    /// Number of allocated frames.
    pub(crate) fn in_flight(&self) -> u64 {
        (self.frames.len() - self.free.len()) as u64
    }
}
