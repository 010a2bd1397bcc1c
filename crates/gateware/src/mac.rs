//! A model of the MAC: whole frames on the network's side, beats of 64 bytes on the card's side.

use std::collections::VecDeque;

use weft_time::{Duration, Instant};

use crate::package;

/// Bytes of a beat.
pub(crate) const BEAT_BYTES: usize = 64;

/// Bytes on the wire in addition to the frame: preamble, frame check sequence, gap.
const FRAMING_BYTES: u64 = 8 + 4 + 12;

/// The shortest frame on the wire without frame check sequence, in bytes.
const FRAME_BYTES_MIN: u64 = 60;

/// Bytes that may wait for the gateware. It takes 64 bytes in every cycle, which is faster than the wire,
/// except for runs of frames whose last beat is mostly empty.
const RECEIVE_FIFO_BYTES: usize = 64 << 10;

/// The MAC accepts a further frame when the wire is free within this time: that of the 66 beats of a frame with
/// 4,096 bytes of payload, so that the wire stays busy whatever the lengths of the frames are. A longer queue
/// would delay frames that are sent later.
const AHEAD: Duration = Duration::from_ns(66 * 4);

/// One beat of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    /// The bytes, the first in the low bits of the first word; unused bytes are zero.
    pub(crate) data: [u32; BEAT_BYTES / 4],
    /// Number of used bytes, 1 to 64.
    pub(crate) bytes: usize,
    pub(crate) last: bool,
}

impl Beat {
    /// The beat as the type `beat_t` of the gateware.
    pub(crate) fn pack(&self) -> [u32; 17] {
        let empty = (BEAT_BYTES - self.bytes) as u8;
        package::Beat { last: self.last, empty, data: self.data }.pack()
    }

    /// The beat with the fields of a packed `beat_t`.
    pub(crate) fn unpack(words: &[u32; 17]) -> Self {
        let beat = package::Beat::unpack(words);
        let bytes = BEAT_BYTES - usize::from(if beat.last { beat.empty } else { 0 });
        Self { data: beat.data, bytes, last: beat.last }
    }

    /// The beat at offset `offset` of a frame.
    #[inline]
    fn of(frame: &[u8], offset: usize) -> Self {
        let rest = &frame[offset..];
        let bytes = rest.len().min(BEAT_BYTES);
        let mut data = [0; BEAT_BYTES / 4];
        for (word, chunk) in data.iter_mut().zip(rest[..bytes].chunks(4)) {
            let mut four = [0; 4];
            four[..chunk.len()].copy_from_slice(chunk);
            *word = u32::from_le_bytes(four);
        }
        Self { data, bytes, last: rest.len() <= BEAT_BYTES }
    }

    /// Appends the used bytes.
    #[inline]
    pub(crate) fn append_to(&self, frame: &mut Vec<u8>) {
        let mut bytes = [0; BEAT_BYTES];
        for (four, word) in bytes.chunks_exact_mut(4).zip(self.data) {
            four.copy_from_slice(&word.to_le_bytes());
        }
        frame.extend_from_slice(&bytes[..self.bytes]);
    }

    /// A mask with one bit for each used byte.
    pub(crate) fn keep(&self) -> u64 {
        u64::MAX >> (BEAT_BYTES - self.bytes)
    }
}

/// A queue of frames that leave beat by beat.
#[derive(Debug, Default)]
pub(crate) struct FrameSource {
    frames: VecDeque<Vec<u8>>,
    offset: usize,
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl FrameSource {
    pub(crate) fn push(&mut self, frame: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.bytes += buffer.len();
        self.frames.push_back(buffer);
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes of the queued frames.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a frame of this many bytes fits.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= RECEIVE_FIFO_BYTES
    }

    /// The beat to offer.
    #[inline]
    pub(crate) fn beat(&self) -> Option<Beat> {
        self.frames.front().map(|frame| Beat::of(frame, self.offset))
    }

    /// Removes the beat, which was accepted.
    #[inline]
    pub(crate) fn advance(&mut self) {
        let Some(frame) = self.frames.front() else { return };
        self.offset += BEAT_BYTES;
        if self.offset >= frame.len() {
            self.offset = 0;
            self.bytes -= frame.len();
            self.spare.extend(self.frames.pop_front());
        }
    }
}

/// Assembles frames from beats.
#[derive(Debug, Default)]
pub(crate) struct FrameSink {
    frame: Vec<u8>,
}

impl FrameSink {
    pub(crate) fn is_empty(&self) -> bool {
        self.frame.is_empty()
    }

