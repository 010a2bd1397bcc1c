//! One end of a connection between two programs that write into each other's memory.

use std::io;
use std::net::Ipv4Addr;

use weft_nic::{AttachedMemory, CardConfig, attached_address};
use weft_service::preprocess::Pipeline;
use weft_service::{MapKind, Setting};
use weft_time::Duration;
use weft_verbs::{
    AccessFlags, ApiError, Completion, CompletionOpcode, CompletionStatus, LocalBuffer, Operation, PathMtu,
    QueuePairAttributes, ReceiveRequest, Region, RemoteAddress, WorkRequest,
};

use crate::{
    BindError, ConnectionOptions, Context, IdlePolicy, Introduction, PortOptions, RemoteMemory, SocketDevice,
    connect,
};

/// Outstanding work requests of an end, in each direction.
const DEPTH: u32 = 256;
/// Receive requests, each for the immediate value of one WRITE.
const RECEIVES: u32 = DEPTH / 2;
const WINDOW_PACKETS: u32 = 256;
/// Packets that arrived out of order and are kept.
const REORDER_PACKETS: usize = 1_024;
/// Packets that are sent as one buffer.
const BURST_PACKETS: u32 = 16;

/// Where the memory of a region is.
#[derive(Debug)]
pub enum RegionMemoryKind {
    /// Memory of the card itself, of this many bytes.
    Own(u64),
    /// Memory of another device, and its length in bytes.
    Attached(Box<dyn AttachedMemory>, u64),
}

/// An event for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionEvent {
    /// A WRITE of this end has been acknowledged.
    Written,
    /// The peer has sent this value. All data that it had written before is in the memory.
    Notified(u32),
}

/// Why an end cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RegionEndError {
    /// The port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// An error of the kernel.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An error of the card.
    #[error(transparent)]
    Card(#[from] ApiError),
    /// A work request has failed, and with it the connection.
    #[error("a request ended with {}: the peer is gone, or refuses it", .0.name())]
    Failed(CompletionStatus),
    /// A WRITE is not completely within a region.
    #[error("{length} bytes at {offset} do not lie in the region of {bytes} bytes")]
    Outside {
        /// First byte of the WRITE.
        offset: u64,
        /// Bytes of the WRITE.
        length: u64,
        /// Bytes of the region.
        bytes: u64,
    },
    /// The end is not connected yet.
    #[error("this end has no peer yet")]
    Alone,
}

/// A card on a UDP socket with one region, which is all its memory, and one queue pair.
#[derive(Debug)]
pub struct RegionEnd {
    context: Context<SocketDevice>,
    own: Introduction,
    memory: RemoteMemory,
    peer: Option<RemoteMemory>,
    lkey: u32,
}

impl RegionEnd {
    /// The most outstanding WRITEs.
    pub const DEPTH: u32 = DEPTH;

    /// Opens a card on port 4791 of an address of this machine; `policy` says how its thread waits.
    ///
    /// # Errors
    /// The port is in use, or the address is not one of this machine.
    pub fn open(
        address: Ipv4Addr,
        memory: RegionMemoryKind,
        policy: IdlePolicy,
    ) -> Result<Self, RegionEndError> {
        let transport = weft_rdma::Config {
            max_queue_pairs: 4,
            max_regions: 4,
            completion_queue_depth: 4 * DEPTH as usize,
            rpc_queue_depth: 1,
            max_queue_depth: DEPTH,
            window_packets: WINDOW_PACKETS,
            acknowledge_interval: WINDOW_PACKETS / 4,
            reorder_packets: REORDER_PACKETS,
            read_parts: true,
            burst_packets: BURST_PACKETS,
            ..weft_rdma::Config::default()
        };
        let (own_bytes, address_of_first, length) = match &memory {
            RegionMemoryKind::Own(bytes) => (*bytes as usize, 0, *bytes),
            RegionMemoryKind::Attached(_, bytes) => (0, attached_address(0), *bytes),
        };
        let config = CardConfig::without_engines(own_bytes, transport);
        let mut device = SocketDevice::open(address, config, &PortOptions::default())?;
        if let RegionMemoryKind::Attached(memory, _) = memory {
            device.card().attach(memory);
        }
        let mut context = Context::new(device, policy)?;
        let driver = context.driver();
        let keys = driver.register_region(Region::host(address_of_first, length, AccessFlags::ALL))?;
        let attributes =
            QueuePairAttributes { max_send_wr: DEPTH, max_recv_wr: DEPTH, ..QueuePairAttributes::default() };
        let start = RemoteAddress { address: address_of_first, rkey: keys.rkey };
        let memory = RemoteMemory { start, length };
        let own = Introduction {
            gid: address.into(),
            number: driver.create_queue_pair(attributes)?,
            psn: 0,
            memory: Some(memory),
        };
        Ok(Self { context, own, memory, peer: None, lkey: keys.lkey })
    }

