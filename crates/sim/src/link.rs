//! Links: transmission times, and faults of frames in transit.

use serde::Serialize;
use weft_time::{Duration, Instant};
use weft_wire::ethernet::{ETHER_TYPE_IPV4, Ethernet};
use weft_wire::ipv4::mark_congestion;

use crate::random::{Probability, Stream};
use crate::switch::Marking;

/// Preamble and start-of-frame delimiter (IEEE 802.3, 3.1.1).
const PREAMBLE_BYTES: u64 = 8;
/// Frame check sequence.
const FCS_BYTES: u64 = 4;
/// Minimum gap between two frames (IEEE 802.3, 4.4.2).
const GAP_BYTES: u64 = 12;
/// Shorter frames are padded. The minimum is 64 bytes with the frame check sequence.
const FRAME_BYTES_MIN: u64 = 60;

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Bits per second on the wire.
    pub bits_per_s: u64,
    /// Minimum propagation time of a bit.
    pub propagation: Duration,
    /// Maximum additional propagation time of a frame; uniformly distributed. Frames may overtake each other.
    pub jitter: Duration,
}

impl Default for LinkConfig {
    /// 100 Gb/s over 2 m of fibre, in which light travels about 5 ns per metre.
    fn default() -> Self {
        Self { bits_per_s: 100_000_000_000, propagation: Duration::from_ns(10), jitter: Duration::ZERO }
    }
}

/// Frames on one direction of a link. For the direction from the switch, `frames` counts frames that were
/// added to the port's queue, and `queue_drops` and `cut` count frames that were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkCounters {
    /// Frames sent.
    pub frames: u64,
    /// Bytes of these frames, without preamble, check sequence, padding and gap.
    pub bytes: u64,
    /// Frames dropped by loss faults.
    pub lost: u64,
    /// Copies added by duplication faults.
    pub duplicated: u64,
    /// Frames delayed by reordering faults.
    pub reordered: u64,
    /// Frames delivered with flipped bits.
    pub corrupted: u64,
    /// Frames with flipped bits that the frame check sequence detected.
    pub fcs_errors: u64,
    /// Frames dropped because the switch's output queue was full.
    pub queue_drops: u64,
    /// Frames that the switch has marked as having met congestion.
    pub marked: u64,
    /// Frames that a partition or a one-way cut has kept off this link.
    pub cut: u64,
    /// Frames whose sender crashed before their last bit was sent.
    pub aborted: u64,
}

/// Effect of the active faults on one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkFaults {
    pub(crate) loss: Probability,
    pub(crate) duplication: Probability,
    pub(crate) duplicate_delay: Duration,
    pub(crate) reordering: Probability,
    pub(crate) reorder_delay: Duration,
    pub(crate) corruption: Probability,
    pub(crate) caught_by_fcs: Probability,
    /// The rate, in per cent of the link's capacity.
    pub(crate) rate_percent: u8,
}

impl LinkFaults {
    pub(crate) const NONE: Self = Self {
        loss: Probability::NEVER,
        duplication: Probability::NEVER,
        duplicate_delay: Duration::ZERO,
        reordering: Probability::NEVER,
        reorder_delay: Duration::ZERO,
        corruption: Probability::NEVER,
        caught_by_fcs: Probability::NEVER,
        rate_percent: 100,
    };
}

/// What happens to a frame on a faulty link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The frame is lost.
    Lost,
    /// Its flipped bits were detected, and it was dropped.
    FcsError,
    /// The frame arrives.
    Arrives {
        /// The additional delay.
        late_by: Duration,
        /// If there is a copy, its additional delay after the frame.
        copy_after: Option<Duration>,
    },
}

/// One direction of a link, with its transmitter.
#[derive(Debug)]
pub(crate) struct Link {
    config: LinkConfig,
    /// Picoseconds per byte, if that is an integer; it saves a division per frame.
    ps_per_byte: Option<u64>,
    /// When the transmitter has sent all frames so far, including the gap after the last.
    free_at: Instant,
    pub(crate) faults: LinkFaults,
    pub(crate) counters: LinkCounters,
    loss: Stream,
    duplication: Stream,
    reordering: Stream,
    corruption: Stream,
    jitter: Stream,
    marking: Stream,
}

