//! The format of the messages (clause 12.6), and the IP addresses that they contain (annex A11).

use std::net::{IpAddr, SocketAddr};

use weft_wire::roce::{Gid, MASK_24};

use crate::MAD_BYTES;

/// Number of bytes of the common header.
const HEADER: usize = 24;

/// Management class of communication management with its version, and the only method that is used.
const CLASS: [u8; 4] = [1, 0x07, 2, 0x03];

/// The service on which a program listens: a port in a port space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service(pub u64);

impl Service {
    /// The service for a port in a port space of librdmacm, such as `RDMA_PS_TCP` (0x0106).
    pub const fn new(space: u16, port: u16) -> Self {
        Self((space as u64) << 16 | port as u64)
    }

    /// The port.
    pub const fn port(self) -> u16 {
        self.0 as u16
    }
}

/// The header of annex A11 at the beginning of the private data.
pub mod private {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    /// Number of bytes of private data that the header takes.
    pub const BYTES: usize = 36;

    /// Encodes the header: the requester's address and port, and the destination's address.
    pub fn header(source: SocketAddr, destination: IpAddr) -> [u8; BYTES] {
        let mut header = [0; BYTES];
        header[2..4].copy_from_slice(&source.port().to_be_bytes());
        for (at, address) in [(4, source.ip()), (20, destination)] {
            match address {
                IpAddr::V4(address) => {
                    header[1] = 4 << 4;
                    header[at + 12..at + 16].copy_from_slice(&address.octets());
                }
                IpAddr::V6(address) => {
                    header[1] = 6 << 4;
                    header[at..at + 16].copy_from_slice(&address.octets());
                }
            }
        }
        header
    }

    /// The requester's address and port; `None` if there is no such header.
    pub fn source(bytes: &[u8]) -> Option<SocketAddr> {
        let header: &[u8; BYTES] = bytes.first_chunk()?;
        let port = u16::from_be_bytes([header[2], header[3]]);
        let address: [u8; 16] = header[4..20].try_into().ok()?;
        let address = match header[1] >> 4 {
            4 => Ipv4Addr::new(address[12], address[13], address[14], address[15]).into(),
            6 => IpAddr::from(address),
            _ => return None,
        };
        (header[0] == 0).then(|| SocketAddr::new(address, port))
    }
}

/// A request for a connection (REQ).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub struct Req {
    pub local_id: u32,
    pub service: Service,
    pub guid: u64,
    pub queue_pair: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub starting_psn: u32,
    /// The acknowledgement time-out, as a code.
    pub ack_timeout: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    /// The path MTU, as a code.
    pub mtu: u8,
    pub srq: bool,
    pub flow_control: bool,
    pub reliable: bool,
    pub source: IpAddr,
    pub destination: IpAddr,
    /// At most 92 bytes.
    pub private: Vec<u8>,
}

/// The answer that accepts a request (REP).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub struct Rep {
    pub local_id: u32,
    pub remote_id: u32,
    pub queue_pair: u32,
    pub starting_psn: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: bool,
    pub rnr_retry_count: u8,
    pub srq: bool,
    pub guid: u64,
    /// At most 196 bytes.
    pub private: Vec<u8>,
}

/// The reason for a refusal: a code of clause 12.6.7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject(pub u16);

impl Reject {
    /// The attempt has timed out.
    pub const TIMEOUT: Self = Self(4);
    /// No program listens on the service.
    pub const INVALID_SERVICE: Self = Self(8);
    /// The program has refused.
    pub const CONSUMER: Self = Self(28);
}

/// A message of the connection manager.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Message {
    Req(Req),
    Mra { local_id: u32, remote_id: u32 },
    Rej { local_id: u32, remote_id: u32, reason: Reject, private: Vec<u8> },
    Rep(Rep),
    Rtu { local_id: u32, remote_id: u32 },
    Dreq { local_id: u32, remote_id: u32, queue_pair: u32 },
    Drep { local_id: u32, remote_id: u32 },
    SidrReq { request: u32, service: Service, private: Vec<u8> },
    SidrRep { request: u32, status: u8, service: Service, queue_pair: u32, queue_key: u32, private: Vec<u8> },
}

/// The fields of a message after its common header.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    fn u24(&self, at: usize) -> u32 {
        u32::from_be_bytes([0, self.0[at], self.0[at + 1], self.0[at + 2]])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }

    fn gid(&self, at: usize) -> IpAddr {
        Gid(self.0[at..at + 16].try_into().expect("16 bytes")).address()
    }

    fn rest(&self, at: usize) -> Vec<u8> {
        self.0[at..].to_vec()
    }
}

struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn bytes(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u16(&mut self, at: usize, value: u16) {
        self.bytes(at, &value.to_be_bytes());
    }

    fn u24(&mut self, at: usize, value: u32) {
        self.bytes(at, &(value & MASK_24).to_be_bytes()[1..]);
    }

    fn u32(&mut self, at: usize, value: u32) {
        self.bytes(at, &value.to_be_bytes());
    }

    fn u64(&mut self, at: usize, value: u64) {
        self.bytes(at, &value.to_be_bytes());
    }

    /// Writes as many of the bytes as fit.
    fn private(&mut self, at: usize, bytes: &[u8]) {
        let room = self.0.len() - at;
        self.bytes(at, &bytes[..bytes.len().min(room)]);
    }
}

impl Message {
    /// The message's attribute (table 106).
    const fn attribute(&self) -> u16 {
        match self {
            Self::Req(_) => 0x10,
            Self::Mra { .. } => 0x11,
            Self::Rej { .. } => 0x12,
            Self::Rep(_) => 0x13,
            Self::Rtu { .. } => 0x14,
            Self::Dreq { .. } => 0x15,
            Self::Drep { .. } => 0x16,
            Self::SidrReq { .. } => 0x17,
            Self::SidrRep { .. } => 0x18,
        }
    }

    /// Decodes a datagram to its transaction and its message. Returns `None` if it is not one of these
    /// messages.
    pub fn parse(bytes: &[u8]) -> Option<(u64, Self)> {
        let bytes: &[u8; MAD_BYTES] = bytes.first_chunk()?;
        if bytes[..4] != CLASS {
            return None;
        }
        let header = Fields(bytes);
        let transaction = header.u64(8);
        let fields = Fields(&bytes[HEADER..]);
        let (local_id, remote_id) = (fields.u32(0), fields.u32(4));
        let message = match header.u16(16) {
            0x10 => Self::Req(Req {
                local_id,
                service: Service(fields.u64(8)),
                guid: fields.u64(16),
                queue_pair: fields.u24(32),
                responder_resources: fields.0[35],
                initiator_depth: fields.0[39],
                reliable: fields.0[43] >> 1 & 3 == 0,
                flow_control: fields.0[43] & 1 != 0,
                starting_psn: fields.u24(44),
                retry_count: fields.0[47] & 7,
                mtu: fields.0[50] >> 4,
                rnr_retry_count: fields.0[50] & 7,
                srq: fields.0[51] & 8 != 0,
                source: fields.gid(56),
                destination: fields.gid(72),
                ack_timeout: fields.0[95] >> 3,
                private: fields.rest(140),
            }),
            0x11 => Self::Mra { local_id, remote_id },
            0x12 => {
                Self::Rej { local_id, remote_id, reason: Reject(fields.u16(10)), private: fields.rest(84) }
            }
            0x13 => Self::Rep(Rep {
                local_id,
                remote_id,
                queue_pair: fields.u24(12),
                starting_psn: fields.u24(20),
                responder_resources: fields.0[24],
                initiator_depth: fields.0[25],
                flow_control: fields.0[26] & 1 != 0,
                rnr_retry_count: fields.0[27] >> 5,
                srq: fields.0[27] & 0x10 != 0,
                guid: fields.u64(28),
                private: fields.rest(36),
            }),
            0x14 => Self::Rtu { local_id, remote_id },
            0x15 => Self::Dreq { local_id, remote_id, queue_pair: fields.u24(8) },
            0x16 => Self::Drep { local_id, remote_id },
            0x17 => {
                Self::SidrReq { request: local_id, service: Service(fields.u64(8)), private: fields.rest(16) }
            }
            0x18 => Self::SidrRep {
                request: local_id,
                status: fields.0[4],
                queue_pair: fields.u24(8),
                service: Service(fields.u64(12)),
                queue_key: fields.u32(20),
                private: fields.rest(96),
            },
            _ => return None,
        };
        Some((transaction, message))
    }

