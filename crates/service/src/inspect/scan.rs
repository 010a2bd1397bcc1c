//! The score of one packet, whose bytes come in any pieces.

use super::Verdict;
use super::segment::Segment;
use super::tables::{BEFORE, KIND, OWN, PAIRS, REPEATED, SKIPS, THRESHOLD};

/// Distances of the bytes before which the tables of skipped pairs are read with.
const DISTANCES: [usize; 3] = [2, 3, 4];
/// A byte is repeated if it and those before it, this many in all, are equal to the bytes at one distance.
const REPEAT_LENGTH: u32 = 3;
/// The largest such distance; the smallest is 1.
const REPEAT_DISTANCE: usize = 16;
/// Number of bits of a class, in the tables' addresses.
const OWN_BITS: u32 = 7;
const KIND_BITS: u32 = 5;

const _: () = assert!(PAIRS.len() == 1 << (5 + OWN_BITS) && SKIPS[0].len() == 1 << (2 * KIND_BITS + 1));

/// State of a packet that is being scored. The size is fixed; nothing is allocated.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The bytes before, the latest last.
    before: [u8; REPEAT_DISTANCE],
    /// How many of them there are.
    present: usize,
    /// For each distance, the number of latest bytes that are equal to the bytes at this distance, up to
    /// [`REPEAT_LENGTH`].
    equal: [u32; REPEAT_DISTANCE],
    segment: Segment,
}

impl Default for Scan {
    fn default() -> Self {
        Self::new()
    }
}

impl Scan {
    /// A packet without bytes yet.
    pub fn new() -> Self {
        Self {
            before: [0; REPEAT_DISTANCE],
            present: 0,
            equal: [0; REPEAT_DISTANCE],
            segment: Segment::default(),
        }
    }

    /// Takes the packet's next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let score = self.score(*byte);
            self.segment = self.segment.then(Segment::of(score));
            self.before.rotate_left(1);
            self.before[REPEAT_DISTANCE - 1] = *byte;
            self.present = (self.present + 1).min(REPEAT_DISTANCE);
        }
    }

    /// The verdict on the bytes until now, as if they were not the first of a message.
    pub fn verdict(&self) -> Verdict {
        let Segment { best, .. } = self.segment;
        Verdict { score: best as u32, begins: false, flagged: best >= THRESHOLD }
    }

    /// The score that the packet's next byte has if it is this one.
    pub fn score_of(&self, byte: u8) -> i32 {
        self.clone().score(byte)
    }

    /// The byte at this distance before the next one.
    fn at(&self, distance: usize) -> Option<u8> {
        (distance <= self.present).then(|| self.before[REPEAT_DISTANCE - distance])
    }

    /// The score of the next byte.
    fn score(&mut self, byte: u8) -> i32 {
        let mut is_repeated = false;
        for distance in 1..=REPEAT_DISTANCE {
            let is_equal = self.at(distance) == Some(byte);
            let length = &mut self.equal[distance - 1];
            *length = if is_equal { (*length + 1).min(REPEAT_LENGTH) } else { 0 };
            is_repeated |= *length == REPEAT_LENGTH;
        }
        if is_repeated {
            return REPEATED;
        }
        let pair = self.at(1).map_or(0, |before| {
            let address =
                usize::from(BEFORE[usize::from(before)]) << OWN_BITS | usize::from(OWN[usize::from(byte)]);
            PAIRS[address].into()
        });
        let skips = DISTANCES.iter().zip(&SKIPS).map(|(distance, table)| {
            self.at(*distance).map_or(0, |before| {
                let same = usize::from(before == byte) << (2 * KIND_BITS);
                let kinds = usize::from(KIND[usize::from(before)]) << KIND_BITS
                    | usize::from(KIND[usize::from(byte)]);
                i32::from(table[same | kinds])
            })
        });
        pair + skips.sum::<i32>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scanned<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Verdict {
        let mut scan = Scan::new();
        pieces.into_iter().for_each(|piece| scan.push(piece));
        scan.verdict()
    }

    /// The score by its definition, from the whole packet.
    fn defined(packet: &[u8]) -> i32 {
        let score = |at: usize| {
            let is_repeated = (1..=16).any(|distance| {
                at >= distance + 2 && (0..3).all(|back| packet[at - back] == packet[at - back - distance])
            });
            if is_repeated {
                return REPEATED;
            }
            let byte = usize::from(packet[at]);
            let mut sum = 0;
            if at >= 1 {
                let before = usize::from(packet[at - 1]);
                sum += i32::from(PAIRS[usize::from(BEFORE[before]) * 128 + usize::from(OWN[byte])]);
            }
            for (table, distance) in SKIPS.iter().zip(2..) {
                if at >= distance {
                    let before = usize::from(packet[at - distance]);
                    let same = usize::from(before == byte) * 1_024;
                    sum += i32::from(table[same + usize::from(KIND[before]) * 32 + usize::from(KIND[byte])]);
                }
            }
            sum
        };
        let (mut run, mut best) = (0, 0);
        for at in 0..packet.len() {
            run = (run + score(at)).max(0);
            best = best.max(run);
        }
        best
    }

    /// Bytes as data has them: some bytes repeat.
    fn packet() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 1..600),
            proptest::collection::vec(0_u8..3, 1..600),
            (proptest::collection::vec(any::<u8>(), 1..20), 1_usize..40)
                .prop_map(|(part, times)| part.repeat(times)),
        ]
    }

    proptest! {
        #[test]
        fn any_division_of_a_packet_gives_the_verdict_of_the_whole(
            packet in packet(),
            cuts in proptest::collection::vec(1_usize..70, 0..40),
        ) {
            let mut rest = packet.as_slice();
            let mut pieces: Vec<&[u8]> = Vec::new();
            for cut in cuts {
                let (piece, others) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = others;
            }
            pieces.push(rest);
            let whole = scanned([packet.as_slice()]);
            prop_assert_eq!(scanned(pieces), whole);
            prop_assert_eq!(whole.score as i32, defined(&packet));
            prop_assert_eq!(whole.flagged, defined(&packet) >= THRESHOLD);
        }
    }

    /// Data before and after code does not hide it, and code that is cut off has less evidence.
    #[test]
    fn a_run_keeps_its_score_in_any_surroundings() {
        let packet: Vec<u8> = (0..2_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let part = scanned([&packet[300..900]]).score;
        // The first bytes of a part have no bytes before them.
        assert!(scanned([&packet[..]]).score + 4 * 4 * 63 >= part);
        assert!(scanned([&packet[..1_000]]).score <= scanned([&packet[..]]).score);
    }

    #[test]
    fn a_packet_of_one_byte_throughout_is_clean() {
        for byte in 0..=255 {
            assert!(!scanned([[byte; 4_096].as_slice()]).flagged, "{byte:#04x}");
        }
    }
}
