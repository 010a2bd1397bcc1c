//! Capabilities that an engine needs from the NIC or process that hosts it, beyond the core of the engine
//! interface.

use std::error::Error;
use std::fmt;
use std::ops::BitOr;

/// The optional parts of the engine interface. Every host of engines has the core: all events but `Done`, and
/// the effects `Send`, `Reply` and `SetTimer`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Queue pairs of the engine's own: `Post` with `Done`, `Access` and `Connect`.
    pub verbs: bool,
    /// Copies between the host's memory and the engine's: `HostRead` and `HostWrite` with `Done`.
    pub host_memory: bool,
}

impl Capabilities {
    /// Only the core.
    pub const CORE: Self = Self { verbs: false, host_memory: false };
    /// The core and queue pairs.
    pub const VERBS: Self = Self { verbs: true, ..Self::CORE };
    /// The core and copies of the host's memory.
    pub const HOST_MEMORY: Self = Self { host_memory: true, ..Self::CORE };
    /// All capabilities.
    pub const ALL: Self = Self { verbs: true, host_memory: true };

    /// Checks that a host that offers `offered` suffices for an engine that needs `self`.
    ///
    /// # Errors
    /// The capabilities that `place` lacks.
    pub const fn check(self, offered: Self, place: &'static str) -> Result<(), Unmet> {
        let missing = Self {
            verbs: self.verbs && !offered.verbs,
            host_memory: self.host_memory && !offered.host_memory,
        };
        if missing.verbs || missing.host_memory { Err(Unmet { missing, place }) } else { Ok(()) }
    }
}

impl BitOr for Capabilities {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { verbs: self.verbs || other.verbs, host_memory: self.host_memory || other.host_memory }
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.verbs, self.host_memory) {
            (false, false) => "the core of the waist",
            (true, false) => "queue pairs (Post, Access, Connect)",
            (false, true) => "the host's memory (HostRead, HostWrite)",
            (true, true) => "queue pairs (Post, Access, Connect) and the host's memory (HostRead, HostWrite)",
        })
    }
}

/// An engine's host lacks capabilities that the engine needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The capabilities that are needed and not offered.
    pub missing: Capabilities,
    /// The name of the host that lacks them.
    pub place: &'static str,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the engine needs {}, which {} does not offer", self.missing, self.place)
    }
}

impl Error for Unmet {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let all = Capabilities::VERBS | Capabilities::HOST_MEMORY;
        assert_eq!(all, Capabilities::ALL);
        assert_eq!(all.check(Capabilities::ALL, "a card"), Ok(()));
        assert_eq!(Capabilities::CORE.check(Capabilities::CORE, "a card"), Ok(()));
        let unmet = all.check(Capabilities::VERBS, "a process").unwrap_err();
        assert_eq!(unmet.missing, Capabilities::HOST_MEMORY);
        let text = "the engine needs the host's memory (HostRead, HostWrite), which a process does not offer";
        assert_eq!(unmet.to_string(), text);
        let unmet = all.check(Capabilities::CORE, "a slot").unwrap_err();
        assert_eq!(unmet.missing, all);
    }
}
