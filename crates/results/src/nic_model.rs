//! The NIC of a measurement or a campaign.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The NIC that a benchmark measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NicModel {
    /// A NIC in software, whose times come from a cost profile.
    #[default]
    Soft,
    /// The gateware, simulated cycle by cycle; only in the simulator.
    Rtl,
}

impl fmt::Display for NicModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Soft => "soft",
            Self::Rtl => "rtl",
        })
    }
}
