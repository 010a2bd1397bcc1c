//! Contents of proposals: values that contain the number of their proposer and differ from all other values
//! of the run.

use weft_workload::{MIN_VALUE_BYTES, fill_value, fingerprint};

/// A proposal of one or more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Bytes of a value, at least [`MIN_VALUE_BYTES`].
    pub value_bytes: usize,
    /// Values in a proposal, at least 1.
    pub values: usize,
}

impl Batch {
    /// Bytes of the proposal.
    pub const fn bytes(&self) -> usize {
        self.value_bytes * self.values
    }

    /// Writes proposal number `number` of a node to `bytes`, and returns its identity for the check. `life`
    /// is the number of earlier starts of the node's process. Every value begins with the node, `life` and
    /// the value's number.
    ///
    /// # Panics
    /// If there are 2^48 values before this proposal, or a value is too short.
    pub fn fill(&self, node: usize, life: u32, number: u64, bytes: &mut Vec<u8>) -> u64 {
        let first = number * self.values as u64;
        assert!(
            self.value_bytes >= MIN_VALUE_BYTES && first < 1 << 48,
            "every value has a number of its own"
        );
        bytes.resize(self.bytes(), 0);
        for (index, value) in bytes.chunks_exact_mut(self.value_bytes).enumerate() {
            let name = (node as u64) << 56 | u64::from(life & 0xff) << 48 | (first + index as u64);
            fill_value(name, value);
        }
        fingerprint(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_values_of_a_run_are_equal() {
        let batch = Batch { value_bytes: 8, values: 3 };
        let (mut proposals, mut values) = (HashSet::new(), HashSet::new());
        for (node, life) in [(0, 0), (0, 1), (1, 0)] {
            for number in 0..100 {
                let mut bytes = Vec::new();
                assert!(proposals.insert(batch.fill(node, life, number, &mut bytes)));
                assert_eq!(bytes.len(), batch.bytes());
                assert!(bytes.chunks(8).all(|value| values.insert(value.to_vec())));
            }
        }
    }
}
