//! Dependency vectors: how many calls of each origin and group must have taken effect before a call may.

use weft_smr::{GROUPS_MAX, NODES_MAX};

use super::message::half;
use super::parameters::{Path, PlantedBug, ReplicaParameters};

/// The calls that must have taken effect before a call may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vector {
    /// By origin: number of summarized calls, and of ring entries.
    pub summaries: [u32; NODES_MAX],
    pub entries: [u32; NODES_MAX],
    /// By group: index up to which the log must be applied.
    pub groups: [u32; GROUPS_MAX],
}

impl Vector {
    pub const fn bytes(nodes: usize) -> usize {
        8 * nodes + 4 * GROUPS_MAX
    }

    fn words(&self, nodes: usize) -> impl Iterator<Item = &u32> {
        self.summaries[..nodes].iter().chain(&self.entries[..nodes]).chain(&self.groups)
    }

    pub fn write(&self, bytes: &mut [u8], nodes: usize) {
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(self.words(nodes)) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
    }

    pub fn read(bytes: &[u8], nodes: usize) -> Self {
        Self {
            summaries: std::array::from_fn(|node| if node < nodes { half(bytes, 4 * node) } else { 0 }),
            entries: std::array::from_fn(
                |node| {
                    if node < nodes { half(bytes, 4 * (nodes + node)) } else { 0 }
                },
            ),
            groups: std::array::from_fn(|group| half(bytes, 4 * (2 * nodes + group))),
        }
    }
}

/// The components of a vector that calls of a method need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requires {
    pub summaries: bool,
    pub entries: bool,
    pub groups: [bool; GROUPS_MAX],
}

impl Requires {
    pub fn of(parameters: &ReplicaParameters, method: usize) -> Self {
        let mut requires = Self::default();
        if parameters.planted(PlantedBug::MissingDependencies) {
            return requires;
        }
        let own = parameters.path(method);
        for on in parameters.kind.coordination(method).dependencies.iter() {
            match parameters.path(on) {
                Path::Summary => requires.summaries = true,
                Path::Ring => requires.entries = true,
                path @ Path::Ordered(group) => requires.groups[group] |= path != own,
            }
        }
        requires
    }

    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}
