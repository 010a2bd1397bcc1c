//! Decodes a fuzzer's bytes into choices.

/// Bytes that are consumed from the front, one choice after another. At the end of the input, zeros are
/// returned, so every prefix of an input is valid.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Creates a source of choices from these bytes.
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Whether all bytes are consumed.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// At most this many bytes.
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

    /// True or false.
    pub fn coin(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// True once in sixteen.
    pub fn rarely(&mut self) -> bool {
        self.byte() & 15 == 15
    }

    /// One of `choices`.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// Mostly `expected` itself, or a number near it; rarely any number.
    pub fn near(&mut self, expected: u64) -> u64 {
        match self.byte() {
            0xff => self.long(),
            choice @ 0xf0.. => expected.wrapping_add(u64::from(choice & 15)).wrapping_sub(7),
            _ => expected,
        }
    }
}
