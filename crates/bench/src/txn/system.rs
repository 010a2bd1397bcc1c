//! The systems whose transactions are measured.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Where engines run, and how they access each other's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// Engines run on the cores of a SmartNIC; the tables are on its host (as in Xenic).
    #[default]
    Weft,
    /// Engines run in a process of the host beside an RDMA card, and use messages only (FaSST; Kalia,
    /// Kaminsky and Andersen, OSDI 2016). It is the same engine with FaSST's commit protocol.
    Fasst,
    /// Like [`Self::Fasst`], but keys that are only read are read with an RDMA READ at cached addresses, and
    /// logs of backups are written with an RDMA WRITE (DrTM+H; Wei and others, OSDI 2018).
    #[serde(rename = "drtm-h")]
    DrtmH,
    /// Like [`Self::DrtmH`], but without cached addresses: lookups read bucket by bucket (Xenic section 5.1).
    #[serde(rename = "drtm-h-nc")]
    DrtmHNoCache,
    /// Engines use one-sided verbs only: RDMA atomics for locks, and RDMA WRITEs for commits (DrTM+R as Xenic
    /// section 5.1 describes it).
    #[serde(rename = "drtm-r")]
    DrtmR,
}

impl System {
    /// All systems.
    pub const ALL: [Self; 5] = [Self::Weft, Self::Fasst, Self::DrtmH, Self::DrtmHNoCache, Self::DrtmR];

    /// Whether engines access each other's memory with one-sided verbs.
    pub(super) const fn is_one_sided(self) -> bool {
        matches!(self, Self::DrtmH | Self::DrtmHNoCache | Self::DrtmR)
    }

    /// Name of the system.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weft => "weft",
            Self::Fasst => "fasst",
            Self::DrtmH => "drtm-h",
            Self::DrtmHNoCache => "drtm-h-nc",
            Self::DrtmR => "drtm-r",
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no system `{text}`; choose {names}")
        })
    }
}
