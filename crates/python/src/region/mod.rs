//! Regions: memory to which another program writes, for numpy, PyTorch and other users of Python's buffer
//! protocol.

mod memory;
mod worker;

use std::ffi::{c_int, c_void};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{
    PyBufferError, PyConnectionError, PyOSError, PyRuntimeError, PyTimeoutError, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weft_cuda::{DeviceMemory, Gpu, MappedMemory, Place};
use weft_net::{IdlePolicy, RegionEnd, RegionEndError, RegionMemoryKind};
use weft_nic::AttachedMemory;
use weft_service::preprocess::Pipeline;
use weft_verbs::PathMtu;

use memory::HostMemory;
use worker::{Waited, Worker, Write};

/// How long the thread of a region polls before it sleeps: a batch arrives in many packets.
const POLL: weft_time::Duration = weft_time::Duration::from_us(200);
/// The longest region.
const BYTES_MAX: usize = 1 << 40;
/// Path MTU between machines: packets of this size fit into Ethernet frames without jumbo frames.
const MTU: PathMtu = PathMtu::Bytes1024;

fn refused(error: &RegionEndError) -> PyErr {
    let text = error.to_string();
    match error {
        RegionEndError::Outside { .. } => PyValueError::new_err(text),
        RegionEndError::Bind(_) | RegionEndError::Io(_) => PyOSError::new_err(text),
        _ => PyConnectionError::new_err(text),
    }
}

fn waited(waited: Waited) -> PyErr {
    match waited {
        Waited::InVain => PyTimeoutError::new_err("nothing was heard of the peer in this time"),
        Waited::Failed(failure) => PyConnectionError::new_err(failure),
    }
}

fn limit(timeout_s: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(timeout_s)
        .map_err(|_| PyValueError::new_err("a time-out is a number of seconds, 0 or more"))
}

/// State of a region.
#[derive(Debug)]
enum Stage {
    Alone(Box<RegionEnd>),
    Connected(Arc<Worker>),
    /// Nobody writes to the region any more; its memory still exists.
    Closed(#[allow(dead_code, reason = "views may still look at it")] Option<Box<dyn AttachedMemory>>),
}

/// Memory that is connected to a region of one other program. Each program can write parts of its own region
/// into the other's.
#[pyclass(frozen, module = "weft")]
pub(crate) struct Region {
    stage: Mutex<Stage>,
    address: Ipv4Addr,
    place: Place,
    /// Whether the memory is accessible to the GPU.
    is_cuda: bool,
}

impl Region {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with the worker, while other Python threads can run.
    fn with_worker<T: Send>(
        &self,
        python: Python<'_>,
        work: impl FnOnce(&Worker) -> Result<T, Waited> + Send,
    ) -> PyResult<T> {
        // The lock is released before the call waits, so that other threads can use the region.
        let worker = match &*self.stage() {
            Stage::Connected(worker) => worker.clone(),
            Stage::Alone(_) => return Err(PyConnectionError::new_err("this region has no peer yet")),
            Stage::Closed(_) => return Err(PyConnectionError::new_err("this region is closed")),
        };
        python.detach(|| work(&worker)).map_err(waited)
    }

    /// Checks that the region is not connected yet.
    fn check_alone(&self) -> PyResult<()> {
        match &*self.stage() {
            Stage::Alone(_) => Ok(()),
            _ => Err(PyConnectionError::new_err("this region has, or had, a peer already")),
        }
    }

    /// Exchanges introductions, connects, and starts the thread.
    fn meet(&self, stream: &TcpStream) -> PyResult<()> {
        let mut stage = self.stage();
        let Stage::Alone(end) = &mut *stage else {
            return Err(PyConnectionError::new_err("this region has, or had, a peer already"));
        };
        let peer = end.introduction().exchange(stream)?;
        let is_local = self.address.is_loopback();
        end.connect(&peer, if is_local { PathMtu::Bytes4096 } else { MTU })
            .map_err(|error| refused(&error))?;
        let Stage::Alone(end) = std::mem::replace(&mut *stage, Stage::Closed(None)) else {
            unreachable!("it was alone")
        };
        *stage = Stage::Connected(Arc::new(Worker::start(*end)?));
        Ok(())
    }
}

#[pymethods]
impl Region {
    #[new]
    #[pyo3(signature = (address, nbytes, memory = "host", gpu = 0, pipeline = None))]
    fn new(address: &str, nbytes: usize, memory: &str, gpu: u32, pipeline: Option<&str>) -> PyResult<Self> {
        let address: Ipv4Addr =
            address.parse().map_err(|_| PyValueError::new_err(format!("{address} is no IPv4 address")))?;
        if !(1..=BYTES_MAX).contains(&nbytes) {
            return Err(PyValueError::new_err("a region has 1 to 2^40 bytes"));
        }
        let pipeline = pipeline.map(parse).transpose()?;
        let on_gpu = |error: weft_cuda::CudaError| PyRuntimeError::new_err(error.to_string());
        let (attached, place): (Box<dyn AttachedMemory>, Place) = match memory {
            "host" => {
                let memory = HostMemory::new(nbytes);
                let place = Place { gpu: 0, host: Some(memory.address()), bytes: nbytes };
                (Box::new(memory), place)
            }
            "mapped" => {
                let memory =
                    Gpu::open(gpu).and_then(|gpu| MappedMemory::new(&gpu, nbytes)).map_err(on_gpu)?;
                let place = memory.place();
                (Box::new(memory), place)
            }
            "device" => {
                let memory =
                    Gpu::open(gpu).and_then(|gpu| DeviceMemory::new(&gpu, nbytes)).map_err(on_gpu)?;
                let place = memory.place();
                (Box::new(memory), place)
            }
            _ => {
                return Err(PyValueError::new_err(format!(
                    "memory: {memory}; choose host, mapped or device"
                )));
            }
        };
        let kind = RegionMemoryKind::Attached(attached, nbytes as u64);
        let end = RegionEnd::open(address, kind, IdlePolicy::share_then_sleep(POLL));
        let mut end = end.map_err(|error| refused(&error))?;
        if let Some(pipeline) = pipeline {
            end.preprocess(pipeline);
        }
        let stage = Mutex::new(Stage::Alone(Box::new(end)));
        Ok(Self { stage, address, place, is_cuda: memory != "host" })
    }

    /// Wait for the other program at a TCP port of this region's address, and connect with its region.
    #[pyo3(signature = (port, timeout_s = 30.0))]
    fn accept(&self, python: Python<'_>, port: u16, timeout_s: f64) -> PyResult<()> {
        let limit = limit(timeout_s)?;
        self.check_alone()?;
        python.detach(|| {
            let listener = TcpListener::bind(SocketAddrV4::new(self.address, port))?;
            listener.set_nonblocking(true)?;
            let end = std::time::Instant::now() + limit;
            let stream = loop {
                match listener.accept() {
                    Ok((stream, _)) => break stream,
                    Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error.into()),
                    Err(_) if std::time::Instant::now() >= end => return Err(waited(Waited::InVain)),
                    Err(_) => std::thread::sleep(Duration::from_millis(2)),
                }
            };
            stream.set_nonblocking(false)?;
            self.meet(&stream)
        })
    }

    /// Connect with the region of the other program, which waits at this address and TCP port, now or soon.
    #[pyo3(signature = (address, port, timeout_s = 30.0))]
    fn connect(&self, python: Python<'_>, address: &str, port: u16, timeout_s: f64) -> PyResult<()> {
        let limit = limit(timeout_s)?;
        let address: Ipv4Addr =
            address.parse().map_err(|_| PyValueError::new_err(format!("{address} is no IPv4 address")))?;
        self.check_alone()?;
        python.detach(|| {
            let end = std::time::Instant::now() + limit;
            loop {
                match TcpStream::connect(SocketAddrV4::new(address, port)) {
                    Ok(stream) => return self.meet(&stream),
                    Err(error) if std::time::Instant::now() >= end => return Err(error.into()),
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        })
    }

    /// Write a part of this region to the other program's.
    #[pyo3(signature = (offset, nbytes, to, value = None, timeout_s = 30.0))]
    fn write(
        &self,
        python: Python<'_>,
        offset: u64,
        nbytes: u32,
        to: u64,
        value: Option<u32>,
        timeout_s: f64,
    ) -> PyResult<()> {
        let limit = limit(timeout_s)?;
        let fits = offset.checked_add(nbytes.into()).is_some_and(|end| end <= self.place.bytes as u64);
        if !fits {
            let text =
                format!("{nbytes} bytes at {offset} do not lie in this region of {} bytes", self.place.bytes);
            return Err(PyValueError::new_err(text));
        }
        let write = Write { from: offset, length: nbytes, to, value };
        self.with_worker(python, move |worker| worker.write(write, limit))
    }

    /// Wait until all writes have arrived.
    #[pyo3(signature = (timeout_s = 30.0))]
    fn flush(&self, python: Python<'_>, timeout_s: f64) -> PyResult<()> {
        let limit = limit(timeout_s)?;
        self.with_worker(python, move |worker| worker.flush(limit))
    }

    /// Send a value to the other program.
    #[pyo3(signature = (value, timeout_s = 30.0))]
    fn tell(&self, python: Python<'_>, value: u32, timeout_s: f64) -> PyResult<()> {
        self.write(python, 0, 0, 0, Some(value), timeout_s)
    }

    /// The next value that the other program sends. All its earlier writes are in this region then.
    #[pyo3(signature = (timeout_s = 30.0))]
    fn wait(&self, python: Python<'_>, timeout_s: f64) -> PyResult<u32> {
        let limit = limit(timeout_s)?;
        self.with_worker(python, move |worker| worker.told(limit))
    }

    /// Close the connection: nobody writes to this region any more. Its bytes stay.
    fn close(&self, python: Python<'_>) {
        python.detach(|| {
            let mut stage = self.stage();
            *stage = match std::mem::replace(&mut *stage, Stage::Closed(None)) {
                Stage::Connected(worker) => Stage::Closed(worker.stop().and_then(RegionEnd::close)),
                Stage::Alone(end) => Stage::Closed(end.close()),
                closed => closed,
            };
        });
    }

    /// Length of the region in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.place.bytes
    }

    /// The location of the memory for CUDA, in the form that PyTorch and CuPy use.
    #[getter(__cuda_array_interface__)]
    fn cuda_array_interface<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if !self.is_cuda {
            let text = "a region in host memory has no __cuda_array_interface__";
            return Err(pyo3::exceptions::PyAttributeError::new_err(text));
        }
        let interface = PyDict::new(python);
        interface.set_item("shape", (self.place.bytes,))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.place.gpu, false))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let Place { host, bytes, .. } = slf.get().place;
        let Some(host) = host else {
            return Err(PyBufferError::new_err("a region on the GPU has no bytes in host memory"));
        };
        // Safety: the memory lives as long as the region, of which the view holds a reference.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                host as *mut c_void,
                bytes as ffi::Py_ssize_t,
                0,
                flags,
            )
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }

    fn __len__(&self) -> usize {
        self.place.bytes
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        python: Python<'_>,
        _exception: Bound<'_, PyAny>,
        _value: Bound<'_, PyAny>,
        _trace: Bound<'_, PyAny>,
    ) {
        self.close(python);
    }
}

/// The pipeline of a preset's name or of a declaration in TOML.
fn parse(text: &str) -> PyResult<Pipeline> {
    let is_name = !text.contains('=');
    let pipeline = if is_name { Pipeline::preset(text.trim()) } else { text.parse() };
    pipeline.map_err(|error| PyValueError::new_err(format!("pipeline: {error}")))
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Region>()
}
