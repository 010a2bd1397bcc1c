//! Errors as exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use weft_client::{Error, OpenError};

create_exception!(weft, WeftError, PyException, "Why a call has no answer that a program can go on with.");
create_exception!(weft, RefusedError, WeftError, "The cluster refuses the call. Nothing has happened.");
create_exception!(weft, ClosedError, WeftError, "The client is closed. A call may have taken effect, once.");
create_exception!(weft, ForgottenError, WeftError, "The log no longer keeps this entry.");
create_exception!(
    weft,
    NotBegunError,
    PyTimeoutError,
    "No node took the call within the time-out. Nothing has happened."
);
create_exception!(
    weft,
    UnknownError,
    PyTimeoutError,
    "No answer within the time-out. An update has taken effect once or never, or may still do so."
);

/// The exception for an error of a call. For an invalid call it is a `ValueError`.
pub(crate) fn exception(error: &Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Invalid(_) => PyValueError::new_err(text),
        Error::Refused(_) | Error::BackupEnded { .. } => RefusedError::new_err(text),
        Error::NotBegun { .. } | Error::KeyMismatch(_) => NotBegunError::new_err(text),
        Error::Unknown { .. } => UnknownError::new_err(text),
        Error::Closed => ClosedError::new_err(text),
        Error::Forgotten { .. } => ForgottenError::new_err(text),
    }
}

/// The exception for a client that cannot be opened.
pub(crate) fn not_opened(error: &OpenError) -> PyErr {
    match error {
        OpenError::Cluster(_) => PyValueError::new_err(error.to_string()),
        OpenError::Key(_) | OpenError::Bind(_) | OpenError::Directory(_) | OpenError::System(_) => {
            WeftError::new_err(error.to_string())
        }
    }
}

/// Adds the exceptions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let python = module.py();
    module.add("WeftError", python.get_type::<WeftError>())?;
    module.add("RefusedError", python.get_type::<RefusedError>())?;
    module.add("ClosedError", python.get_type::<ClosedError>())?;
    module.add("ForgottenError", python.get_type::<ForgottenError>())?;
    module.add("NotBegunError", python.get_type::<NotBegunError>())?;
    module.add("UnknownError", python.get_type::<UnknownError>())
}
