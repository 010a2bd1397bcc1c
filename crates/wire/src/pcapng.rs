//! Captures in the pcapng format (draft-ietf-opsawg-pcapng), for Wireshark and similar tools.
//!
//! A capture has one section, one interface for each port of the cluster, nanosecond time stamps, and the
//! direction of each frame. The same frames give the same bytes: the capture does not depend on the machine
//! or the time of day.

use std::io::{self, Write};

/// Direction of a frame, from the port's point of view: the `epb_flags` option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// Received by the port.
    Inbound = 1,
    /// Sent by the port.
    Outbound = 2,
}

const SECTION_HEADER_BLOCK: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION_BLOCK: u32 = 1;
const ENHANCED_PACKET_BLOCK: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_SECTION_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_INTERFACE_TIME_RESOLUTION: u16 = 9;
const OPTION_PACKET_FLAGS: u16 = 2;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINK_TYPE_ETHERNET: u16 = 1;

/// Writes a capture. Blocks are little-endian on every machine.
///
/// Each block is passed to the output in one call. A `BufWriter` still makes it faster.
#[derive(Debug)]
pub struct Writer<W: Write> {
    output: W,
    interfaces: u32,
    /// The block under construction; its buffer is reused.
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Starts a capture of the ports with these names, such as `node0/port0`.
    ///
    /// # Errors
    ///
    /// The errors of the output.
    ///
    /// # Panics
    ///
    /// If a name is longer than 65,535 bytes.
    pub fn new(output: W, interface_names: &[&str]) -> io::Result<Writer<W>> {
        let interfaces = interface_names.len() as u32;
        let mut writer = Writer { output, interfaces, block: Vec::new() };
        writer.section()?;
        for name in interface_names {
            writer.interface(name)?;
        }
        Ok(writer)
    }

    /// Adds a frame, without its frame check sequence, that was sent or received by a port at this time.
    /// `interface`: the port's index in the names given to [`Writer::new`].
    ///
    /// # Errors
    ///
    /// The errors of the output.
    ///
    /// # Panics
    ///
    /// If there is no such port.
    pub fn write(
        &mut self,
        interface: u32,
        nanoseconds: u64,
        direction: Direction,
        frame: &[u8],
    ) -> io::Result<()> {
        assert!(interface < self.interfaces, "interface {interface} of {}", self.interfaces);
        self.begin(ENHANCED_PACKET_BLOCK);
        self.put32(interface);
        self.put32((nanoseconds >> 32) as u32);
        self.put32(nanoseconds as u32);
        self.put32(frame.len() as u32);
        self.put32(frame.len() as u32);
        self.put_padded(frame);
        self.put_option(OPTION_PACKET_FLAGS, &(direction as u32).to_le_bytes());
        self.put_option(OPTION_END, &[]);
        self.end()
    }

    /// Flushes the output and returns it.
    ///
    /// # Errors
    ///
    /// The errors of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    fn section(&mut self) -> io::Result<()> {
        self.begin(SECTION_HEADER_BLOCK);
        self.put32(BYTE_ORDER_MAGIC);
        self.put16(1); // major version
        self.put16(0); // minor version
        self.block.extend_from_slice(&u64::MAX.to_le_bytes()); // the section's length is not specified
        self.put_option(OPTION_SECTION_APPLICATION, b"weft");
        self.put_option(OPTION_END, &[]);
        self.end()
    }

    fn interface(&mut self, name: &str) -> io::Result<()> {
        self.begin(INTERFACE_DESCRIPTION_BLOCK);
        self.put16(LINK_TYPE_ETHERNET);
        self.put16(0); // reserved
        self.put32(0); // no limit of the frames' length
        self.put_option(OPTION_INTERFACE_NAME, name.as_bytes());
        self.put_option(OPTION_INTERFACE_TIME_RESOLUTION, &[9]); // 10^-9 s
        self.put_option(OPTION_END, &[]);
        self.end()
    }

    /// Starts a block: its type, and space for its length.
    fn begin(&mut self, block_type: u32) {
        self.block.clear();
        self.put32(block_type);
        self.put32(0);
    }

    /// Ends a block: writes its length at the end and after its type, and passes the block to the output.
    fn end(&mut self) -> io::Result<()> {
        let length = (self.block.len() + 4) as u32;
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.put32(length);
        self.output.write_all(&self.block)
    }

    fn put_option(&mut self, code: u16, value: &[u8]) {
        self.put16(code);
        self.put16(u16::try_from(value.len()).expect("an option of at most 65,535 bytes"));
        self.put_padded(value);
    }

    fn put_padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn put32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn put16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use pcap_file::{DataLink, Endianness};

    #[test]
    fn another_reader_finds_what_was_written() {
        let frames: [&[u8]; 3] = [&[1; 60], &[2; 61], &[3; 1514]];
        let stamps = [0, 1_234_567_890_123_456_789, u64::MAX >> 1];
        let directions = [Direction::Outbound, Direction::Inbound, Direction::Outbound];
        let mut writer = Writer::new(Vec::new(), &["node0/port0", "node1/port0"]).unwrap();
        for index in 0..3 {
            writer.write(index as u32 % 2, stamps[index], directions[index], frames[index]).unwrap();
        }
        let bytes = writer.finish().unwrap();

        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        assert_eq!(reader.section().endianness, Endianness::Little);
        let mut packets = 0;
        let mut names = Vec::new();
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(interface) => {
                    assert_eq!(interface.linktype, DataLink::ETHERNET);
                    assert!(interface.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
                    names.extend(interface.options.iter().find_map(|option| match option {
                        InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                        _ => None,
                    }));
                }
                Block::EnhancedPacket(packet) => {
                    assert_eq!(packet.interface_id, packets as u32 % 2);
                    assert_eq!(packet.data, frames[packets]);
                    assert_eq!(packet.original_len as usize, frames[packets].len());
                    assert_eq!(packet.options, [EnhancedPacketOption::Flags(directions[packets] as u32)]);
                    assert_eq!(packet.timestamp.as_nanos(), u128::from(stamps[packets]));
                    packets += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(packets, 3);
        assert_eq!(names, ["node0/port0", "node1/port0"]);
    }

    #[test]
    fn an_output_that_fails_is_reported() {
        let mut room = [0; 40];
        let error = Writer::new(&mut room[..], &["node0/port0"]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }
}
