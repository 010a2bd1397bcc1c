//! Response times of high-bandwidth memory: channels, banks, rows, and a port whose bursts stay in order.
//!
//! Addresses are interleaved over the channels. A channel transfers one burst's part after another. A bank
//! has one open row, and opening another costs time. The port transfers a beat of 64 bytes in two cycles,
//! because the memory's own port is 256 bits wide. It keeps its reads in order, and its writes. This models
//! the card from which the numbers come (NIC-KV, which does not use reordering).

use super::{Latency, Timing, WORD_BYTES};

/// Sizes and times, in clock cycles of 4 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HbmTiming {
    /// Pseudo-channels.
    pub channels: u64,
    /// Bytes of consecutive addresses in one channel.
    pub interleave_bytes: u64,
    /// Banks of a channel.
    pub banks: u64,
    /// Bytes of a bank's row.
    pub row_bytes: u64,
    /// Cycles for each beat of 64 bytes at the port.
    pub beat_cycles: u64,
    /// Cycles for each beat of 64 bytes in a channel.
    pub channel_beat_cycles: u64,
    /// From a read's address to its first beat, for an idle channel and a closed row.
    pub read_cycles: u64,
    /// From a write's last beat, after its transfer through the port, to its response; for an idle channel
    /// and a closed row.
    pub write_cycles: u64,
    /// Cycles saved if the row is already open.
    pub row_hit_cycles: u64,
    /// Additional cycles if another row is open.
    pub row_conflict_cycles: u64,
}

impl HbmTiming {
    /// The memory of NIC-KV's prototype, as measured on an Alveo card with 1 KB values (tables 5.7 and 5.8):
    /// 376 ns for a read, 384 ns for a write, including the memory controller. The growth with the size is
    /// from the simulations in tables 5.4 and 5.6: 8 ns for each 64 bytes, for reads and writes (5.6, read:
    /// 284 ns for 128 bytes, 404 for 1 KB, 528 for 2 KB; write: 192, 304, 432). So a read's first beat comes
    /// after 376 - 16 x 8 = 248 ns, and a write is answered 384 - 16 x 8 = 256 ns after its last beat. Tables
    /// 5.3 and 5.5 add MAC or PCIe to these paths. Channels, banks and rows are those of HBM2 (JESD235): 32
    /// pseudo-channels of 16 banks with rows of 1 KB, some 14 ns each to close a row and to open one.
    pub const NIC_KV: Self = Self {
        channels: 32,
        interleave_bytes: 256,
        banks: 16,
        row_bytes: 1024,
        beat_cycles: 2,
        channel_beat_cycles: 1,
        read_cycles: 62,
        write_cycles: 64,
        row_hit_cycles: 4,
        row_conflict_cycles: 4,
    };

    /// The same memory behind a port that transfers a beat every cycle, as the gateware's does. 1 KB takes as
    /// long as with [`HbmTiming::NIC_KV`], whose path through width converters carries 64 Gb/s, less than the
    /// link.
    pub const WIDE_PORT: Self = Self { beat_cycles: 1, read_cycles: 78, write_cycles: 80, ..Self::NIC_KV };
}

/// Response times of the engine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryTiming {
    /// Always the same latency.
    Fixed(Latency),
    /// Response times of high-bandwidth memory, with channels, banks and rows.
    Hbm(HbmTiming),
}

