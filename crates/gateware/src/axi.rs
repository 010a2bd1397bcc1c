//! Memory behind an AXI4 port without identifiers: all transfers complete in order, after a latency.

mod hbm;

pub(crate) use hbm::Hbm;
pub use hbm::{HbmTiming, MemoryTiming};

use std::collections::VecDeque;

use crate::package::{AxiAddress, AxiRead, WriteBeat};

/// Bytes of a word.
pub(crate) const WORD_BYTES: usize = 64;

/// Outstanding bursts of each kind beyond which the port accepts no more.
const BURSTS_MAX: usize = 256;

/// AXI4's SLVERR: the slave exists, but rejects the address.
const SLAVE_ERROR: u8 = 2;

/// Latency of a memory in clock cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// From a read's address to its first word.
    pub read_cycles: u64,
    /// From a write's last word to its response. The word is visible to reads from then on.
    pub write_cycles: u64,
}

/// Random back-pressure on every port, to provoke bugs that only appear when something stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Seed of the random stalls.
    pub seed: u64,
    /// In how many of 256 cycles, on average, a port is not ready.
    pub stalls_of_256: u8,
}

/// Random back-pressure: whether a port may transfer in this cycle.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    state: u64,
    stalls_of_256: u8,
}

impl Gate {
    pub(crate) fn new(pressure: Option<Pressure>, port: u64) -> Self {
        let Pressure { seed, stalls_of_256 } = pressure.unwrap_or(Pressure { seed: 0, stalls_of_256: 0 });
        Self { state: (seed ^ port.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1, stalls_of_256 }
    }

    #[inline]
    pub(crate) fn is_open(&mut self) -> bool {
        if self.stalls_of_256 == 0 {
            return true;
        }
        // The generator xorshift64*.
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8 >= self.stalls_of_256
    }
}

/// Signals that the memory drives in a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) address_write_ready: bool,
    pub(crate) write_ready: bool,
    pub(crate) response: Option<u8>,
    pub(crate) address_read_ready: bool,
    pub(crate) read: Option<AxiRead>,
}

/// Signals that the port drives in the same cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    pub(crate) address_write: Option<AxiAddress>,
    pub(crate) write: Option<WriteBeat>,
    pub(crate) address_read: Option<AxiAddress>,
    pub(crate) read_ready: bool,
}

/// A burst in progress, at its next word.
#[derive(Clone, Copy, Debug)]
struct Burst {
    due: u64,
    /// Cycles between its words.
    pace: u64,
    address: u64,
    left: u16,
}

impl Burst {
    fn new((due, pace): (u64, u64), address: AxiAddress) -> Self {
        Self { due, pace, address: address.address, left: u16::from(address.length) + 1 }
    }
}

/// A word on its way into the memory.
#[derive(Clone, Copy, Debug)]
struct Write {
    due: u64,
    address: u64,
    beat: WriteBeat,
}

/// Response times of the memory behind a port.
#[derive(Clone, Debug)]
pub(crate) enum Timing {
    /// Always the same latency.
    Fixed(Latency),
    /// Response times of high-bandwidth memory.
    Hbm(Hbm),
}

impl Timing {
    /// When the first word of a read arrives, and the cycles between its words.
    fn read(&mut self, tick: u64, address: AxiAddress) -> (u64, u64) {
        match self {
            Self::Fixed(latency) => (tick + latency.read_cycles.max(1), 1),
            Self::Hbm(hbm) => {
                let first = hbm.read(tick, address.address, u64::from(address.length) + 1);
                (first.max(tick + 1), hbm.beat_cycles())
            }
        }
    }

    /// When a written word is visible.
    fn write(&mut self, tick: u64, address: u64) -> u64 {
        match self {
            Self::Fixed(latency) => tick + latency.write_cycles.max(1),
            Self::Hbm(hbm) => hbm.write(tick, address),
        }
    }
}

/// The port and its outstanding transfers. The bytes are stored elsewhere.
#[derive(Debug)]
pub(crate) struct AxiPort {
    timing: Timing,
    gate: Gate,
    addresses: VecDeque<Burst>,
    writes: VecDeque<Write>,
    /// Whether a word of the burst being written was outside the memory.
    fault: bool,
    responses: VecDeque<u8>,
    reads: VecDeque<Burst>,
    /// The word on the read channel, until it is accepted.
    offered: Option<AxiRead>,
    answer: Answer,
}

impl AxiPort {
    pub(crate) fn new(latency: Latency, gate: Gate) -> Self {
        Self::with_timing(Timing::Fixed(latency), gate)
    }

    pub(crate) fn with_timing(timing: Timing, gate: Gate) -> Self {
        Self {
            timing,
            gate,
            addresses: VecDeque::new(),
            writes: VecDeque::new(),
            fault: false,
            responses: VecDeque::new(),
            reads: VecDeque::new(),
            offered: None,
            answer: Answer::default(),
        }
    }