    /// Takes a beat. Returns the frame if the beat was its last.
    #[inline]
    pub(crate) fn push(&mut self, beat: &Beat) -> Option<Vec<u8>> {
        beat.append_to(&mut self.frame);
        beat.last.then(|| std::mem::take(&mut self.frame))
    }
}

/// The transmit side, at the rate of the wire.
/// ///
/// A frame starts on the wire when all of it has arrived and the wire is free. The simulated network is
/// store-and-forward as well, so starting earlier would save the time of the beats only once.
#[derive(Debug)]
pub(crate) struct TransmitMac {
    ps_per_byte: u64,
    sink: FrameSink,
    wire_free_at: Instant,
    frames: VecDeque<Vec<u8>>,
}

impl TransmitMac {
    /// # Panics
    /// If a byte does not take a whole number of picoseconds.
    pub(crate) fn new(bits_per_s: u64) -> Self {
        let ps_per_byte = 8_000_000_000_000 / bits_per_s;
        assert_eq!(
            ps_per_byte * bits_per_s,
            8_000_000_000_000,
            "a rate at which a byte takes whole picoseconds"
        );
        Self { ps_per_byte, sink: FrameSink::default(), wire_free_at: Instant::ZERO, frames: VecDeque::new() }
    }

    /// Whether the MAC accepts a beat now. It always does within a frame.
    #[inline]
    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        !self.sink.is_empty() || self.wire_free_at <= now + AHEAD
    }

    /// Takes a beat.
    #[inline]
    pub(crate) fn push(&mut self, now: Instant, beat: &Beat) {
        let Some(frame) = self.sink.push(beat) else { return };
        let on_wire = (frame.len() as u64).max(FRAME_BYTES_MIN) + FRAMING_BYTES;
        self.wire_free_at = now.max(self.wire_free_at) + Duration::from_ps(self.ps_per_byte * on_wire);
        self.frames.push_back(frame);
    }

    /// The next frame for the network.
    pub(crate) fn poll(&mut self) -> Option<Vec<u8>> {
        self.frames.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_the_same_after_its_way_through_beats() {
        for length in [1_usize, 60, 63, 64, 65, 128, 1_514] {
            let frame: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let (mut source, mut sink) = (FrameSource::default(), FrameSink::default());
            source.push(&frame);
            let mut beats = 0;
            let arrived = loop {
                let beat = source.beat().unwrap();
                assert_eq!(beat.keep().count_ones() as usize, beat.bytes);
                source.advance();
                beats += 1;
                if let Some(frame) = sink.push(&beat) {
                    break frame;
                }
            };
            assert_eq!(arrived, frame);
            assert_eq!(beats, length.div_ceil(64));
            assert!(source.is_empty() && source.bytes == 0);
        }
    }

    #[test]
    fn the_wire_sets_the_pace() {
        // Beats are offered at 128 Gb/s. A frame of 138 bytes takes 162 bytes of 80 ps on the wire, one of
        // 4,160 takes 4,184. Of frames in turn, the long one arrives while short ones are on the wire.
        for (lengths, ps) in [
            (&[138_usize][..], 12_960),
            (&[4_160], 334_720),
            (&[138, 138, 4_160], 360_640),
            (&[1_000, 4_160, 60, 2_500], 625_280),
        ] {
            let mut mac = TransmitMac::new(100_000_000_000);
            let mut frames = lengths.iter().cycle().map(|&length| vec![0; length]);
            let (mut source, mut sent) = (FrameSource::default(), 0);
            for cycle in 0..100_000_u64 {
                let now = Instant::from_ps(cycle * 4_000);
                if source.is_empty() {
                    source.push(&frames.next().unwrap());
                }
                if mac.is_ready(now) {
                    mac.push(now, &source.beat().unwrap());
                    source.advance();
                }
                sent += u64::from(mac.poll().is_some());
            }
            let all = lengths.len() as u64 * 100_000 * 4_000 / ps;
            // Those in the MAC at the end have been counted.
            assert!(sent >= all - 2 && sent <= all + 22, "{sent} of {all}: {lengths:?}");
        }
    }
}
