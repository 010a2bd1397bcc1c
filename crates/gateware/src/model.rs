//! Verilated modules: clock and ports.

use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;

// A crate that is not named is not linked.
#[cfg(feature = "fst")]
use {libz_sys as _, lz4_sys as _};

// The arrays of a model are words of the machine, and are read as bytes.
const _: () = assert!(cfg!(target_endian = "little"));

/// The C++ side's instance.
#[repr(C)]
pub(crate) struct Instance {
    _opaque: [u8; 0],
}

/// The functions of the C++ side.
#[derive(Debug)]
pub(crate) struct Functions<I, O> {
    new: unsafe extern "C" fn(u32) -> *mut Instance,
    delete: unsafe extern "C" fn(*mut Instance),
    step: unsafe extern "C" fn(*mut Instance, *const I, *mut O, u64) -> bool,
    failure: unsafe extern "C" fn(*const Instance) -> *const c_char,
    trace: unsafe extern "C" fn(*mut Instance, *const c_char) -> bool,
    trace_end: unsafe extern "C" fn(*mut Instance),
    memory: unsafe extern "C" fn(*mut Instance, bool, *mut usize) -> *mut u8,
}

/// In place of the functions of a module in a build without models: no instance exists that they could be called with.
#[cfg(not(feature = "models"))]
mod absent {
    use super::{Instance, c_char};

    pub(super) unsafe extern "C" fn model_new(_: u32) -> *mut Instance {
        std::ptr::null_mut()
    }

    pub(super) unsafe extern "C" fn model_delete(_: *mut Instance) {}

    pub(super) unsafe extern "C" fn model_step<I, O>(
        _: *mut Instance,
        _: *const I,
        _: *mut O,
        _: u64,
    ) -> bool {
        true
    }

    pub(super) unsafe extern "C" fn model_failure(_: *const Instance) -> *const c_char {
        c"there is no model".as_ptr()
    }

    pub(super) unsafe extern "C" fn model_trace(_: *mut Instance, _: *const c_char) -> bool {
        false
    }

    pub(super) unsafe extern "C" fn model_trace_end(_: *mut Instance) {}

    pub(super) unsafe extern "C" fn model_memory(_: *mut Instance, _: bool, bytes: *mut usize) -> *mut u8 {
        // SAFETY: the caller gives a place for a number.
        unsafe { *bytes = 0 };
        std::ptr::null_mut()
    }
}

/// A module that was built.
///
/// # Safety
/// The functions must be those of one module, and the structs its ports as the build has written them.
pub(crate) unsafe trait Top {
    type Inputs;
    type Outputs;
    const FUNCTIONS: Functions<Self::Inputs, Self::Outputs>;
}

