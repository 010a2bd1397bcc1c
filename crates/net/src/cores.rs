//! Which core a thread runs on.
//!
//! Processes that poll and share cores answer soonest when they are spread evenly. The kernel balances load in the long
//! run, but pollers of equal weight look balanced to it wherever they are.

use std::io;

use crate::system;

/// A core that a thread cannot have.
#[derive(Debug, thiserror::Error)]
#[error("core {core} is not to be had: {source}; choose one of {available:?}")]
pub struct NoSuchCore {
    core: u32,
    available: Vec<u32>,
    source: io::Error,
}

/// The cores that this thread may run on, as the kernel numbers them, in ascending order; empty if it does not tell.
pub fn cores() -> Vec<u32> {
    system::cores().unwrap_or_default()
}

/// Keeps this thread, and threads that it starts later, to one core.
///
/// # Errors
/// The machine does not have the core, or this process may not use it.
pub fn keep_to_core(core: u32) -> Result<(), NoSuchCore> {
    system::keep_to_core(core).map_err(|source| NoSuchCore { core, available: cores(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_to_its_core() {
        let all = cores();
        let last = *all.last().unwrap();
        std::thread::spawn(move || {
            keep_to_core(last).unwrap();
            assert_eq!(cores(), [last]);
        })
        .join()
        .unwrap();
        assert_eq!(cores(), all, "other threads go where they like");
    }

    #[test]
    fn a_core_that_is_not_there_is_named() {
        for core in [1_000, u32::MAX] {
            let error = keep_to_core(core).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("core {core} is not to be had")) && error.contains("choose"),
                "{error}"
            );
        }
    }
}
