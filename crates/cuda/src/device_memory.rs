//! Memory on the GPU, reached by copies that the driver makes meanwhile.

use std::sync::Arc;

use weft_nic::AttachedMemory;
use weft_rdma::MemoryFault;

use crate::Place;
use crate::driver::{Allocation, CudaError, Event, Gpu, Pinned, Stream};
use crate::mapped::within;
use crate::pipeline::{Broken, Copier, Pipeline};

/// Bytes of the staging buffer: what a receiver takes in while the first copies are made.
const STAGING_BYTES: usize = 8 << 20;
/// Events that can be outstanding.
const EVENTS: u64 = 64;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Memory of the GPU. Bytes go through a staging buffer in pinned memory of the host and from there, in order, by
/// asynchronous copies on one stream; a write has landed when the GPU is past the event behind its copy.
#[derive(Debug)]
pub struct DeviceMemory {
    pipeline: Pipeline<Copies>,
    bounce: Pinned,
    read: Vec<u8>,
}

/// The driver's copies on a stream of their own.
#[derive(Debug)]
struct Copies {
    memory: Allocation,
    staging: Pinned,
    events: Vec<Event>,
    stream: Stream,
}

impl Copies {
    fn event(&self, number: u64) -> &Event {
        &self.events[(number % EVENTS) as usize]
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // What is under way still uses both memories. A stream that has failed does nothing more.
        let _ = self.stream.wait();
    }
}

impl From<CudaError> for Broken {
    fn from(_: CudaError) -> Self {
        Self
    }
}

impl Copier for Copies {
    fn staging_bytes(&self) -> usize {
        self.staging.length()
    }

    fn events(&self) -> u64 {
        EVENTS
    }

    fn stage(&mut self, at: usize, bytes: &[u8]) {
        self.staging.store(at, bytes);
    }

    fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<(), Broken> {
        Ok(self.memory.begin_write(&self.stream, (&self.staging, from), to, length)?)
    }

    fn record(&mut self, event: u64) -> Result<(), Broken> {
        Ok(self.event(event).record(&self.stream)?)
    }

    fn is_reached(&mut self, event: u64) -> Result<bool, Broken> {
        Ok(self.event(event).is_reached()?)
    }

    fn wait(&mut self, event: u64) -> Result<(), Broken> {
        Ok(self.event(event).wait()?)
    }
}

impl DeviceMemory {
    /// So many bytes, all 0.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(gpu: &Arc<Gpu>, length: usize) -> Result<Self, CudaError> {
        let stream = Stream::new(gpu)?;
        let copies = Copies {
            memory: Allocation::new(gpu, length, &stream)?,
            staging: Pinned::new(gpu, STAGING_BYTES)?,
            events: (0..EVENTS).map(|_| Event::new(gpu)).collect::<Result<_, _>>()?,
            stream,
        };
        let bounce = Pinned::new(gpu, READ_BYTES)?;
        Ok(Self { pipeline: Pipeline::new(copies), bounce, read: Vec::new() })
    }

    /// Where it lies.
    pub fn place(&self) -> Place {
        let memory = &self.pipeline.copier.memory;
        Place { gpu: memory.address(), host: None, bytes: memory.length() }
    }

    fn length(&self) -> usize {
        self.pipeline.copier.memory.length()
    }
}

impl AttachedMemory for DeviceMemory {
    fn read(&mut self, offset: u64, length: usize) -> Result<&[u8], MemoryFault> {
        let start = within(self.length(), offset, length)?;
        self.pipeline.submit().map_err(|Broken| MemoryFault)?;
        self.read.resize(length, 0);
        let Self { pipeline, bounce, read } = self;
        let Copies { memory, stream, .. } = &pipeline.copier;
        for (from, part) in (start..).step_by(READ_BYTES).zip(read.chunks_mut(READ_BYTES)) {
            memory.read(stream, from, bounce, part.len()).map_err(|_| MemoryFault)?;
            bounce.load(0, part);
        }
        Ok(&self.read)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let start = within(self.length(), offset, bytes.len())?;
        self.pipeline.write(start, bytes).map_err(|Broken| MemoryFault)
    }

    fn submit(&mut self) {
        // Who is broken says so to the next write, and lands nothing.
        let _ = self.pipeline.submit();
    }

    fn mark(&mut self) -> u64 {
        self.pipeline.mark().unwrap_or(u64::MAX)
    }

    fn has_landed(&mut self, mark: u64) -> bool {
        self.pipeline.has_landed(mark).unwrap_or(false)
    }
}
