//! Counts by name.

use std::collections::BTreeMap;

use weft_sim::{Machine, World};

/// Adds counts to the sums of the same names.
pub fn add_counts<N: Ord>(sums: &mut BTreeMap<N, u64>, counts: impl IntoIterator<Item = (N, u64)>) {
    for (name, count) in counts {
        *sums.entry(name).or_insert(0) += count;
    }
}

/// The faults that a world has injected, by kind.
pub fn faults_of<M: Machine>(world: &World<M>) -> BTreeMap<String, u64> {
    world.fault_counts().entries().into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect()
}
