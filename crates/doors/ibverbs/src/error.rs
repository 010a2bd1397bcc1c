//! Conversion of errors to the conventions of C.

use std::ffi::c_int;
use std::ptr;

use weft_device::DeviceError;
use weft_verbs::ApiError;

use crate::events::set_errno;

/// The `errno` value of an error.
pub fn number(error: DeviceError) -> c_int {
    match error {
        DeviceError::QueueFull | DeviceError::TooMany(_) => libc::ENOMEM,
        DeviceError::Transport(
            ApiError::QueueFull(_)
            | ApiError::CompletionQueueFull
            | ApiError::TooManyQueuePairs(_)
            | ApiError::TooManyRegions(_),
        ) => libc::ENOMEM,
        DeviceError::Busy => libc::EBUSY,
        DeviceError::Fault => libc::EFAULT,
        DeviceError::MessageTooLong => libc::EMSGSIZE,
        _ => libc::EINVAL,
    }
}

/// Zero, or an error's `errno` value, which is also stored in `errno`.
pub fn code(result: Result<(), DeviceError>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => fail(number(error)),
    }
}

/// Sets `errno`.
pub fn fail(number: c_int) -> c_int {
    set_errno(number);
    number
}

/// Returns a null pointer, with `errno` set.
pub fn null<T>(number: c_int) -> *mut T {
    set_errno(number);
    ptr::null_mut()
}