impl Link {
    /// `index` is the number of the link in its world.
    pub(crate) fn new(config: LinkConfig, seed: u64, index: u64) -> Self {
        assert!(config.bits_per_s > 0, "a link has a rate");
        let whole = 8_000_000_000_000 % config.bits_per_s == 0;
        Self {
            config,
            ps_per_byte: whole.then(|| 8_000_000_000_000 / config.bits_per_s),
            free_at: Instant::ZERO,
            faults: LinkFaults::NONE,
            counters: LinkCounters::default(),
            loss: Stream::new(seed, "link loss", index),
            duplication: Stream::new(seed, "link duplication", index),
            reordering: Stream::new(seed, "link reordering", index),
            corruption: Stream::new(seed, "link corruption", index),
            jitter: Stream::new(seed, "link jitter", index),
            marking: Stream::new(seed, "link marking", index),
        }
    }

    /// Time of `bytes` bytes on the wire, rounded up.
    fn time_of(&self, bytes: u64) -> Duration {
        match self.ps_per_byte {
            Some(ps) if self.faults.rate_percent == 100 => Duration::from_ps(ps * bytes),
            _ => {
                let rate = u128::from(self.config.bits_per_s) * u128::from(self.faults.rate_percent);
                let ps = (u128::from(bytes) * 800_000_000_000_000).div_ceil(rate);
                Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
            }
        }
    }

    /// Sends a frame of `length` bytes that is ready at `ready`, after earlier frames. Returns when its last
    /// bit is sent.
    pub(crate) fn transmit(&mut self, ready: Instant, length: usize) -> Instant {
        let start = ready.max(self.free_at);
        let frame = PREAMBLE_BYTES + (length as u64).max(FRAME_BYTES_MIN) + FCS_BYTES;
        let last_bit = start + self.time_of(frame);
        self.free_at = last_bit + self.time_of(GAP_BYTES);
        self.counters.frames += 1;
        self.counters.bytes += length as u64;
        last_bit
    }

    /// Whether at most `limit` bytes wait if a frame of `length` bytes is added at `ready`. A frame waits
    /// until its last bit is sent; everything that takes time on the wire is counted.
    pub(crate) fn has_room(&self, ready: Instant, length: usize, limit: u64) -> bool {
        let frame = PREAMBLE_BYTES + (length as u64).max(FRAME_BYTES_MIN) + FCS_BYTES + GAP_BYTES;
        self.free_at.saturating_since(ready) + self.time_of(frame) <= self.time_of(limit)
    }

    /// Bytes on the wire, gaps included, that wait at `ready` or are being sent.
    pub(crate) fn waiting_bytes(&self, ready: Instant) -> u64 {
        let waits = self.free_at.saturating_since(ready).as_ps();
        let rate = u128::from(self.config.bits_per_s) * u128::from(self.faults.rate_percent);
        (u128::from(waits) * rate / 800_000_000_000_000) as u64
    }

    /// Marks a frame that is added at `ready`, if it may be marked, with the probability that `marking`
    /// gives.
    pub(crate) fn mark(&mut self, ready: Instant, marking: &Marking, frame: &mut [u8]) {
        let probability = marking.probability(self.waiting_bytes(ready));
        if probability == Probability::NEVER || !self.marking.chance(probability) {
            return;
        }
        let is_ipv4 = frame.get(12..14) == Some(&ETHER_TYPE_IPV4.to_be_bytes());
        if is_ipv4 && mark_congestion(&mut frame[Ethernet::BYTES..]) {
            self.counters.marked += 1;
        }
    }