    /// Encodes a datagram. Private data that is too long is truncated.
    pub fn emit(&self, transaction: u64) -> [u8; MAD_BYTES] {
        let mut bytes = [0; MAD_BYTES];
        bytes[..4].copy_from_slice(&CLASS);
        bytes[8..16].copy_from_slice(&transaction.to_be_bytes());
        bytes[16..18].copy_from_slice(&self.attribute().to_be_bytes());
        let mut fields = Writer(&mut bytes[HEADER..]);
        match self {
            Self::Req(req) => {
                fields.u32(0, req.local_id);
                fields.u64(8, req.service.0);
                fields.u64(16, req.guid);
                fields.u24(32, req.queue_pair);
                fields.0[35] = req.responder_resources;
                fields.0[39] = req.initiator_depth;
                // Time-outs of the managers: 4.096 us times 2^20, about four seconds.
                fields.0[43] = 20 << 3 | u8::from(!req.reliable) << 1 | u8::from(req.flow_control);
                fields.u24(44, req.starting_psn);
                fields.0[47] = 20 << 3 | req.retry_count & 7;
                fields.u16(48, 0xffff);
                fields.0[50] = req.mtu << 4 | req.rnr_retry_count & 7;
                fields.0[51] = 15 << 4 | u8::from(req.srq) << 3;
                fields.u16(52, 0xffff);
                fields.u16(54, 0xffff);
                fields.bytes(56, &Gid::from(req.source).0);
                fields.bytes(72, &Gid::from(req.destination).0);
                // Any packet rate, a hop limit of 64, not local to a subnet.
                fields.0[93] = 64;
                fields.0[95] = req.ack_timeout << 3;
                fields.private(140, &req.private);
            }
            Self::Rep(rep) => {
                fields.u32(0, rep.local_id);
                fields.u32(4, rep.remote_id);
                fields.u24(12, rep.queue_pair);
                fields.u24(20, rep.starting_psn);
                fields.0[24] = rep.responder_resources;
                fields.0[25] = rep.initiator_depth;
                fields.0[26] = 15 << 3 | u8::from(rep.flow_control);
                fields.0[27] = rep.rnr_retry_count << 5 | u8::from(rep.srq) << 4;
                fields.u64(28, rep.guid);
                fields.private(36, &rep.private);
            }
            Self::Rej { local_id, remote_id, reason, private } => {
                fields.u32(0, *local_id);
                fields.u32(4, *remote_id);
                fields.u16(10, reason.0);
                fields.private(84, private);
            }
            Self::Mra { local_id, remote_id }
            | Self::Rtu { local_id, remote_id }
            | Self::Drep { local_id, remote_id } => {
                fields.u32(0, *local_id);
                fields.u32(4, *remote_id);
            }
            Self::Dreq { local_id, remote_id, queue_pair } => {
                fields.u32(0, *local_id);
                fields.u32(4, *remote_id);
                fields.u24(8, *queue_pair);
            }
            Self::SidrReq { request, service, private } => {
                fields.u32(0, *request);
                fields.u16(4, 0xffff);
                fields.u64(8, service.0);
                fields.private(16, private);
            }
            Self::SidrRep { request, status, service, queue_pair, queue_key, private } => {
                fields.u32(0, *request);
                fields.0[4] = *status;
                fields.u24(8, *queue_pair);
                fields.u64(12, service.0);
                fields.u32(20, *queue_key);
                fields.private(96, private);
            }
        }
        bytes
    }
}

/// The requester's address, from the private data of a request.
pub(crate) fn source(private: &[u8]) -> Option<SocketAddr> {
    private::source(private)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn req() -> Req {
        Req {
            local_id: 0x0102_0304,
            service: Service::new(0x0106, 7_174),
            guid: 0x1122_3344_5566_7788,
            queue_pair: 0xab_cdef,
            responder_resources: 3,
            initiator_depth: 4,
            starting_psn: 0x12_3456,
            ack_timeout: 18,
            retry_count: 7,
            rnr_retry_count: 6,
            mtu: 3,
            srq: true,
            flow_control: true,
            reliable: true,
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            private: vec![9; 92],
        }
    }

    #[test]
    fn a_request_has_the_layout_of_the_specification() {
        let bytes = Message::Req(req()).emit(5);
        assert_eq!(bytes[..4], [1, 7, 2, 3]);
        assert_eq!((bytes[15], bytes[16..18].to_vec()), (5, vec![0, 0x10]));
        let fields = &bytes[24..];
        assert_eq!(fields[8..16], [0, 0, 0, 0, 0x01, 0x06, 0x1c, 0x06], "the port space and the port");
        assert_eq!(fields[32..36], [0xab, 0xcd, 0xef, 3]);
        assert_eq!(fields[44..47], [0x12, 0x34, 0x56]);
        assert_eq!(fields[68..72], [10, 0, 0, 1]);
        assert_eq!(fields[66..68], [0xff, 0xff], "a GID of IPv4");
        assert_eq!(fields[140..], [9; 92]);
        assert_eq!(Message::parse(&bytes), Some((5, Message::Req(req()))));
    }

    #[test]
    fn the_private_data_begins_with_addresses() {
        let header = private::header("10.0.0.1:5".parse().unwrap(), [10, 0, 0, 2].into());
        assert_eq!(header[..4], [0, 0x40, 0, 5]);
        assert_eq!((&header[16..20], &header[32..36]), (&[10, 0, 0, 1][..], &[10, 0, 0, 2][..]));
        assert_eq!(private::source(&header), Some("10.0.0.1:5".parse().unwrap()));
        assert_eq!(private::source(&header[..35]), None);
    }

    proptest! {
        #[test]
        fn nothing_that_arrives_is_read_twice_in_different_ways(
            mut bytes in prop::collection::vec(any::<u8>(), MAD_BYTES),
            attribute in 0x0f..0x1a_u8,
        ) {
            bytes[..4].copy_from_slice(&CLASS);
            (bytes[16], bytes[17]) = (0, attribute);
            if let Some((transaction, message)) = Message::parse(&bytes) {
                prop_assert_eq!(Message::parse(&message.emit(transaction)), Some((transaction, message)));
            } else {
                prop_assert!(!(0x10..=0x18).contains(&attribute));
            }
        }
    }
}
