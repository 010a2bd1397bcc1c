//! GPU memory, to which the driver copies bytes asynchronously.

use std::sync::Arc;

use weft_nic::AttachedMemory;
use weft_rdma::MemoryFault;

use crate::Place;
use crate::driver::{Allocation, CudaError, Event, Gpu, Pinned, Stream};
use crate::mapped::within;
use crate::pipeline::{Broken, Copier, Pipeline};

/// Number of bytes of the staging buffer. It must hold what a receiver writes while the first copies are
/// made.
const STAGING_BYTES: usize = 8 << 20;
/// The largest number of events that can be outstanding.
const EVENTS: u64 = 64;
/// The largest number of bytes that one copy reads.
const READ_BYTES: usize = 64 << 10;

/// GPU memory. Written bytes are stored in a staging buffer in pinned host memory. From there, asynchronous
/// copies on one stream transfer them in order. A write has landed when the GPU has passed the event after
/// its copy.
#[derive(Debug)]
pub struct DeviceMemory {
    pipeline: Pipeline<Copies>,
    bounce: Pinned,
    read: Vec<u8>,
}

/// The driver's copies, on their own stream.
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
        // Copies in progress still use both memories. A stream that has failed makes no more copies.
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
    /// Allocates this many bytes, all 0.
    ///
    /// # Errors
    /// If the driver reports an error.
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

    /// The addresses of the memory.
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
        // After an error, the next write returns it, and no more writes land.
        let _ = self.pipeline.submit();
    }

    fn mark(&mut self) -> u64 {
        self.pipeline.mark().unwrap_or(u64::MAX)
    }

    fn has_landed(&mut self, mark: u64) -> bool {
        self.pipeline.has_landed(mark).unwrap_or(false)
    }
}
