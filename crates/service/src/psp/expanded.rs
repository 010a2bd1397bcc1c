//! A key in the form that gateware needs: the round keys of AES and the first powers of the hash key.
//!
//! The driver expands keys, so the gateware does not have to. The results are tested against FIPS 197. The
//! timing of the computation can reveal the key, which does not matter because the key itself is in the same
//! memory.

use super::cipher::Key;

/// A block of 16 bytes. Byte 0 is the first byte in the notation of the standard.
pub type Block = [u8; 16];

/// Number of powers of the hash key that the gateware needs, because it hashes four blocks per cycle.
pub const POWERS: usize = 4;

/// An expanded key.
#[derive(Clone, PartialEq, Eq)]
pub struct Expanded {
    /// The keys that are added before the first round and in each round: 11 or 15.
    pub rounds: Vec<Block>,
    /// The first to fourth power of the hash key.
    pub powers: [Block; POWERS],
}

impl Expanded {
    /// Expands a key.
    pub fn new(key: &Key) -> Self {
        let rounds = match key {
            Key::Aes128(key) => round_keys(key),
            Key::Aes256(key) => round_keys(key),
        };
        let first = encrypt(&rounds, [0; 16]);
        let mut powers = [first; POWERS];
        for power in 1..POWERS {
            powers[power] = product(powers[power - 1], first);
        }
        Self { rounds, powers }
    }
}

/// The value multiplied by x in the field of AES.
const fn doubled(value: u8) -> u8 {
    value << 1 ^ if value & 0x80 != 0 { 0x1b } else { 0 }
}

/// The S-box (FIPS 197, 5.1.1). 3 generates the multiplicative group of the field, and its inverse is 0xf6.
/// So the powers of 3 and 0xf6 give all values with their inverses.
const SUBSTITUTIONS: [u8; 256] = {
    let mut table = [0x63; 256];
    let (mut value, mut inverse, mut step) = (1_u8, 1_u8, 0);
    while step < 255 {
        table[value as usize] = inverse
            ^ inverse.rotate_left(1)
            ^ inverse.rotate_left(2)
            ^ inverse.rotate_left(3)
            ^ inverse.rotate_left(4)
            ^ 0x63;
        value ^= doubled(value);
        // Multiplies by 0xf6, which is x^7 + x^6 + x^5 + x^4 + x^2 + x.
        inverse ^= inverse << 1;
        inverse ^= inverse << 2;
        inverse ^= inverse << 4;
        if inverse & 0x80 != 0 {
            inverse ^= 9;
        }
        step += 1;
    }
    table
};

fn substituted(word: [u8; 4]) -> [u8; 4] {
    word.map(|byte| SUBSTITUTIONS[usize::from(byte)])
}

/// The round keys (FIPS 197, 5.2).
fn round_keys(key: &[u8]) -> Vec<Block> {
    let words = key.len() / 4;
    let mut all: Vec<[u8; 4]> =
        key.chunks_exact(4).map(|word| word.try_into().expect("four bytes")).collect();
    let mut constant = 1_u8;
    while all.len() < 4 * (words + 7) {
        let mut word = all[all.len() - 1];
        if all.len().is_multiple_of(words) {
            word.rotate_left(1);
            word = substituted(word);
            word[0] ^= constant;
            constant = doubled(constant);
        } else if words > 6 && all.len() % words == 4 {
            word = substituted(word);
        }
        let former = all[all.len() - words];
        all.push(std::array::from_fn(|byte| word[byte] ^ former[byte]));
    }
    all.chunks_exact(4).map(|words| words.concat().try_into().expect("sixteen bytes")).collect()
}

/// Encrypts a block (FIPS 197, 5.1).
fn encrypt(rounds: &[Block], block: Block) -> Block {
    let added = |state: Block, key: &Block| std::array::from_fn(|at| state[at] ^ key[at]);
    let (first, rest) = rounds.split_first().expect("a key has rounds");
    let mut state: Block = added(block, first);
    for (number, key) in rest.iter().enumerate() {
        let shifted: Block = std::array::from_fn(|at| SUBSTITUTIONS[usize::from(state[5 * at % 16])]);
        let mixed = |at: usize| {
            let of = |row: usize| shifted[at & 12 | (at + row) & 3];
            doubled(of(0) ^ of(1)) ^ of(1) ^ of(2) ^ of(3)
        };
        let is_last = number + 1 == rest.len();
        state = added(if is_last { shifted } else { std::array::from_fn(mixed) }, key);
    }
    state
}

/// The product in the field of GHASH (NIST SP 800-38D, 6.3).
fn product(one: Block, other: Block) -> Block {
    let (one, mut shifted) = (u128::from_be_bytes(one), u128::from_be_bytes(other));
    let mut sum = 0;
    for bit in (0..128).rev() {
        if one >> bit & 1 != 0 {
            sum ^= shifted;
        }
        shifted = shifted >> 1 ^ if shifted & 1 != 0 { 0xe1 << 120 } else { 0 };
    }
    sum.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::psp::Cipher;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
    }

    /// Examples from FIPS 197, A.1, A.3 and C.
    #[test]
    fn the_examples_of_the_standard() {
        let short = round_keys(&bytes::<16>("2b7e151628aed2a6abf7158809cf4f3c"));
        assert_eq!(short[10], bytes("d014f9a8c9ee2589e13f0cc8b6630ca6"));
        let long =
            round_keys(&bytes::<32>("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"));
        assert_eq!((long.len(), long[14]), (15, bytes("fe4890d1e6188d0b046df344706c631e")));
        let plain = bytes("00112233445566778899aabbccddeeff");
        let key = bytes::<32>("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
        assert_eq!(encrypt(&round_keys(&key[..16]), plain), bytes("69c4e0d86a7b0430d8cdb78070b4c55a"));
        assert_eq!(encrypt(&round_keys(&key), plain), bytes("8ea2b7ca516745bfeafc49904b496089"));
    }

    /// The tag of a one-block message is the tag that a library computes.
    #[test]
    fn powers_hash_as_a_library_does() {
        for key in [Key::Aes128([7; 16]), Key::Aes256([9; 32])] {
            let expanded = Expanded::new(&key);
            let nonce = [3; 12];
            let mut text = [0x5a; 32];
            let tag = Cipher::new(&key).seal(&nonce, &[], &mut text);
            let mut counter = [0; 16];
            counter[..12].copy_from_slice(&nonce);
            counter[15] = 1;
            let mut lengths = [0; 16];
            lengths[14] = 1;
            let blocks = [text[..16].try_into().unwrap(), text[16..].try_into().unwrap(), lengths];
            let products = blocks.iter().zip(expanded.powers[..3].iter().rev());
            let hash = products.fold([0; 16], |sum: Block, (block, power)| {
                let product = product(*block, *power);
                std::array::from_fn(|at| sum[at] ^ product[at])
            });
            let hidden = encrypt(&expanded.rounds, counter);
            assert_eq!(tag, std::array::from_fn::<u8, 16, _>(|at| hash[at] ^ hidden[at]));
        }
    }
}
