//! The driver's interface, loaded from `libcuda.so.1` at run time.
//!
//! Only this file calls the driver. Each value that it returns owns the driver's object and releases it when
//! dropped.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::ptr::{NonNull, copy_nonoverlapping, null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use libloading::Library;

/// Reason for which memory of a CUDA device is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// The machine has no CUDA driver.
    #[error("there is no CUDA driver on this machine ({0}); a GPU is needed")]
    NoDriver(String),
    /// The driver does not have a function that is needed.
    #[error("the CUDA driver has no {0}; a driver of CUDA 12 or later is needed")]
    OldDriver(&'static str),
    /// The machine has a driver but no GPU with this number.
    #[error("the CUDA driver finds no GPU on this machine")]
    NoGpu,
    /// A call of the driver has failed.
    #[error("the CUDA driver refuses {call} ({name}, {code})")]
    Refused {
        /// Name of the function.
        call: &'static str,
        /// The driver's name of the error.
        name: String,
        /// The driver's number of the error.
        code: c_int,
    },
}

type Status = c_int;
type DevicePointer = u64;
type Handle = *mut c_void;

const SUCCESS: Status = 0;
const NO_DEVICE: Status = 100;
const NOT_READY: Status = 600;
/// `CU_STREAM_NON_BLOCKING`: the stream and the default stream, which other frameworks use, do not wait for
/// each other.
const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const WITHOUT_TIMING: c_uint = 2;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`.
const PORTABLE_MAPPED: c_uint = 3;

macro_rules! functions {
    ($($field:ident = $symbol:literal ($($argument:ty),*);)*) => {
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> Status,)*
            /// Keeps the library loaded, because the functions are part of it.
            _library: Library,
        }

        impl Functions {
            fn load(library: Library) -> Result<Self, CudaError> {
                // Safety: the signatures are those in cuda.h. The signature of a function with this name
                // never changes.
                $(let $field = unsafe {
                    *library
                        .get::<unsafe extern "C" fn($($argument),*) -> Status>(concat!($symbol, "\0").as_bytes())
                        .map_err(|_| CudaError::OldDriver($symbol))?
                };)*
                Ok(Self { $($field,)* _library: library })
            }
        }
    };
}

functions! {
    init = "cuInit" (c_uint);
    driver_version = "cuDriverGetVersion" (*mut c_int);
    error_name = "cuGetErrorName" (Status, *mut *const c_char);
    device_count = "cuDeviceGetCount" (*mut c_int);
    device = "cuDeviceGet" (*mut c_int, c_int);
    device_name = "cuDeviceGetName" (*mut c_char, c_int, c_int);
    retain_context = "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    release_context = "cuDevicePrimaryCtxRelease_v2" (c_int);
    set_context = "cuCtxSetCurrent" (Handle);
    allocate = "cuMemAlloc_v2" (*mut DevicePointer, usize);
    free = "cuMemFree_v2" (DevicePointer);
    allocate_host = "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    free_host = "cuMemFreeHost" (*mut c_void);
    host_pointer = "cuMemHostGetDevicePointer_v2" (*mut DevicePointer, *mut c_void, c_uint);
    fill = "cuMemsetD8Async" (DevicePointer, u8, usize, Handle);
    to_device = "cuMemcpyHtoDAsync_v2" (DevicePointer, *const c_void, usize, Handle);
    to_host = "cuMemcpyDtoHAsync_v2" (*mut c_void, DevicePointer, usize, Handle);
    create_stream = "cuStreamCreate" (*mut Handle, c_uint);
    destroy_stream = "cuStreamDestroy_v2" (Handle);
    synchronize = "cuStreamSynchronize" (Handle);
    query_stream = "cuStreamQuery" (Handle);
    create_event = "cuEventCreate" (*mut Handle, c_uint);
    destroy_event = "cuEventDestroy_v2" (Handle);
    record = "cuEventRecord" (Handle, Handle);
    query_event = "cuEventQuery" (Handle);
    await_event = "cuEventSynchronize" (Handle);
    load_module = "cuModuleLoadData" (*mut Handle, *const c_void);
    unload_module = "cuModuleUnload" (Handle);
    function = "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    launch = "cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
}

/// A GPU with its primary context, which PyTorch and CuPy in the same process also use.
pub struct Gpu {
    functions: Functions,
    device: c_int,
    context: Handle,
    name: String,
    version: c_int,
}

// Safety: any thread may call the driver, and each call here first makes the context current in its thread.
unsafe impl Send for Gpu {}
unsafe impl Sync for Gpu {}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu").field("name", &self.name).field("device", &self.device).finish_non_exhaustive()
    }
}

impl Gpu {
    /// Opens the GPU with this number.
    ///
    /// # Errors
    /// If there is no driver or no GPU with this number, or if the driver refuses.
    pub fn open(number: u32) -> Result<Arc<Self>, CudaError> {
        // Safety: loading the driver's library has no preconditions.
        let library = unsafe { Library::new("libcuda.so.1") };
        let functions = Functions::load(library.map_err(|error| {
            // The cause contains the name of the library and the reason.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            CudaError::NoDriver(cause.unwrap_or_else(|| error.to_string()))
        })?)?;
        let mut gpu = Self { functions, device: 0, context: null_mut(), name: String::new(), version: 0 };
        gpu.find(number)?;
        Ok(Arc::new(gpu))
    }

    fn find(&mut self, number: u32) -> Result<(), CudaError> {
        let Self { functions, device, context, version, .. } = self;
        let (mut count, mut name) = (0, [0 as c_char; 256]);
        // Safety: the driver writes to the pointed-to values, which exist until the call returns. The name
        // ends with 0.
        let (initialised, counted) = unsafe { ((functions.init)(0), (functions.device_count)(&mut count)) };
        if initialised == NO_DEVICE
            || initialised == SUCCESS && counted == SUCCESS && count <= number as c_int
        {
            return Err(CudaError::NoGpu);
        }
        let statuses = unsafe {
            [
                ("cuInit", initialised),
                ("cuDeviceGetCount", counted),
                ("cuDriverGetVersion", (functions.driver_version)(version)),
                ("cuDeviceGet", (functions.device)(device, number as c_int)),
                ("cuDeviceGetName", (functions.device_name)(name.as_mut_ptr(), 255, *device)),
                ("cuDevicePrimaryCtxRetain", (functions.retain_context)(context, *device)),
            ]
        };
        self.name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        statuses.into_iter().try_for_each(|(call, status)| self.checked(call, status))
    }

    /// The GPU's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The CUDA version of the driver, for example 13.0.
    pub fn driver_version(&self) -> String {
        format!("{}.{}", self.version / 1_000, self.version % 1_000 / 10)
    }

    fn checked(&self, call: &'static str, code: Status) -> Result<(), CudaError> {
        if code == SUCCESS {
            return Ok(());
        }
        let mut name = null();
        // Safety: the driver stores a pointer to a static text or a null pointer.
        let name = unsafe {
            (self.functions.error_name)(code, &mut name);
            if name.is_null() { "?".into() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
        };
        Err(CudaError::Refused { call, name, code })
    }

    /// Calls a function of the driver in this GPU's context.
    fn call(&self, name: &'static str, call: impl FnOnce(&Functions) -> Status) -> Result<(), CudaError> {
        // Safety: the context exists as long as this value.
        self.checked("cuCtxSetCurrent", unsafe { (self.functions.set_context)(self.context) })?;
        self.checked(name, call(&self.functions))
    }

    /// As [`Gpu::call`], for a function that may answer "not ready". Returns whether it was ready.
    fn ask(&self, name: &'static str, call: impl FnOnce(&Functions) -> Status) -> Result<bool, CudaError> {
        let mut is_ready = true;
        self.call(name, |functions| match call(functions) {
            NOT_READY => {
                is_ready = false;
                SUCCESS
            }
            status => status,
        })?;
        Ok(is_ready)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !self.context.is_null() {
            // Safety: nothing else uses the context, because everything that does owns a reference to this
            // value.
            unsafe { (self.functions.release_context)(self.device) };
        }
    }
}

/// Pinned host memory, which the GPU reaches over PCIe at its own address. Its bytes are 0 at first.
#[derive(Debug)]
pub(crate) struct Pinned {
    gpu: Arc<Gpu>,
    bytes: NonNull<u8>,
    length: usize,
    device_address: DevicePointer,
}

// Safety: as with a box, only this value owns the memory. For the GPU it does not matter which thread writes.
unsafe impl Send for Pinned {}

impl Pinned {
    pub(crate) fn new(gpu: &Arc<Gpu>, length: usize) -> Result<Self, CudaError> {
        let (mut bytes, mut device_address) = (null_mut(), 0);
        // Safety: the driver writes the pointers, and the memory has `length` bytes.
        gpu.call("cuMemHostAlloc", |driver| unsafe {
            (driver.allocate_host)(&mut bytes, length.max(1), PORTABLE_MAPPED)
        })?;
        let bytes = NonNull::new(bytes.cast()).expect("the driver has allocated it");
        let mut pinned = Self { gpu: gpu.clone(), bytes, length, device_address: 0 };
        unsafe { bytes.write_bytes(0, length) };
        gpu.call("cuMemHostGetDevicePointer", |driver| unsafe {
            (driver.host_pointer)(&mut device_address, bytes.as_ptr().cast(), 0)
        })?;
        pinned.device_address = device_address;
        Ok(pinned)
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Addresses of the first byte: for the GPU, and for code in this process.
    pub(crate) fn addresses(&self) -> (DevicePointer, usize) {
        (self.device_address, self.bytes.as_ptr() as usize)
    }

    /// Stores bytes. They become visible after all earlier stores.
    ///
    /// # Panics
    /// If the bytes do not fit.
    pub(crate) fn store(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.length && bytes.len() <= self.length - at);
        fence(Ordering::Release);
        // Safety: the bytes fit. There are no references to this memory, which the GPU may read at the same
        // time.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), self.bytes.as_ptr().add(at), bytes.len()) };
    }

    /// Copies bytes from this memory.
    ///
    /// # Panics
    /// If the range is not within the memory.
    pub(crate) fn load(&self, at: usize, out: &mut [u8]) {
        assert!(at <= self.length && out.len() <= self.length - at);
        // Safety: as in `store`.
        unsafe { copy_nonoverlapping(self.bytes.as_ptr().add(at), out.as_mut_ptr(), out.len()) };
    }

    /// An 8-byte word that the GPU may read or write at the same time.
    ///
    /// # Panics
    /// If the index is outside the memory.
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.length / 8);
        // Safety: the memory is aligned to pages, and the word is within it.
        unsafe { AtomicU64::from_ptr(self.bytes.as_ptr().cast::<u64>().add(index)) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Safety: nothing uses the memory any more.
        let _ = self
            .gpu
            .call("cuMemFreeHost", |driver| unsafe { (driver.free_host)(self.bytes.as_ptr().cast()) });
    }
}

/// A stream: the GPU executes its operations one after the other.
#[derive(Debug)]
pub(crate) struct Stream {
    gpu: Arc<Gpu>,
    handle: Handle,
}

// Safety: the driver's handles do not belong to a thread.
unsafe impl Send for Stream {}

impl Stream {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self, CudaError> {
        let mut handle = null_mut();
        // Safety: the driver writes the handle.
        gpu.call("cuStreamCreate", |driver| unsafe { (driver.create_stream)(&mut handle, NON_BLOCKING) })?;
        Ok(Self { gpu: gpu.clone(), handle })
    }

    /// Waits until all operations of the stream have finished.
    pub(crate) fn wait(&self) -> Result<(), CudaError> {
        // Safety: the stream exists.
        self.gpu.call("cuStreamSynchronize", |driver| unsafe { (driver.synchronize)(self.handle) })
    }

    pub(crate) fn is_done(&self) -> Result<bool, CudaError> {
        // Safety: the stream exists.
        self.gpu.ask("cuStreamQuery", |driver| unsafe { (driver.query_stream)(self.handle) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Safety: the stream exists. Operations in progress still finish.
        let _ = self.gpu.call("cuStreamDestroy", |driver| unsafe { (driver.destroy_stream)(self.handle) });
    }
}

/// An event, which marks a position in a stream.
#[derive(Debug)]
pub(crate) struct Event {
    gpu: Arc<Gpu>,
    handle: Handle,
}

// Safety: the driver's handles do not belong to a thread.
unsafe impl Send for Event {}

impl Event {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self, CudaError> {
        let mut handle = null_mut();
        // Safety: the driver writes the handle.
        gpu.call("cuEventCreate", |driver| unsafe { (driver.create_event)(&mut handle, WITHOUT_TIMING) })?;
        Ok(Self { gpu: gpu.clone(), handle })
    }

    /// Records the event after everything that was submitted to the stream so far.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        // Safety: both the event and the stream exist.
        self.gpu.call("cuEventRecord", |driver| unsafe { (driver.record)(self.handle, stream.handle) })
    }

    pub(crate) fn is_reached(&self) -> Result<bool, CudaError> {
        // Safety: the event exists.
        self.gpu.ask("cuEventQuery", |driver| unsafe { (driver.query_event)(self.handle) })
    }

    pub(crate) fn wait(&self) -> Result<(), CudaError> {
        // Safety: the event exists.
        self.gpu.call("cuEventSynchronize", |driver| unsafe { (driver.await_event)(self.handle) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // Safety: the event exists.
        let _ = self.gpu.call("cuEventDestroy", |driver| unsafe { (driver.destroy_event)(self.handle) });
    }
}

/// GPU memory. Its bytes are 0 at first.
#[derive(Debug)]
pub(crate) struct Allocation {
    gpu: Arc<Gpu>,
    address: DevicePointer,
    length: usize,
}

impl Allocation {
    pub(crate) fn new(gpu: &Arc<Gpu>, length: usize, stream: &Stream) -> Result<Self, CudaError> {
        let mut address = 0;
        // Safety: the driver writes the address of `length` bytes.
        gpu.call("cuMemAlloc", |driver| unsafe { (driver.allocate)(&mut address, length.max(1)) })?;
        let allocation = Self { gpu: gpu.clone(), address, length };
        gpu.call("cuMemsetD8Async", |driver| unsafe { (driver.fill)(address, 0, length, stream.handle) })?;
        stream.wait()?;
        Ok(allocation)
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn address(&self) -> DevicePointer {
        self.address
    }

    /// Starts a copy from offset `from` of pinned memory. The owner of the stream must wait for the copy
    /// before it drops either memory.
    ///
    /// # Panics
    /// If one of the ranges is outside its memory.
    pub(crate) fn begin_write(
        &self,
        stream: &Stream,
        (pinned, from): (&Pinned, usize),
        to: usize,
        length: usize,
    ) -> Result<(), CudaError> {
        assert!(from <= pinned.length && length <= pinned.length - from);
        assert!(to <= self.length && length <= self.length - to);
        // Safety: both ranges are within their memories, which exist until the copy has finished: the driver
        // also waits before it frees memory.
        self.gpu.call("cuMemcpyHtoDAsync", |driver| unsafe {
            let source = pinned.bytes.as_ptr().add(from).cast_const().cast();
            (driver.to_device)(self.address + to as u64, source, length, stream.handle)
        })
    }

    /// Copies to the beginning of pinned memory, after everything that was submitted to the stream so far.
    ///
    /// # Panics
    /// If one of the ranges is outside its memory.
    pub(crate) fn read(
        &self,
        stream: &Stream,
        from: usize,
        pinned: &mut Pinned,
        length: usize,
    ) -> Result<(), CudaError> {
        assert!(length <= pinned.length && from <= self.length && length <= self.length - from);
        // Safety: both ranges are within their memories, and this function waits for the copy.
        self.gpu.call("cuMemcpyDtoHAsync", |driver| unsafe {
            (driver.to_host)(pinned.bytes.as_ptr().cast(), self.address + from as u64, length, stream.handle)
        })?;
        stream.wait()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Safety: the memory is allocated, and the driver waits for operations that still use it.
        let _ = self.gpu.call("cuMemFree", |driver| unsafe { (driver.free)(self.address) });
    }
}

/// A GPU kernel, which the driver compiles.
#[derive(Debug)]
pub(crate) struct Kernel {
    gpu: Arc<Gpu>,
    module: Handle,
    function: Handle,
}

// Safety: the driver's handles do not belong to a thread.
unsafe impl Send for Kernel {}

impl Kernel {
    /// Compiles the function `name` from PTX text.
    pub(crate) fn new(gpu: &Arc<Gpu>, text: &CStr, name: &CStr) -> Result<Self, CudaError> {
        let mut module = null_mut();
        // Safety: the driver writes the handles, and the texts end with 0.
        gpu.call("cuModuleLoadData", |driver| unsafe {
            (driver.load_module)(&mut module, text.as_ptr().cast())
        })?;
        let mut kernel = Self { gpu: gpu.clone(), module, function: null_mut() };
        gpu.call("cuModuleGetFunction", |driver| unsafe {
            (driver.function)(&mut kernel.function, module, name.as_ptr())
        })?;
        Ok(kernel)
    }

    /// Starts the kernel with this many threads in one block.
    ///
    /// # Safety
    /// The parameters must match those of the function, 8 bytes each. The memory that the kernel reads and
    /// writes must exist until the stream has passed the kernel.
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        threads: u32,
        parameters: &mut [u64],
    ) -> Result<(), CudaError> {
        let mut pointers: Vec<*mut c_void> =
            parameters.iter_mut().map(|parameter| (&raw mut *parameter).cast()).collect();
        // Safety: the driver copies the parameters before it returns. The caller guarantees the rest.
        self.gpu.call("cuLaunchKernel", |driver| unsafe {
            let (function, stream, none) = (self.function, stream.handle, null_mut());
            (driver.launch)(function, 1, 1, 1, threads, 1, 1, 0, stream, pointers.as_mut_ptr(), none)
        })
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Safety: the module is loaded.
        let _ = self.gpu.call("cuModuleUnload", |driver| unsafe { (driver.unload_module)(self.module) });
    }
}