    /// Drops all frames that the transmitter has not sent.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.free_at = now;
    }

    /// Propagation time of the next frame.
    pub(crate) fn propagation(&mut self) -> Duration {
        let jitter = match self.config.jitter.as_ps() {
            0 => 0,
            most => self.jitter.between(0, most),
        };
        self.config.propagation + Duration::from_ps(jitter)
    }

    /// Draws what happens to a frame, and flips its bits if it is to be corrupted.
    pub(crate) fn decide(&mut self, bytes: &mut [u8]) -> Fate {
        if self.faults == LinkFaults::NONE {
            return Fate::Arrives { late_by: Duration::ZERO, copy_after: None };
        }
        if self.loss.chance(self.faults.loss) {
            self.counters.lost += 1;
            return Fate::Lost;
        }
        if self.corruption.chance(self.faults.corruption) {
            if self.corruption.chance(self.faults.caught_by_fcs) {
                self.counters.fcs_errors += 1;
                return Fate::FcsError;
            }
            self.flip_bits(bytes);
            self.counters.corrupted += 1;
        }
        let mut late_by = Duration::ZERO;
        if self.reordering.chance(self.faults.reordering) {
            late_by = Duration::from_ps(self.reordering.between(1, self.faults.reorder_delay.as_ps().max(1)));
            self.counters.reordered += 1;
        }
        let copy_after = self.duplication.chance(self.faults.duplication).then(|| {
            self.counters.duplicated += 1;
            Duration::from_ps(self.duplication.below(self.faults.duplicate_delay.as_ps()))
        });
        Fate::Arrives { late_by, copy_after }
    }

    /// Flips one to four different bits, so the frame always changes.
    fn flip_bits(&mut self, bytes: &mut [u8]) {
        let bits = bytes.len() as u64 * 8;
        if bits == 0 {
            return;
        }
        let first = self.corruption.below(bits);
        let count = self.corruption.between(1, 4).min(bits);
        // At most four steps, each shorter than a quarter of the frame, never reach the same bit twice.
        let step = self.corruption.below(bits / 4).max(1);
        for turn in 0..count {
            let bit = (first + turn * step) % bits;
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(bits_per_s: u64) -> Link {
        Link::new(LinkConfig { bits_per_s, propagation: Duration::ZERO, jitter: Duration::ZERO }, 1, 0)
    }

    #[test]
    fn a_smallest_frame_occupies_84_bytes_of_a_100_gigabit_link() {
        let mut link = link(100_000_000_000);
        // 8 bytes of preamble, 60 of frame, 4 of check sequence: 72 bytes of 80 ps until the last bit is
        // sent.
        assert_eq!(link.transmit(Instant::ZERO, 1), Instant::from_ps(5_760));
        // With a gap of 12 bytes the next frame starts after 84 bytes, 6,720 ps.
        assert_eq!(link.transmit(Instant::ZERO, 60), Instant::from_ps(6_720 + 5_760));
        // That is 148.8 million frames per second, the known maximum of 100 Gb/s Ethernet.
        assert_eq!(1_000_000_000_000u64 / 6_720, 148_809_523);
        // The largest standard frame: 1514 + 24 bytes on the wire.
        assert_eq!(
            link.transmit(Instant::from_ps(1_000_000), 1_514),
            Instant::from_ps(1_000_000 + 1_526 * 80)
        );
        assert_eq!(link.free_at, Instant::from_ps(1_000_000 + 1_538 * 80));
    }

    #[test]
    fn a_rate_that_is_no_whole_number_of_picoseconds_rounds_up() {
        let mut link = link(3_000_000_000);
        assert_eq!(link.transmit(Instant::ZERO, 60), Instant::from_ps((72u64 * 8_000).div_ceil(3)));
    }

    #[test]
    fn a_slow_link_takes_longer() {
        let mut link = link(100_000_000_000);
        link.faults.rate_percent = 10;
        assert_eq!(link.transmit(Instant::ZERO, 60), Instant::from_ps(57_600));
    }

    #[test]
    fn room_is_counted_on_the_wire() {
        let mut link = link(100_000_000_000);
        assert!(link.has_room(Instant::ZERO, 60, 84));
        assert!(!link.has_room(Instant::ZERO, 60, 83));
        link.transmit(Instant::ZERO, 60);
        assert!(!link.has_room(Instant::ZERO, 60, 167));
        assert!(link.has_room(Instant::ZERO, 60, 168));
        assert!(link.has_room(Instant::from_ps(80), 60, 167));
    }

    #[test]
    fn jitter_reaches_from_nothing_to_its_bound() {
        let (propagation, jitter) = (Duration::from_ns(100), Duration::from_ps(9));
        let mut link = Link::new(LinkConfig { propagation, jitter, ..LinkConfig::default() }, 1, 0);
        let mut seen = [0; 10];
        for _ in 0..1_000 {
            seen[(link.propagation() - propagation).as_ps() as usize] += 1;
        }
        assert!(seen.iter().all(|count| (50..150).contains(count)), "{seen:?}");
    }

    #[test]
    fn corruption_changes_every_frame() {
        let mut link = link(100_000_000_000);
        link.faults.corruption = Probability::new(1.0).unwrap();
        for length in [1, 2, 3, 14, 60, 1_514] {
            for _ in 0..200 {
                let mut bytes = vec![0; length];
                link.decide(&mut bytes);
                let flipped: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
                assert!((1..=4).contains(&flipped), "{flipped} bits of {length} bytes");
            }
        }
        assert_eq!(link.counters.corrupted, 1_200);
    }
}
