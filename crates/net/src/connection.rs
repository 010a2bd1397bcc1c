//! The exchange of introductions between two programs, and the connection of their queue pairs.

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use weft_nic::RdmaDriver;
use weft_verbs::{
    AccessFlags, ApiError, PathMtu, QueuePairNumber, ReadyToReceive, ReadyToSend, RemoteAddress,
};
use weft_wire::roce::{Gid, MASK_24};

/// The longest line accepted as an introduction, in bytes.
const LONGEST_LINE: usize = 128;

/// Memory that a program lets its peer access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// Address of its first byte, with the region's rkey.
    pub start: RemoteAddress,
    /// Length of the memory in bytes.
    pub length: u64,
}

/// One end of a connection: all data about it that the other end needs.
///
/// Its text form is one line: `LID:QPN:PSN:GID` in hexadecimal digits, as the examples of libibverbs
/// (`ibv_rc_pingpong`) write it, with a LID of 0. If there is memory, ` ADDRESS:LENGTH:RKEY` follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// GID of the port.
    pub gid: Gid,
    /// Number of the queue pair (QPN).
    pub number: QueuePairNumber,
    /// PSN of the first request that it sends, 24 bits.
    pub psn: u32,
    /// Memory that the peer may access.
    pub memory: Option<RemoteMemory>,
}

/// The text is not an introduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no introduction: LID:QPN:PSN:GID in hexadecimal digits, and perhaps ADDRESS:LENGTH:RKEY, is expected"
)]
pub struct NoIntroduction;

impl fmt::Display for Introduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0000:{:06x}:{:06x}:{}", self.number.0, self.psn, self.gid.digits())?;
        let Some(RemoteMemory { start, length }) = self.memory else { return Ok(()) };
        write!(f, " {:016x}:{length:x}:{:08x}", start.address, start.rkey)
    }
}

impl FromStr for Introduction {
    type Err = NoIntroduction;

    fn from_str(text: &str) -> Result<Self, NoIntroduction> {
        parse(text).ok_or(NoIntroduction)
    }
}

/// Parses a number of at most `limit` that consists of hexadecimal digits only.
fn number(text: &str, limit: u64) -> Option<u64> {
    let is_digits = text.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|number| is_digits && *number <= limit)
}

fn parse(text: &str) -> Option<Introduction> {
    let mut words = text.split_whitespace();
    let mut fields = words.next()?.splitn(4, ':');
    number(fields.next()?, u16::MAX.into())?;
    let qpn = number(fields.next()?, MASK_24.into())? as u32;
    let psn = number(fields.next()?, MASK_24.into())? as u32;
    let gid = fields.next()?.parse().ok()?;
    let memory = match words.next() {
        None => None,
        Some(memory) => {
            let fields: Vec<&str> = memory.split(':').collect();
            let [address, length, rkey] = fields[..] else { return None };
            let start = RemoteAddress {
                address: number(address, u64::MAX)?,
                rkey: number(rkey, u32::MAX.into())? as u32,
            };
            Some(RemoteMemory { start, length: number(length, u64::MAX)? })
        }
    };
    words.next().is_none().then_some(Introduction { gid, number: QueuePairNumber(qpn), psn, memory })
}

impl Introduction {
    /// Sends this end's introduction to the peer and returns the peer's. Both ends call this. `stream` connects
    /// them out of band, for example as a TCP connection, and transfers one line in each direction.
    ///
    /// # Errors
    /// An error of the stream, or the peer's line is no introduction.
    pub fn exchange(&self, mut stream: impl Read + Write) -> io::Result<Self> {
        stream.write_all(format!("{self}\n").as_bytes())?;
        stream.flush()?;
        let mut line = Vec::new();
        // Read byte by byte, because bytes after the line belong to the caller.
        let mut byte = [0];
        while line.len() < LONGEST_LINE && stream.read(&mut byte)? == 1 && byte != *b"\n" {
            line.extend(byte);
        }
        let parsed = str::from_utf8(&line).ok().and_then(parse);
        parsed.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, NoIntroduction))
    }
}