    /// Whether any transfer is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.offered.is_some()
            || !(self.addresses.is_empty()
                && self.writes.is_empty()
                && self.responses.is_empty()
                && self.reads.is_empty())
    }

    /// The signals that the memory drives in cycle `tick`; they do not depend on the port's signals in that
    /// cycle.
    #[inline]
    pub(crate) fn answer(&mut self, tick: u64, memory: &mut (impl Storage + ?Sized)) -> Answer {
        while let Some(write) = self.writes.front().filter(|write| write.due <= tick) {
            self.fault |= !memory.store(write.address, &write.beat);
            if write.beat.last {
                self.responses.push_back(if std::mem::take(&mut self.fault) { SLAVE_ERROR } else { 0 });
            }
            self.writes.pop_front();
        }
        if self.offered.is_none()
            && let Some(burst) = self.reads.front_mut().filter(|burst| burst.due <= tick)
            && self.gate.is_open()
        {
            burst.left -= 1;
            burst.due += burst.pace;
            self.offered = Some(memory.load(burst.address, burst.left == 0));
            burst.address += WORD_BYTES as u64;
            if burst.left == 0 {
                self.reads.pop_front();
            }
        }
        self.answer = Answer {
            address_write_ready: self.addresses.len() < BURSTS_MAX && self.gate.is_open(),
            write_ready: !self.addresses.is_empty() && self.gate.is_open(),
            response: self.responses.pop_front(),
            address_read_ready: self.reads.len() < BURSTS_MAX && self.gate.is_open(),
            read: self.offered,
        };
        self.answer
    }

    /// Processes the port's signals of the cycle of the last [`AxiPort::answer`].
    #[inline]
    pub(crate) fn take(&mut self, tick: u64, request: &Request) {
        if let Some(beat) = request.write.filter(|_| self.answer.write_ready) {
            let burst = self.addresses.front_mut().expect("ready only with an address");
            let due = self.timing.write(tick, burst.address);
            self.writes.push_back(Write { due, address: burst.address, beat });
            burst.address += WORD_BYTES as u64;
            burst.left -= 1;
            assert_eq!(
                beat.last,
                burst.left == 0,
                "AXI4: the last word of a burst must say so, and no other"
            );
            if beat.last {
                self.addresses.pop_front();
            }
        }
        if let Some(address) = request.address_write.filter(|_| self.answer.address_write_ready) {
            self.addresses.push_back(Burst::new((tick, 1), check(address)));
        }
        if let Some(address) = request.address_read.filter(|_| self.answer.address_read_ready) {
            let when = self.timing.read(tick, address);
            self.reads.push_back(Burst::new(when, check(address)));
        }
        if request.read_ready {
            self.offered = None;
        }
    }
}

/// Checks that a burst obeys the rules.
fn check(address: AxiAddress) -> AxiAddress {
    assert!(address.address.is_multiple_of(WORD_BYTES as u64), "AXI4: {address:x?} begins inside a word");
    let bytes = (u64::from(address.length) + 1) * WORD_BYTES as u64;
    assert!(address.address % 4_096 + bytes <= 4_096, "AXI4: {address:x?} crosses 4 KiB");
    address
}

/// Storage of the bytes.
pub(crate) trait Storage {
    /// Stores the bytes of a word whose strobe is set; `false` if one of them is outside the memory.
    fn store(&mut self, address: u64, beat: &WriteBeat) -> bool;

    /// Loads a word. Bytes behind the end of the memory are zero; a word entirely behind it is an error.
    fn load(&mut self, address: u64, last: bool) -> AxiRead;
}

impl Storage for [u8] {
    fn store(&mut self, address: u64, beat: &WriteBeat) -> bool {
        let start = usize::try_from(address).unwrap_or(usize::MAX).min(self.len());
        let room = &mut self[start..];
        if let Some(word) = room.first_chunk_mut::<WORD_BYTES>().filter(|_| beat.strobe == u64::MAX) {
            for (to, from) in word.chunks_exact_mut(4).zip(beat.data) {
                to.copy_from_slice(&from.to_le_bytes());
            }
            return true;
        }
        let past = 64 - beat.strobe.leading_zeros() as usize;
        if past > room.len() {
            return false;
        }
        for (index, byte) in room.iter_mut().enumerate().take(past) {
            if beat.strobe >> index & 1 != 0 {
                *byte = (beat.data[index / 4] >> (8 * (index % 4))) as u8;
            }
        }
        true
    }

    fn load(&mut self, address: u64, last: bool) -> AxiRead {
        let start = usize::try_from(address).unwrap_or(usize::MAX).min(self.len());
        let room = &self[start..];
        let mut data = [0; WORD_BYTES / 4];
        for (word, bytes) in data.iter_mut().zip(room.chunks(4)) {
            let mut four = [0; 4];
            four[..bytes.len()].copy_from_slice(bytes);
            *word = u32::from_le_bytes(four);
        }
        AxiRead { last, response: if room.is_empty() { SLAVE_ERROR } else { 0 }, data }
    }
}

