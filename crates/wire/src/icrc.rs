//! The invariant CRC: four bytes at the end of every RoCE v2 packet that cover all fields that no switch or
//! router changes (annex A17.3.3, clause 7.8.1).
//!
//! It is Ethernet's CRC-32 over eight bytes of ones (in place of InfiniBand's local route header), the IPv4
//! and UDP headers and the packet. All fields that may change on the path are replaced by ones: type of
//! service, time to live, both checksums, and the BTH byte with the congestion bits. The ICRC is transmitted
//! with its least significant byte first.
//!
//! [`Path`] computes it from addresses and ports. That is enough if an operating system writes the headers:
//! Linux sends a UDP datagram from an unconnected socket with do-not-fragment set and identification 0, and
//! segment `i` of a segmented send (`UDP_SEGMENT`) with identification `i`. If a datagram's identification is
//! unknown, [`Path::solve`] computes it from the ICRC.
//!
//! The IPv6 header has no identification. Its fields that may change are traffic class, flow label and hop
//! limit. [`PathV6`] has all fields that the ICRC covers.

mod identification;

use crc32fast::Hasher;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::ParseError;
use crate::ipv4::{self, Ipv4};
use crate::roce::{self, Bth};
use crate::udp::{self, Udp};

/// Bytes on the wire.
pub const BYTES: usize = 4;

const HEADER_BYTES: usize = Ipv4::BYTES + Udp::BYTES;

/// Offset of the identification in the IPv4 header.
const IDENTIFICATION_AT: usize = 4;

/// Bytes of an IPv6 header.
const IPV6_BYTES: usize = 40;

const HEADER_BYTES_V6: usize = IPV6_BYTES + Udp::BYTES;

/// The state of the CRC register after the eight leading bytes of ones.
const STATE_BEHIND_ONES: u32 = !0x2144_df1c;

/// The initial value of [`Hasher`] that stands for a register of zeros.
const ZERO_STATE: u32 = !0;

/// Bytes that the hash function processes at once.
const LANE_BYTES: usize = 16;

/// The most bytes after the BTH that are copied next to it, so that one call hashes both.
const COPIED_BYTES_MAX: usize = 160;

/// The fields of lower headers that the ICRC covers, except lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// UDP source port; the destination port is [`roce::UDP_PORT`].
    pub source_port: u16,
    /// IPv4 identification.
    pub identification: u16,
    /// IPv4 do-not-fragment flag.
    pub dont_fragment: bool,
}

/// The fields of lower headers that the ICRC covers over IPv6, except lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathV6 {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// UDP source port; the destination port is [`roce::UDP_PORT`].
    pub source_port: u16,
}

impl PathV6 {
    /// The ICRC of a packet, given its bytes from the BTH to the last pad byte.
    ///
    /// # Panics
    ///
    /// As [`Path::icrc`].
    #[inline]
    pub fn icrc(&self, packet: &[u8]) -> u32 {
        self.icrc_of_parts(packet, &[])
    }

    /// The ICRC of a packet whose headers and payload (with its pad bytes) are in two slices.
    ///
    /// # Panics
    ///
    /// As [`Path::icrc_of_parts`].
    #[inline]
    pub fn icrc_of_parts(&self, headers: &[u8], payload: &[u8]) -> u32 {
        let udp_bytes = Udp::BYTES + headers.len() + payload.len() + BYTES;
        let udp_bytes = u16::try_from(udp_bytes).expect("a UDP datagram").to_be_bytes();
        let mut pseudo = [0; HEADER_BYTES_V6];
        pseudo[0] = 0x6f; // version 6, and the first bits of the traffic class
        pseudo[1..4].fill(0xff); // traffic class and flow label
        pseudo[4..6].copy_from_slice(&udp_bytes);
        pseudo[6] = ipv4::PROTOCOL_UDP;
        pseudo[7] = 0xff; // hop limit
        pseudo[8..24].copy_from_slice(&self.source.octets());
        pseudo[24..40].copy_from_slice(&self.destination.octets());
        pseudo[40..42].copy_from_slice(&self.source_port.to_be_bytes());
        pseudo[42..44].copy_from_slice(&roce::UDP_PORT.to_be_bytes());
        pseudo[44..46].copy_from_slice(&udp_bytes);
        pseudo[46..48].fill(0xff); // UDP checksum
        hash(pseudo, headers, payload)
    }

    /// Checks the ICRC of a UDP datagram's payload, whatever its opcode, and returns the payload without the
    /// ICRC.
    ///
    /// # Errors
    ///
    /// As [`Path::verify`].
    #[inline]
    pub fn verify<'a>(&self, udp_payload: &'a [u8]) -> Result<&'a [u8], ParseError> {
        let (packet, icrc) = split(udp_payload)?;
        check(self.icrc(packet), icrc)?;
        Ok(packet)
    }
}

