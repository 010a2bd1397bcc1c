//! Choices made by a fuzzer's bytes.

/// Bytes that are taken from the front, one choice after the other. Behind the end come zeros, so that every prefix of
/// an input means something.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Choices from these bytes.
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Whether all bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// At most so many bytes.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn array<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        let mut array = [0; COUNT];
        let taken = self.bytes(COUNT);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// Two bytes.
    pub fn half(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// Four bytes.
    pub fn word(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// Eight bytes.
    pub fn long(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// Yes or no.
    pub fn coin(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Yes once in sixteen.
    pub fn rarely(&mut self) -> bool {
        self.byte() & 15 == 15
    }

    /// One of `choices`.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// A number near `expected`, mostly that itself; rarely any.
    pub fn near(&mut self, expected: u64) -> u64 {
        match self.byte() {
            0xff => self.long(),
            choice @ 0xf0.. => expected.wrapping_add(u64::from(choice & 15)).wrapping_sub(7),
            _ => expected,
        }
    }
}