/// The ports and functions of a module, from what the build has written.
macro_rules! top {
    ($(#[$doc:meta])* $module:ident: $ports:literal, $functions:literal) => {
        $(#[$doc])*
        pub(crate) mod $module {
            use super::Functions;
            #[cfg(feature = "models")]
            use super::{Instance, c_char};

            #[cfg(feature = "models")]
            include!(concat!(env!("OUT_DIR"), "/", $ports));
            #[cfg(feature = "models")]
            include!(concat!(env!("OUT_DIR"), "/", $functions));

            // As the build has last written them: a test compares.
            #[cfg(not(feature = "models"))]
            include!(concat!("generated/", $ports));
            #[cfg(not(feature = "models"))]
            use super::absent::{
                model_delete, model_failure, model_memory, model_new, model_step, model_trace, model_trace_end,
            };

            #[derive(Debug)]
            pub(crate) struct Top;

            // SAFETY: the build writes structs and functions from one Verilated module.
            unsafe impl super::Top for Top {
                type Inputs = Inputs;
                type Outputs = Outputs;
                const FUNCTIONS: Functions<Inputs, Outputs> = Functions {
                    new: model_new,
                    delete: model_delete,
                    step: model_step,
                    failure: model_failure,
                    trace: model_trace,
                    trace_end: model_trace_end,
                    memory: model_memory,
                };
            }
        }
    };
}

top! {
    /// The NIC.
    weft_nic: "weft_nic_ports.rs", "weft_nic_functions.rs"
}

top! {
    /// The key-value engine.
    kv: "kv_ports.rs", "kv_functions.rs"
}

top! {
    /// The rounds engine.
    rounds: "rounds_ports.rs", "rounds_functions.rs"
}

top! {
    /// The rounds engine with the all-reduce.
    rounds_all_reduce: "rounds_all_reduce_ports.rs", "rounds_all_reduce_functions.rs"
}

top! {
    /// The maps and taps.
    services: "services_ports.rs", "services_functions.rs"
}

top! {
    /// PSP between MAC and card.
    psp_port: "psp_port_ports.rs", "psp_port_functions.rs"
}

/// An instance of a module, after reset.
#[derive(Debug)]
pub(crate) struct Model<T: Top> {
    instance: NonNull<Instance>,
    functions: std::marker::PhantomData<T>,
}

// SAFETY: all state of an instance lies in its own Verilator context, and whoever has the `Model` is the only one to
// use it.
unsafe impl<T: Top> Send for Model<T> {}

impl<T: Top> Model<T> {
    /// A module that has just been reset. Storage that reset leaves alone holds zeros, or bits that follow from a
    /// seed that is not zero.
    ///
    /// # Panics
    /// If the crate was built without the feature `models`; callers ask [`crate::MODELS`] first.
    pub(crate) fn new(seed: u32) -> Self {
        if !crate::MODELS {
            panic!("this build has no models of the gateware: they need the feature `models`");
        }
        // SAFETY: the function has no preconditions.
        let instance = unsafe { (T::FUNCTIONS.new)(seed) };
        let instance = NonNull::new(instance).expect("the C++ side allocates or ends the process");
        Self { instance, functions: std::marker::PhantomData }
    }

    /// One clock cycle: `outputs` are those that belong to `inputs`, before the rising edge.
    ///
    /// # Panics
    /// If an assertion of the gateware fails: it has a mistake, and nothing that it does later can be trusted.
    #[inline]
    pub(crate) fn step(&mut self, inputs: &T::Inputs, outputs: &mut T::Outputs, time_ps: u64) {
        // SAFETY: the instance lives, and both structs have the layout that the build has written for both sides.
        let failed = unsafe { (T::FUNCTIONS.step)(self.instance.as_ptr(), inputs, outputs, time_ps) };
        assert!(!failed, "gateware: {} (at {time_ps} ps)", self.failure());
    }

    fn failure(&self) -> String {
        // SAFETY: the C++ side returns a string that lives as long as the instance is not used again.
        unsafe { CStr::from_ptr((T::FUNCTIONS.failure)(self.instance.as_ptr())) }
            .to_string_lossy()
            .into_owned()
    }

    /// The bytes of the on-chip memory, or of the register file as reads see it.
    pub(crate) fn memory(&mut self, on_chip: bool) -> &[u8] {
        self.memory_mut(on_chip)
    }

    /// As [`Model::memory`], to fill in.
    pub(crate) fn memory_mut(&mut self, on_chip: bool) -> &mut [u8] {
        let mut bytes = 0;
        // SAFETY: the instance lives, and `bytes` is a place for a number.
        let array = unsafe { (T::FUNCTIONS.memory)(self.instance.as_ptr(), on_chip, &mut bytes) };
        if array.is_null() {
            return &mut [];
        }
        // SAFETY: the C++ side returns an array of the instance and its size. It lives as long as the instance, and
        // nobody else uses it while `self` is borrowed. Words of this machine are little-endian, as the lanes of the
        // memory are.
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
        if unsafe { (T::FUNCTIONS.trace)(self.instance.as_ptr(), name.as_ptr()) } {
            Ok(())
        } else {
            Err(io::Error::other(format!("{} cannot be written", path.display())))
        }
    }

    /// Closes the waveform file, if there is one.
    pub(crate) fn end_trace(&mut self) {
        // SAFETY: the instance lives.
        unsafe { (T::FUNCTIONS.trace_end)(self.instance.as_ptr()) }
    }
}

impl<T: Top> Drop for Model<T> {
    fn drop(&mut self) {
        self.end_trace();
        // SAFETY: nobody else has the pointer.
        unsafe { (T::FUNCTIONS.delete)(self.instance.as_ptr()) }
    }
}