impl Path {
    /// The path of a datagram with these headers to port [`roce::UDP_PORT`].
    pub fn new(ipv4: &Ipv4, udp: &Udp) -> Path {
        Path {
            source: ipv4.source,
            destination: ipv4.destination,
            source_port: udp.source_port,
            identification: ipv4.identification,
            dont_fragment: ipv4.dont_fragment,
        }
    }

    /// The ICRC of a packet, given its bytes from the BTH to the last pad byte.
    ///
    /// # Panics
    ///
    /// If the packet is shorter than a BTH, or longer than a UDP datagram allows (65,503 bytes).
    #[inline]
    pub fn icrc(&self, packet: &[u8]) -> u32 {
        self.icrc_of_parts(packet, &[])
    }

    /// The ICRC of a packet whose headers and payload (with its pad bytes) are in two slices.
    ///
    /// # Panics
    ///
    /// If the headers are shorter than a BTH, or the whole is longer than a UDP datagram allows.
    #[inline]
    pub fn icrc_of_parts(&self, headers: &[u8], payload: &[u8]) -> u32 {
        let udp_bytes = Udp::BYTES + headers.len() + payload.len() + BYTES;
        let total_bytes = u16::try_from(Ipv4::BYTES + udp_bytes).expect("a UDP datagram");
        let mut pseudo = [0; HEADER_BYTES];
        pseudo[0] = 0x45; // version 4, header of five words
        pseudo[2..4].copy_from_slice(&total_bytes.to_be_bytes());
        pseudo[IDENTIFICATION_AT..][..2].copy_from_slice(&self.identification.to_be_bytes());
        pseudo[6] = u8::from(self.dont_fragment) << 6;
        pseudo[9] = ipv4::PROTOCOL_UDP;
        pseudo[12..16].copy_from_slice(&self.source.octets());
        pseudo[16..20].copy_from_slice(&self.destination.octets());
        pseudo[20..22].copy_from_slice(&self.source_port.to_be_bytes());
        pseudo[22..24].copy_from_slice(&roce::UDP_PORT.to_be_bytes());
        pseudo[24..26].copy_from_slice(&(udp_bytes as u16).to_be_bytes());
        masked(pseudo, headers, payload)
    }

    /// Appends the ICRC of the packet that occupies `out` from `start` to the end.
    ///
    /// # Panics
    ///
    /// As [`Path::icrc`].
    pub fn append(&self, out: &mut Vec<u8>, start: usize) {
        let icrc = self.icrc(&out[start..]);
        out.extend_from_slice(&icrc.to_le_bytes());
    }

    /// Checks the ICRC of a UDP datagram's payload, whatever its opcode, and returns the payload without the
    /// ICRC.
    ///
    /// # Errors
    ///
    /// `Truncated` if it is too short for a BTH and an ICRC; `BadField` if it is longer than a UDP datagram
    /// allows; `BadChecksum` if the ICRC is wrong.
    #[inline]
    pub fn verify<'a>(&self, udp_payload: &'a [u8]) -> Result<&'a [u8], ParseError> {
        let (packet, icrc) = split(udp_payload)?;
        check(self.icrc(packet), icrc)?;
        Ok(packet)
    }

    /// Checks a UDP datagram's payload whose IPv4 identification is unknown. Returns the payload without its
    /// ICRC, and the only identification with which the ICRC is correct. [`Path::identification`] is a guess;
    /// a correct one saves some time.
    ///
    /// The solution uses 16 of the 32 check bits, so one in 2^16 datagrams with random errors has a solution.
    /// A receiver that accepts n of the 2^16 identifications accepts n / 2^32 of such datagrams.
    ///
    /// # Errors
    ///
    /// As [`Path::verify`]; `BadChecksum` if the ICRC is wrong with every identification.
    #[inline]
    pub fn solve<'a>(&self, udp_payload: &'a [u8]) -> Result<(&'a [u8], u16), ParseError> {
        let (packet, icrc) = split(udp_payload)?;
        let difference = self.icrc(packet) ^ u32::from_le_bytes(icrc);
        if difference == 0 {
            return Ok((packet, self.identification));
        }
        match identification::solve(difference, HEADER_BYTES - IDENTIFICATION_AT + packet.len()) {
            Some(bits) => Ok((packet, self.identification ^ bits)),
            None => Err(ParseError::BadChecksum { which: "ICRC" }),
        }
    }
}

/// The ICRC of a packet with these two headers. Their checksums need not be filled in.
///
/// # Panics
///
/// If the packet is shorter than a BTH.
pub fn icrc(ipv4_header: &[u8; Ipv4::BYTES], udp_header: &[u8; Udp::BYTES], packet: &[u8]) -> u32 {
    let mut pseudo = [0; HEADER_BYTES];
    pseudo[..Ipv4::BYTES].copy_from_slice(ipv4_header);
    pseudo[Ipv4::BYTES..].copy_from_slice(udp_header);
    masked(pseudo, packet, &[])
}