    /// Closes the port, and returns the memory that was attached.
    pub fn close(mut self) -> Option<Box<dyn AttachedMemory>> {
        self.context.device().card().detach()
    }

    /// The introduction of this end for the peer.
    pub const fn introduction(&self) -> Introduction {
        self.own
    }

    /// Passes all data that the peer writes through a pipeline on its way into the region.
    pub fn preprocess(&mut self, pipeline: Pipeline) {
        let card = self.context.device().card();
        let value = card.load_pipeline(pipeline);
        card.serve(self.own.number, Setting { map: MapKind::Preprocess, value, ..Setting::default() });
    }

    /// Connects with a peer. Both ends must use the same `path_mtu`.
    ///
    /// # Errors
    /// This end is connected already.
    pub fn connect(&mut self, peer: &Introduction, path_mtu: PathMtu) -> Result<(), RegionEndError> {
        let options = ConnectionOptions { path_mtu, ..ConnectionOptions::default() };
        connect(self.context.driver(), &self.own, peer, &options)?;
        self.peer = peer.memory;
        (0..RECEIVES).for_each(|_| self.post_receive());
        Ok(())
    }

    fn post_receive(&mut self) {
        self.context.post_receive(self.own.number, ReceiveRequest { id: 0, local: LocalBuffer::default() });
    }

    /// Reads the memory of the region directly, without the transport; `offset` counts from its start.
    ///
    /// # Errors
    /// The bytes are not completely in the region.
    pub fn read(&mut self, offset: u64, length: usize) -> Result<&[u8], RegionEndError> {
        let place = inside(&self.memory, offset, length as u64)?;
        let outside = RegionEndError::Outside { offset, length: length as u64, bytes: self.memory.length };
        self.context.driver().memory().read(weft_verbs::Target::Host, place, length).map_err(|_| outside)
    }

    /// Stores bytes in this end's region directly, without the transport.
    ///
    /// # Errors
    /// The bytes do not fit into the region.
    pub fn store(&mut self, offset: u64, bytes: &[u8]) -> Result<(), RegionEndError> {
        let place = inside(&self.memory, offset, bytes.len() as u64)?;
        let outside =
            RegionEndError::Outside { offset, length: bytes.len() as u64, bytes: self.memory.length };
        self.context.driver().memory().write(weft_verbs::Target::Host, place, bytes).map_err(|_| outside)
    }

    /// WRITEs a part of this region to the peer's; with a value, also notifies the peer. The bytes must not change
    /// until [`RegionEvent::Written`] has been returned for them. At most [`RegionEnd::DEPTH`] WRITEs may be
    /// outstanding.
    ///
    /// # Errors
    /// The bytes are not completely in both regions, or this end is not connected.
    pub fn write(
        &mut self,
        from: u64,
        length: u32,
        to: u64,
        immediate: Option<u32>,
    ) -> Result<(), RegionEndError> {
        let peer = self.peer.ok_or(RegionEndError::Alone)?;
        let remote = RemoteAddress { address: inside(&peer, to, length.into())?, ..peer.start };
        let address = inside(&self.memory, from, length.into())?;
        let local = LocalBuffer { address, length, lkey: self.lkey };
        let operation = Operation::Write { remote, immediate };
        self.context.post_send(self.own.number, WorkRequest::new(0, operation, local));
        Ok(())
    }

    /// Sends a value to the peer.
    ///
    /// # Errors
    /// This end is not connected.
    pub fn notify(&mut self, value: u32) -> Result<(), RegionEndError> {
        self.write(0, 0, 0, Some(value))
    }

    /// The next event. If there is none yet, lets the card make progress once, for at most `limit`.
    ///
    /// # Errors
    /// A work request has failed, or the port cannot be used any more.
    pub fn poll(&mut self, limit: Duration) -> Result<Option<RegionEvent>, RegionEndError> {
        let completion = match self.context.poll() {
            Some(completion) => Some(completion),
            None => {
                self.context.progress(limit)?;
                self.context.poll()
            }
        };
        completion.map(|completion| self.event_of(&completion)).transpose()
    }

