//! The core on which a thread runs.
//!
//! Polling processes that share cores answer soonest if they are spread evenly over the cores. The kernel balances
//! load in the long run, but to it pollers of equal weight look balanced wherever they are.

use std::io;

use crate::system;

/// The thread cannot run on this core.
#[derive(Debug, thiserror::Error)]
#[error("core {core} is not to be had: {source}; choose one of {available:?}")]
pub struct NoSuchCore {
    core: u32,
    available: Vec<u32>,
    source: io::Error,
}

/// The cores on which this thread may run, by the kernel's numbers, in ascending order; empty if the kernel does
/// not report them.
pub fn cores() -> Vec<u32> {
    system::cores().unwrap_or_default()
}

/// Pins this thread, and threads that it starts later, to one core.
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
