//! Whose replication is measured, and in which configuration.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

macro_rules! named {
    ($(#[$doc:meta])* $type:ident, $what:literal, $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|known| known.name() == text).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|known| known.name()).collect();
                    format!(concat!("there is no ", $what, " `{}`; choose {}"), text, names.join(", "))
                })
            }
        }
    };
}

named! {
    /// Where engines and applications run.
    System, "system",
    /// Both on the card: an application on an FPGA beside the engine.
    #[default]
    Weft = "weft",
    /// Both on the host's CPU, beside an RDMA card, as Hamband has it: the very same engine in a process. A client waits for
    /// the completions of its call before it goes on.
    Hamband = "hamband",
}

named! {
    /// How calls reach the object of a replica (SafarDB sections 4.1 to 4.3).
    Configuration, "configuration",
    /// By RDMA WRITE; each access reads the summaries from memory. Rings and logs are polled.
    Write = "write",
    /// By RDMA WRITE into memory that is polled into a copy on chip.
    Buffered = "buffered",
    /// By RPC: what arrives calls the engine at once.
    #[default]
    Rpc = "rpc",
}

named! {
    /// When a call without conflicts is answered. Conflicting calls are answered when a majority has them in its logs, always.
    Commit, "commit rule",
    /// When a majority of the replicas has it in memory: no crash of fewer than half loses it.
    #[default]
    Majority = "majority",
    /// When it has taken effect at its own replica, as in SafarDB: a crash of that one may lose it.
    Local = "local",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_a_wrong_one_lists_the_right_ones() {
        assert_eq!("rpc".parse(), Ok(Configuration::Rpc));
        assert!(System::ALL.iter().all(|system| system.to_string().parse() == Ok(*system)));
        assert!("all".parse::<Commit>().unwrap_err().contains("majority, local"));
    }
}