    /// The next event, if one occurs within `limit`.
    ///
    /// # Errors
    /// As [`RegionEnd::poll`].
    pub fn wait(&mut self, limit: Duration) -> Result<Option<RegionEvent>, RegionEndError> {
        let completion = self.context.wait(limit)?;
        completion.map(|completion| self.event_of(&completion)).transpose()
    }

    fn event_of(&mut self, completion: &Completion) -> Result<RegionEvent, RegionEndError> {
        if completion.status != CompletionStatus::Success {
            return Err(RegionEndError::Failed(completion.status));
        }
        if completion.opcode != CompletionOpcode::ReceiveWriteWithImmediate {
            return Ok(RegionEvent::Written);
        }
        self.post_receive();
        Ok(RegionEvent::Notified(completion.immediate.unwrap_or_default()))
    }
}

/// Address of a range of bytes in a region.
fn inside(memory: &RemoteMemory, offset: u64, length: u64) -> Result<u64, RegionEndError> {
    let RemoteMemory { start, length: bytes } = *memory;
    let fits = offset.checked_add(length).is_some_and(|end| end <= bytes);
    if fits { Ok(start.address + offset) } else { Err(RegionEndError::Outside { offset, length, bytes }) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    const BYTES: u64 = 10_000;

    fn ends() -> [RegionEnd; 2] {
        // Tests run side by side.
        static FIRST: AtomicU8 = AtomicU8::new(11);
        let first = FIRST.fetch_add(2, Ordering::Relaxed);
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let mut ends = [first, first + 1].map(|last| {
            let address = Ipv4Addr::new(127, high, low, last);
            RegionEnd::open(address, RegionMemoryKind::Own(BYTES), IdlePolicy::SLEEP).unwrap()
        });
        let introductions = [0, 1].map(|end: usize| ends[end].introduction());
        for end in 0..2 {
            ends[end].connect(&introductions[1 - end], PathMtu::Bytes1024).unwrap();
        }
        ends
    }

    /// Drives both ends until the second receives a value, and returns the value.
    fn told([one, other]: &mut [RegionEnd; 2]) -> u32 {
        for _ in 0..10_000 {
            one.poll(Duration::from_us(20)).unwrap();
            if let Some(RegionEvent::Notified(value)) = other.poll(Duration::from_us(20)).unwrap() {
                return value;
            }
        }
        panic!("nothing was told");
    }

    #[test]
    fn what_was_written_is_there_when_it_is_told_and_passed_the_pipeline() {
        let mut ends = ends();
        let rows: Vec<u8> = (0..BYTES as u32 / 4).flat_map(u32::to_le_bytes).collect();
        ends[0].store(0, &rows).unwrap();
        ends[0].write(0, 4_000, 1_000, None).unwrap();
        ends[0].write(0, 0, 0, Some(1)).unwrap();
        assert_eq!(told(&mut ends), 1);
        assert!(ends[1].read(1_000, 4_000).unwrap() == &rows[..4_000]);
        let pipeline: Pipeline = "row = { int32 = 1 }\ncolumns.0 = [\"modulus 7\"]".parse().unwrap();
        ends[1].preprocess(pipeline.clone());
        ends[0].write(0, 8_000, 0, Some(2)).unwrap();
        assert_eq!(told(&mut ends), 2);
        let mut features = rows[..8_000].to_vec();
        pipeline.transform(0, &mut features);
        assert!(ends[1].read(0, 8_000).unwrap() == features);
    }

    #[test]
    fn what_lies_outside_is_refused_here() {
        let mut ends = ends();
        for (from, length, to) in [(BYTES, 1, 0), (0, 1, BYTES), (0, 9_000, 2_000), (u64::MAX, 1, 0)] {
            let refused = ends[0].write(from, length, to, None);
            assert!(matches!(refused, Err(RegionEndError::Outside { .. })), "{refused:?}");
        }
        assert!(ends[0].store(BYTES, &[1]).is_err() && ends[0].read(1, BYTES as usize).is_err());
        let [mut one, _] = ends;
        one.peer = None;
        assert!(matches!(one.notify(1), Err(RegionEndError::Alone)));
    }
}
