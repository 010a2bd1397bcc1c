//! Hash slots of Redis Cluster. Any node of Weft serves any key, so slots only distribute the clients over the
//! nodes.

use weft_waist::{NodeId, NodeSet};

/// Number of hash slots in a Redis cluster.
pub const SLOTS: u16 = 16_384;

/// The hash slot of a key. If the key contains a part in braces, only the first such part is hashed.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|&byte| byte == b'}').filter(|&length| length > 0).map(|length| &rest[..length])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(
            crc ^ u16::from(byte) << 8,
            |crc: u16, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            },
        )
    })
}

/// The slots that clients should send to each node, as (node, first slot, last slot), in order.
pub fn shares(nodes: NodeSet) -> impl Iterator<Item = (NodeId, u16, u16)> {
    let count = nodes.len() as u32;
    let first = move |place: u32| (u32::from(SLOTS) * place).div_ceil(count.max(1)) as u16;
    nodes.iter().zip(0..).map(move |(node, place)| (node, first(place), first(place + 1) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // The check value of the CRC, and slots from the specification of Redis Cluster.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }

    #[test]
    fn every_slot_has_one_node() {
        for count in 1..=16 {
            let shares: Vec<_> = shares(NodeSet::first(count)).collect();
            assert_eq!((shares[0].1, shares[count - 1].2), (0, SLOTS - 1));
            assert!(shares.windows(2).all(|pair| pair[0].2 + 1 == pair[1].1));
        }
    }
}