/// Checks the ICRC of a UDP datagram's payload with these two headers, whatever its opcode, and returns the
/// payload without the ICRC.
///
/// # Errors
///
/// As [`Path::verify`].
pub fn verify<'a>(
    ipv4_header: &[u8; Ipv4::BYTES],
    udp_header: &[u8; Udp::BYTES],
    udp_payload: &'a [u8],
) -> Result<&'a [u8], ParseError> {
    let (packet, received) = split(udp_payload)?;
    check(icrc(ipv4_header, udp_header, packet), received)?;
    Ok(packet)
}

fn split(udp_payload: &[u8]) -> Result<(&[u8], [u8; BYTES]), ParseError> {
    if udp_payload.len() > udp::PAYLOAD_BYTES_MAX {
        return Err(ParseError::BadField { field: "UDP.Length", value: udp_payload.len() as u64 });
    }
    match udp_payload.split_last_chunk() {
        Some((packet, icrc)) if packet.len() >= Bth::BYTES => Ok((packet, *icrc)),
        _ => Err(ParseError::Truncated { have: udp_payload.len(), need: Bth::BYTES + BYTES }),
    }
}

fn check(computed: u32, received: [u8; BYTES]) -> Result<(), ParseError> {
    if computed == u32::from_le_bytes(received) {
        Ok(())
    } else {
        Err(ParseError::BadChecksum { which: "ICRC" })
    }
}

/// Sets the fields of IPv4 and UDP that may change on the path to ones, then hashes.
#[inline]
fn masked(mut headers: [u8; HEADER_BYTES], packet: &[u8], payload: &[u8]) -> u32 {
    headers[1] = 0xff; // type of service
    headers[8] = 0xff; // time to live
    headers[10..12].fill(0xff); // IPv4 checksum
    headers[26..28].fill(0xff); // UDP checksum
    hash(headers, packet, payload)
}

