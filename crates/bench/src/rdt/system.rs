//! The measured systems and their configurations.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use weft_sim::CostProfile;

macro_rules! named {
    ($(#[$doc:meta])* $type:ident, $what:literal, $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Name of the value, as on the command line.
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
    /// Both on the host's CPU beside an RDMA card, as in Hamband: the same engine in a process, with one core
    /// for the client and one that polls memory.
    Hamband = "hamband",
    /// A log in the card, the object and all clients on the leader's host, as in Waverunner: every operation
    /// is in the log.
    Waverunner = "waverunner",
    /// Like [`Self::Waverunner`], but the application is on the card beside the log.
    WeftLog = "weft-log",
}

impl System {
    /// Whether all operations, including queries, are in one log.
    pub const fn is_ordered(self) -> bool {
        matches!(self, Self::Waverunner | Self::WeftLog)
    }

    /// The guarantee that an answer gives.
    pub const fn promises(self, commit: Commit) -> &'static str {
        match (self.is_ordered(), commit) {
            (true, _) => "linearizable, queries too; what is answered survives the crash of any minority",
            (false, Commit::Majority) => {
                "queries see their replica's state; what is answered survives the crash of any minority"
            }
            (false, Commit::Local) => {
                "queries see their replica's state; an answered call without conflicts is lost if its replica crashes before another \
                 has it"
            }
        }
    }
}

named! {
    /// Source of the latencies of a card's passages.
    Card, "card",
    /// NIC-KV's latencies: of MACs and pipelines, without the network.
    #[default]
    Fpga = "fpga",
    /// Latencies of SafarDB, which include the network.
    Safardb = "safardb",
}

impl Card {
    /// The profile of a card with the application on it.
    pub const fn profile(self) -> &'static CostProfile {
        match self {
            Self::Fpga => &CostProfile::FPGA_APPLICATION,
            Self::Safardb => &CostProfile::FPGA_SAFARDB,
        }
    }

    /// The profile of a card whose application runs on the host behind the bus.
    pub const fn behind_bus(self) -> &'static CostProfile {
        match self {
            Self::Fpga => &CostProfile::FPGA,
            Self::Safardb => &CostProfile::FPGA_SAFARDB_HOST,
        }
    }
}

named! {
    /// How calls reach the object of a replica (SafarDB sections 4.1 to 4.3).
    Configuration, "configuration",
    /// By RDMA WRITE. Each access reads the summaries from memory; rings and logs are polled.
    Write = "write",
    /// By RDMA WRITE. The engine polls the written memory into a copy on chip.
    Buffered = "buffered",
    /// By RPC: an arriving message calls the engine at once.
    #[default]
    Rpc = "rpc",
}

named! {
    /// Which clients make which calls.
    Callers, "rule of who calls",
    /// Every client calls every method. Conflicting calls of followers' clients go to the leader and back.
    #[default]
    All = "all",
    /// As in Hamband's own workloads: the leader's client makes only conflicting calls, the followers'
    /// clients all others.
    Leader = "leader",
}

named! {
    /// When a call without conflicts is answered. A conflicting call is always answered when a majority has it in its
    /// logs.
    Commit, "commit rule",
    /// When a majority of the replicas has the call in memory, so that a crash of a minority does not lose
    /// it.
    #[default]
    Majority = "majority",
    /// When the call has taken effect at its own replica, as in SafarDB. A crash of that replica may lose it.
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
