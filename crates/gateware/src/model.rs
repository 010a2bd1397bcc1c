//! One Verilated NIC: clock and ports.

use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;

// A crate that is not named is not linked.
#[cfg(feature = "fst")]
use {libz_sys as _, lz4_sys as _};

include!(concat!(env!("OUT_DIR"), "/ports.rs"));

// The arrays of a model are words of the machine, and are read as bytes.
const _: () = assert!(cfg!(target_endian = "little"));

/// The C++ side's instance.
#[repr(C)]
struct Instance {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn weft_model_new(seed: u32) -> *mut Instance;
    fn weft_model_delete(model: *mut Instance);
    fn weft_model_step(
        model: *mut Instance,
        inputs: *const Inputs,
        outputs: *mut Outputs,
        time_ps: u64,
    ) -> bool;
    fn weft_model_failure(model: *const Instance) -> *const c_char;
    fn weft_model_trace(model: *mut Instance, path: *const c_char) -> bool;
    fn weft_model_trace_end(model: *mut Instance);
    fn weft_model_memory(model: *mut Instance, on_chip: bool, bytes: *mut usize) -> *mut u8;
}

/// An instance of the top level, after reset.
#[derive(Debug)]
pub(crate) struct Model {
    instance: NonNull<Instance>,
}

// SAFETY: all state of an instance lies in its own Verilator context, and whoever has the `Model` is the only one to use it.
unsafe impl Send for Model {}

impl Model {
    /// A NIC that has just been reset. Storage that reset leaves alone holds zeros, or bits that follow from a seed that is
    /// not zero.
    pub(crate) fn new(seed: u32) -> Self {
        // SAFETY: the function has no preconditions.
        let instance = unsafe { weft_model_new(seed) };
        Self { instance: NonNull::new(instance).expect("the C++ side allocates or ends the process") }
    }

    /// One clock cycle: `outputs` are those that belong to `inputs`, before the rising edge.
    ///
    /// # Panics
    /// If an assertion of the gateware fails: it has a mistake, and nothing that it does later can be trusted.
    #[inline]
    pub(crate) fn step(&mut self, inputs: &Inputs, outputs: &mut Outputs, time_ps: u64) {
        // SAFETY: the instance lives, and both structs have the layout that the build has written for both sides.
        let failed = unsafe { weft_model_step(self.instance.as_ptr(), inputs, outputs, time_ps) };
        assert!(!failed, "gateware: {} (at {time_ps} ps)", self.failure());
    }

    fn failure(&self) -> String {
        // SAFETY: the C++ side returns a string that lives as long as the instance is not used again.
        unsafe { CStr::from_ptr(weft_model_failure(self.instance.as_ptr())) }.to_string_lossy().into_owned()
    }

    /// The bytes of the on-chip memory, or of the register file as reads see it.
    pub(crate) fn memory(&mut self, on_chip: bool) -> &[u8] {
        self.memory_mut(on_chip)
    }

    /// As [`Model::memory`], to fill in.
    pub(crate) fn memory_mut(&mut self, on_chip: bool) -> &mut [u8] {
        let mut bytes = 0;
        // SAFETY: the instance lives, and `bytes` is a place for a number.
        let array = unsafe { weft_model_memory(self.instance.as_ptr(), on_chip, &mut bytes) };
        if array.is_null() {
            return &mut [];
        }
        // SAFETY: the C++ side returns an array of the instance and its size. It lives as long as the instance, and nobody
        // else uses it while `self` is borrowed. Words of this machine are little-endian, as the lanes of the memory are.
        unsafe { std::slice::from_raw_parts_mut(array, bytes) }
    }

    /// Begins to write a waveform file.
    ///
    /// # Errors
    /// The file cannot be opened, or the crate was built without the feature `fst`.
    pub(crate) fn begin_trace(&mut self, path: &Path) -> io::Result<()> {
        if !cfg!(feature = "fst") {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "built without the feature `fst`"));
        }
        // Verilator's writer does not say that it cannot open a file.
        File::create(path)?;
        let name = CString::new(path.as_os_str().as_encoded_bytes())?;
        // SAFETY: the instance lives, and the C++ side copies the name.
        if unsafe { weft_model_trace(self.instance.as_ptr(), name.as_ptr()) } {
            Ok(())
        } else {
            Err(io::Error::other(format!("{} cannot be written", path.display())))
        }
    }

    /// Closes the waveform file, if there is one.
    pub(crate) fn end_trace(&mut self) {
        // SAFETY: the instance lives.
        unsafe { weft_model_trace_end(self.instance.as_ptr()) }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.end_trace();
        // SAFETY: nobody else has the pointer.
        unsafe { weft_model_delete(self.instance.as_ptr()) }
    }
}