/// Implements `drive` and `request` functions that connect a memory to the ports with these names.
macro_rules! axi_ports {
    ($inputs:ty, $outputs:ty, $drive:ident, $request:ident: $aw_ready:ident $w_ready:ident $b_valid:ident $b_response:ident
     $ar_ready:ident $r_valid:ident $r:ident; $aw_valid:ident $aw:ident $w_valid:ident $w:ident $ar_valid:ident $ar:ident
     $r_ready:ident) => {
        fn $drive(inputs: &mut $inputs, answer: &crate::axi::Answer) {
            inputs.$aw_ready = answer.address_write_ready.into();
            inputs.$w_ready = answer.write_ready.into();
            inputs.$b_valid = answer.response.is_some().into();
            inputs.$b_response = answer.response.unwrap_or_default();
            inputs.$ar_ready = answer.address_read_ready.into();
            inputs.$r_valid = answer.read.is_some().into();
            if let Some(read) = &answer.read {
                inputs.$r = read.pack();
            }
        }

        fn $request(outputs: &$outputs) -> crate::axi::Request {
            use crate::package::{AxiAddress, WriteBeat};
            crate::axi::Request {
                address_write: (outputs.$aw_valid != 0).then(|| AxiAddress::from_bits(outputs.$aw)),
                write: (outputs.$w_valid != 0).then(|| WriteBeat::unpack(&outputs.$w)),
                address_read: (outputs.$ar_valid != 0).then(|| AxiAddress::from_bits(outputs.$ar)),
                read_ready: outputs.$r_ready != 0,
            }
        }
    };
}
pub(crate) use axi_ports;

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Latency = Latency { read_cycles: 3, write_cycles: 2 };

    fn port() -> AxiPort {
        AxiPort::new(LATENCY, Gate::new(None, 0))
    }

    fn write(last: bool, strobe: u64, byte: u8) -> WriteBeat {
        WriteBeat { last, strobe, data: [u32::from_ne_bytes([byte; 4]); 16] }
    }

    #[test]
    fn a_write_is_there_when_its_response_is() {
        let (mut port, mut memory) = (port(), vec![0; 256]);
        port.answer(0, &mut memory[..]);
        let address = Some(AxiAddress { address: 64, length: 1 });
        port.take(0, &Request { address_write: address, ..Request::default() });
        for tick in 1..=2 {
            assert!(port.answer(tick, &mut memory[..]).write_ready);
            let beat = Some(write(tick == 2, if tick == 2 { 0b110 } else { u64::MAX }, tick as u8));
            port.take(tick, &Request { write: beat, ..Request::default() });
        }
        assert_eq!(port.answer(3, &mut memory[..]).response, None);
        assert_eq!(memory[64..128], [1; 64]);
        assert_eq!(memory[128..132], [0; 4]);
        assert_eq!(port.answer(4, &mut memory[..]).response, Some(0));
        assert_eq!(memory[128..132], [0, 2, 2, 0]);
        assert!(!port.is_busy());
    }

    #[test]
    fn a_read_waits_for_its_latency_and_then_for_the_port() {
        let (mut port, mut memory) = (port(), (0..=255).collect::<Vec<u8>>());
        port.answer(0, &mut memory[..]);
        let address = Some(AxiAddress { address: 64, length: 1 });
        port.take(0, &Request { address_read: address, ..Request::default() });
        assert!(port.answer(2, &mut memory[..]).read.is_none());
        for tick in 3..5 {
            let word = port.answer(tick, &mut memory[..]).read.unwrap();
            assert_eq!((word.data[0], word.last), (0x4342_4140, false));
            port.take(tick, &Request { read_ready: tick == 4, ..Request::default() });
        }
        let word = port.answer(5, &mut memory[..]).read.unwrap();
        assert_eq!((word.data[0], word.last, word.response), (0x8382_8180, true, 0));
    }

    #[test]
    fn what_is_not_installed_is_an_error() {
        let (mut port, mut memory) = (port(), vec![7; 100]);
        port.answer(0, &mut memory[..]);
        let address = Some(AxiAddress { address: 64, length: 0 });
        port.take(0, &Request { address_write: address, ..Request::default() });
        port.answer(1, &mut memory[..]);
        port.take(1, &Request { write: Some(write(true, 1 << 36, 1)), ..Request::default() });
        assert_eq!(port.answer(3, &mut memory[..]).response, Some(SLAVE_ERROR));
        assert_eq!(memory, [7; 100]);
        assert_eq!(memory.load(64, true).response, 0);
        assert_eq!(memory.load(128, true).response, SLAVE_ERROR);
        assert_eq!(memory.load(u64::MAX, true).response, SLAVE_ERROR);
    }
}