impl MemoryTiming {
    /// The model's state at power-on.
    pub(crate) fn start(self) -> Timing {
        match self {
            Self::Fixed(latency) => Timing::Fixed(latency),
            Self::Hbm(timing) => Timing::Hbm(Hbm::new(timing)),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    row: Option<u64>,
    free_at: u64,
}

/// The open rows, and when each resource becomes free.
#[derive(Clone, Debug)]
pub(crate) struct Hbm {
    timing: HbmTiming,
    /// When each channel has finished its transfers.
    channels: Vec<u64>,
    banks: Vec<Bank>,
    read_free_at: u64,
    write_free_at: u64,
    last_response: u64,
}

impl Hbm {
    pub(crate) fn new(timing: HbmTiming) -> Self {
        Self {
            timing,
            channels: vec![0; timing.channels as usize],
            banks: vec![Bank::default(); (timing.channels * timing.banks) as usize],
            read_free_at: 0,
            write_free_at: 0,
            last_response: 0,
        }
    }

    /// Cycles between the beats of a burst.
    pub(crate) const fn beat_cycles(&self) -> u64 {
        self.timing.beat_cycles
    }

    /// When the first beat of a read of this length arrives.
    pub(crate) fn read(&mut self, tick: u64, address: u64, beats: u64) -> u64 {
        let ready = self.access(tick, address, beats, self.timing.read_cycles);
        let first = ready.max(self.read_free_at);
        self.read_free_at = first + beats * self.timing.beat_cycles;
        first
    }

    /// Takes a beat of a write. Returns when it is in memory, which is also the response time of the last
    /// beat.
    pub(crate) fn write(&mut self, tick: u64, address: u64) -> u64 {
        let passed = tick.max(self.write_free_at) + self.timing.beat_cycles;
        self.write_free_at = passed;
        self.last_response =
            self.access(passed, address, 1, self.timing.write_cycles).max(self.last_response);
        self.last_response
    }

    /// When a burst that reaches the memory at `tick` has its first beat ready.
    fn access(&mut self, tick: u64, address: u64, beats: u64, cycles: u64) -> u64 {
        let HbmTiming { channels, interleave_bytes, banks, row_bytes, .. } = self.timing;
        let (mut at, end, mut ready) = (address, address + beats * WORD_BYTES as u64, 0);
        while at < end {
            let part_end = end.min((at / interleave_bytes + 1) * interleave_bytes);
            let (channel, line) = (at / interleave_bytes % channels, at / interleave_bytes / channels);
            // The rows of a channel are distributed over its banks.
            let row = line * interleave_bytes / row_bytes;
            let bank = &mut self.banks[(channel * banks + row % banks) as usize];
            let begin = tick.max(self.channels[channel as usize]).max(bank.free_at);
            let (extra, saved) = match bank.row.replace(row) {
                Some(open) if open == row => (0, self.timing.row_hit_cycles),
                Some(_) => (self.timing.row_conflict_cycles, 0),
                None => (0, 0),
            };
            let moves = (part_end - at).div_ceil(WORD_BYTES as u64) * self.timing.channel_beat_cycles;
            self.channels[channel as usize] = begin + moves;
            bank.free_at = begin + moves + extra;
            ready = ready.max(begin + cycles + extra - saved.min(cycles));
            at = part_end;
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: HbmTiming = HbmTiming::NIC_KV;

    /// Cycles from the request to the end of the last beat.
    fn read_takes(hbm: &mut Hbm, tick: u64, address: u64, bytes: u64) -> u64 {
        let beats = bytes.div_ceil(64);
        hbm.read(tick, address, beats) + beats * T.beat_cycles - tick
    }

    fn write_takes(hbm: &mut Hbm, tick: u64, address: u64, bytes: u64) -> u64 {
        let beats = bytes.div_ceil(64);
        (0..beats).map(|beat| hbm.write(tick + beat, address + 64 * beat)).last().unwrap() - tick
    }

    #[test]
    fn a_kilobyte_takes_what_was_measured() {
        assert_eq!(4 * read_takes(&mut Hbm::new(T), 100, 0, 1024), 376);
        let write = 4 * write_takes(&mut Hbm::new(T), 100, 0, 1024);
        assert!((368..=384).contains(&write), "{write} ns: a row that the burst has opened stays open");
    }

    #[test]
    fn a_wide_port_takes_as_long_for_a_kilobyte() {
        let timing = HbmTiming::WIDE_PORT;
        let mut hbm = Hbm::new(timing);
        assert_eq!(hbm.read(100, 0, 16) + 16 * timing.beat_cycles - 100, 94);
        let write = (0..16).map(|beat| hbm.write(1000 + beat, 64 * beat)).last().unwrap() - 1000;
        assert!((92..=96).contains(&write), "{write} cycles");
    }

    #[test]
    fn sizes_grow_as_in_the_simulations() {
        // Table 5.6, HBM to QDMA: 128 B, 256 B, 512 B, 1 KB, 2 KB.
        let table = [284, 308, 340, 404, 528];
        let sizes = [128, 256, 512, 1024, 2048];
        let model = sizes.map(|bytes| 4 * read_takes(&mut Hbm::new(T), 0, 0, bytes));
        for ((model, table), size) in model.iter().zip(table).zip(sizes) {
            let (grown, expected) = (model - 4 * read_takes(&mut Hbm::new(T), 0, 0, 128), table - 284);
            assert!(grown.abs_diff(expected) <= 16, "{size} bytes: {grown} and not {expected} ns more");
        }
    }

    #[test]
    fn an_open_row_is_faster_and_another_one_slower() {
        let first = |hbm: &mut Hbm, tick, address| hbm.read(tick, address, 1) - tick;
        let mut hbm = Hbm::new(T);
        assert_eq!(first(&mut hbm, 0, 0), T.read_cycles);
        assert_eq!(first(&mut hbm, 1000, 64), T.read_cycles - T.row_hit_cycles);
        // The next row of the same bank.
        let same_bank = T.channels * T.row_bytes * T.banks;
        assert_eq!(first(&mut hbm, 2000, same_bank), T.read_cycles + T.row_conflict_cycles);
        assert_eq!(first(&mut hbm, 3000, T.interleave_bytes), T.read_cycles, "another channel");
    }

    #[test]
    fn bursts_stay_in_order_and_overlap() {
        let mut hbm = Hbm::new(T);
        let conflict = T.channels * T.row_bytes * T.banks;
        hbm.read(0, 0, 1);
        let slow = hbm.read(1000, conflict, 1);
        let fast = hbm.read(1001, 512, 16);
        assert!(fast >= slow + T.beat_cycles, "what was asked later comes later");
        let next = hbm.read(1002, 8192, 16);
        assert_eq!(next, fast + 16 * T.beat_cycles, "the port is busy without a gap");
    }

    #[test]
    fn one_channel_is_a_bottleneck() {
        let stride = T.channels * T.interleave_bytes;
        let far = |addresses: &dyn Fn(u64) -> u64| {
            let mut hbm = Hbm::new(HbmTiming { beat_cycles: 1, channel_beat_cycles: 4, ..T });
            (0..32).map(|index| hbm.read(0, addresses(index), 1)).max().unwrap()
        };
        assert!(far(&|index| index * stride) > far(&|index| index * T.interleave_bytes) + 60);
    }
}