/// Local parameters of a connection. The defaults are common values of verbs programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// Operations that the peer may do through the queue pair.
    pub access: AccessFlags,
    /// The most payload bytes in a packet; both ends must use the same value.
    pub path_mtu: PathMtu,
    /// READs and atomics outstanding, in each direction.
    pub rd_atomic: u8,
    /// Code of the RNR delay of a peer whose SEND finds no receive request here.
    pub min_rnr_timer: u8,
    /// Code of the local acknowledgement time-out.
    pub timeout: u8,
    /// Retransmissions after a time-out before the connection fails.
    pub retry_cnt: u8,
    /// Retransmissions after RNR NAKs before the connection fails; 7: no limit.
    pub rnr_retry: u8,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            access: AccessFlags::ALL,
            path_mtu: PathMtu::Bytes1024,
            rd_atomic: 4,
            min_rnr_timer: 12,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
        }
    }
}

/// Moves a queue pair from RESET to RTS; `own` is the introduction that was sent to the peer.
///
/// # Errors
/// The state of the queue pair or the device does not allow it, or the peer's port has an IPv6 address
/// and the device none.
pub fn connect(
    driver: &mut (impl RdmaDriver + ?Sized),
    own: &Introduction,
    peer: &Introduction,
    options: &ConnectionOptions,
) -> Result<(), ApiError> {
    let receive = ReadyToReceive {
        destination: peer.gid.address(),
        destination_qp_num: peer.number,
        rq_psn: peer.psn,
        path_mtu: options.path_mtu,
        max_dest_rd_atomic: options.rd_atomic,
        min_rnr_timer: options.min_rnr_timer,
    };
    let send = ReadyToSend {
        sq_psn: own.psn,
        timeout: options.timeout,
        retry_cnt: options.retry_cnt,
        rnr_retry: options.rnr_retry,
        max_rd_atomic: options.rd_atomic,
    };
    driver.connect(own.number, options.access, receive, send)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::thread;

    use super::*;

    fn introduction() -> Introduction {
        Introduction {
            gid: Ipv4Addr::new(10, 9, 0, 1).into(),
            number: QueuePairNumber(0x11),
            psn: 0xab_cdef,
            memory: Some(RemoteMemory {
                start: RemoteAddress { address: 0x1000, rkey: 0xf00d },
                length: 4_096,
            }),
        }
    }

    #[test]
    fn the_text_is_that_of_libibverbs_examples_with_memory_behind_it() {
        let text = introduction().to_string();
        let (queue_pair, memory) = text.split_once(' ').unwrap();
        assert_eq!(queue_pair, "0000:000011:abcdef:00000000000000000000ffff0a090001");
        assert_eq!(memory, "0000000000001000:1000:0000f00d");
        assert_eq!(text.parse(), Ok(introduction()));
        assert_eq!(queue_pair.parse(), Ok(Introduction { memory: None, ..introduction() }));
    }

    #[test]
    fn other_texts_are_no_introduction() {
        let good = introduction().to_string();
        for text in [
            String::new(),
            good.replace("000011", "1000011"),
            good.replace("abcdef", "-bcdef"),
            good.replace(":1000:", ":"),
            format!("{good} more"),
            good.replace("ffff0a", ""),
        ] {
            assert_eq!(text.parse::<Introduction>(), Err(NoIntroduction), "{text}");
        }
    }

    #[test]
    fn each_end_is_told_the_other_and_the_stream_goes_on() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let other = Introduction { psn: 5, memory: None, ..introduction() };
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = listener.accept().unwrap().0;
                assert_eq!(other.exchange(&stream).unwrap(), introduction());
                stream.write_all(b"more").unwrap();
            });
            let mut stream = TcpStream::connect(address).unwrap();
            assert_eq!(introduction().exchange(&stream).unwrap(), other);
            let mut rest = String::new();
            stream.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "more");
        });
        let silent = io::Cursor::new(vec![b'0'; 1_000]);
        assert_eq!(introduction().exchange(silent).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