/// The ICRC of a packet with headers whose changeable fields are set to ones.
///
/// The headers and the BTH are copied to a block on the stack. The bytes after them are copied too if they
/// are short, because a call of the hash function costs as much as a hundred bytes. Otherwise they are hashed
/// in place.
///
/// The length of the block is a multiple of the hash function's lane, so zeros are inserted at its front. A
/// CRC register of zeros stays zero for zero bytes, so these have no effect. The state after the leading ones
/// is XORed into the first four bytes of the headers, which is equivalent to starting from that state.
#[inline]
fn hash<const HEADERS: usize>(headers: [u8; HEADERS], packet: &[u8], payload: &[u8]) -> u32 {
    assert!(packet.len() >= Bth::BYTES, "a packet starts with a BTH");
    let mut block = [0; LANE_BYTES + HEADER_BYTES_V6 + Bth::BYTES + COPIED_BYTES_MAX];
    let begin = HEADERS + Bth::BYTES;
    let rest = packet.len() - Bth::BYTES + payload.len();
    let copied = if rest <= COPIED_BYTES_MAX { rest } else { 0 };
    let length = begin + copied;
    let start = length.wrapping_neg() % LANE_BYTES;
    let content = &mut block[start..start + length];
    content[..HEADERS].copy_from_slice(&headers);
    content[HEADERS..begin].copy_from_slice(&packet[..Bth::BYTES]);
    content[HEADERS + 4] = 0xff; // BTH: FECN, BECN and the six reserved bits
    for (byte, state) in content.iter_mut().zip(STATE_BEHIND_ONES.to_le_bytes()) {
        *byte ^= state;
    }
    let mut hasher = Hasher::new_with_initial(ZERO_STATE);
    if copied == rest {
        let packet_end = HEADERS + packet.len();
        content[begin..packet_end].copy_from_slice(&packet[Bth::BYTES..]);
        content[packet_end..].copy_from_slice(payload);
        hasher.update(&block[..start + length]);
    } else {
        hasher.update(&block[..start + length]);
        hasher.update(&packet[Bth::BYTES..]);
        hasher.update(payload);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constant_prefix_is_eight_bytes_of_ones() {
        assert_eq!(crc32fast::hash(&[0xff; 8]), !STATE_BEHIND_ONES);
    }

    /// Computes the ICRC byte by byte, as in the specification's description.
    fn reference(path: &Path, packet: &[u8]) -> u32 {
        let total = (HEADER_BYTES + packet.len() + BYTES) as u16;
        let [source_port, port] = [path.source_port, roce::UDP_PORT].map(u16::to_be_bytes);
        let mut covered = vec![0xff; 8];
        covered.extend([0x45, 0xff]);
        covered.extend(total.to_be_bytes());
        covered.extend(path.identification.to_be_bytes());
        covered.extend([u8::from(path.dont_fragment) << 6, 0, 0xff, 17, 0xff, 0xff]);
        covered.extend(path.source.octets());
        covered.extend(path.destination.octets());
        covered.extend([source_port, port].concat());
        covered.extend((total - 20).to_be_bytes());
        covered.extend([0xff, 0xff]);
        covered.extend(&packet[..4]);
        covered.push(0xff);
        covered.extend(&packet[5..]);
        crc32fast::hash(&covered)
    }

    #[test]
    fn every_length_gives_what_the_covered_bytes_in_one_piece_give() {
        let bytes: Vec<u8> = (0..4_200_u32).map(|place| ((place * place) >> 3) as u8).collect();
        for length in (Bth::BYTES..600).chain(4_000..4_200) {
            let path = Path { identification: length as u16, ..PATH };
            assert_eq!(path.icrc(&bytes[..length]), reference(&path, &bytes[..length]), "{length} bytes");
        }
    }

    /// The same over IPv6.
    #[test]
    fn every_length_over_ipv6_gives_what_the_covered_bytes_in_one_piece_give() {
        let bytes: Vec<u8> = (0..4_200_u32).map(|place| ((place * place) >> 3) as u8).collect();
        let path = PathV6 {
            source: "fd00:9::1".parse().unwrap(),
            destination: "fe80::5054:ff:fe00:2".parse().unwrap(),
            source_port: 0xc123,
        };
        for length in (Bth::BYTES..600).chain(4_000..4_200) {
            let packet = &bytes[..length];
            let udp = ((Udp::BYTES + length + BYTES) as u16).to_be_bytes();
            let mut covered = vec![0xff; 8];
            covered.extend([0x6f, 0xff, 0xff, 0xff, udp[0], udp[1], 17, 0xff]);
            covered.extend(path.source.octets());
            covered.extend(path.destination.octets());
            covered.extend([path.source_port, roce::UDP_PORT].map(u16::to_be_bytes).concat());
            covered.extend([udp[0], udp[1], 0xff, 0xff]);
            covered.extend(&packet[..4]);
            covered.push(0xff);
            covered.extend(&packet[5..]);
            let expected = crc32fast::hash(&covered);
            assert_eq!(path.icrc(packet), expected, "{length} bytes");
            let (headers, payload) = packet.split_at(length.min(Bth::BYTES + length % 5));
            assert_eq!(path.icrc_of_parts(headers, payload), expected, "{length} bytes");
            let datagram = [packet, &expected.to_le_bytes()].concat();
            assert_eq!(path.verify(&datagram), Ok(packet));
            assert!(PathV6 { source_port: 1, ..path }.verify(&datagram).is_err());
        }
    }

    const PATH: Path = Path {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        source_port: 0xc000,
        identification: 0,
        dont_fragment: true,
    };

    #[test]
    fn what_is_appended_verifies_and_any_flipped_bit_that_is_covered_does_not() {
        let mut datagram: Vec<u8> = (0..64).collect();
        PATH.append(&mut datagram, 0);
        assert_eq!(PATH.verify(&datagram), Ok(&datagram[..64]));
        for bit in 0..datagram.len() * 8 {
            let mut corrupted = datagram.clone();
            corrupted[bit / 8] ^= 1 << (bit % 8);
            let masked = bit / 8 == 4; // the BTH byte with the congestion bits
            assert_eq!(PATH.verify(&corrupted).is_ok(), masked, "bit {bit}");
        }
        for other in [
            Path { source: Ipv4Addr::new(10, 0, 0, 3), ..PATH },
            Path { destination: Ipv4Addr::new(10, 0, 0, 3), ..PATH },
            Path { source_port: 1, ..PATH },
            Path { identification: 1, ..PATH },
            Path { dont_fragment: false, ..PATH },
        ] {
            assert_eq!(other.verify(&datagram), Err(ParseError::BadChecksum { which: "ICRC" }));
        }
    }

    #[test]
    fn parts_give_what_the_whole_gives() {
        let packet: Vec<u8> = (0..100).collect();
        for cut in Bth::BYTES..=packet.len() {
            assert_eq!(PATH.icrc_of_parts(&packet[..cut], &packet[cut..]), PATH.icrc(&packet));
        }
    }

    #[test]
    fn too_short_and_too_long_are_named() {
        for bytes in 0..Bth::BYTES + BYTES {
            assert_eq!(PATH.verify(&vec![0; bytes]), Err(ParseError::Truncated { have: bytes, need: 16 }));
        }
        assert!(matches!(PATH.verify(&vec![0; 65_508]), Err(ParseError::BadField { .. })));
        assert!(matches!(PATH.verify(&vec![0; 65_507]), Err(ParseError::BadChecksum { .. })));
    }
}
