//! Differences between a value and its former version. Most transactions that update a long row change only a
//! few of its fields.
//!
//! A replica applies records in the order of each key's versions. So when it applies this record it has the
//! value that the transaction has read. Therefore the changed bytes are enough, together with the version of
//! the former value.

use super::fields::{write_number, write_version};
use super::list::{Item, List, write_list};
use super::{Malformed, Reader};
use crate::key::Version;
use crate::procedure::VALUE_MAX;

/// Bytes of a run's head, in most cases. A gap of fewer unchanged bytes is not worth a new run.
const RUN_HEAD_BYTES: usize = 3;

/// Bytes of the shortest difference: a version, a count, and a run of one byte.
pub(crate) const DIFFERENCE_BYTES_MIN: usize = 6 + 1 + 2 + 1;

/// A difference does not fit the value that it is applied to: this replica's table differs from the others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a difference to another version than the table has")]
pub struct Mismatch;

/// A range of changed bytes.
#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    offset: u16,
    bytes: &'a [u8],
}

impl<'a> Item<'a> for Run<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (offset, length) = (reader.number()?, reader.number()?);
        if offset.saturating_add(length) > VALUE_MAX as u64 {
            return Err(Malformed::Field("run"));
        }
        Ok(Self { offset: offset as u16, bytes: reader.bytes(length as usize)? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_number(out, self.offset.into());
        write_number(out, self.bytes.len() as u64);
        out.extend_from_slice(self.bytes);
    }
}

/// Difference between a value and a former one of the same length.
#[derive(Clone, Debug)]
pub struct Difference<'a> {
    /// The version of the former value.
    base: Version,
    runs: List<'a, Run<'a>>,
}

impl<'a> Difference<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { base: reader.version()?, runs: List::read(reader)? })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_version(out, self.base);
        write_list(out, self.runs.iter());
    }

    /// Turns the former value into the new one.
    ///
    /// # Errors
    /// If there is no former value, or it has another version, or it is too short.
    pub fn apply(&self, former: Option<Version>, value: &mut [u8]) -> Result<(), Mismatch> {
        if !self.fits(former, value.len()) {
            return Err(Mismatch);
        }
        for run in self.runs.iter() {
            let at = usize::from(run.offset);
            value[at..at + run.bytes.len()].copy_from_slice(run.bytes);
        }
        Ok(())
    }

    /// Whether the difference applies to a value with this version and length.
    pub fn fits(&self, former: Option<Version>, length: usize) -> bool {
        let ends = |run: Run<'_>| usize::from(run.offset) + run.bytes.len();
        former == Some(self.base) && self.runs.iter().all(|run| ends(run) <= length)
    }
}

/// Appends the difference between `old`, which has version `base`, and `new`. Returns false if the values
/// cannot be encoded as a difference, because their lengths differ or there are more than 255 runs; the
/// content of `out` is then undefined.
pub(super) fn write(out: &mut Vec<u8>, base: Version, old: &[u8], new: &[u8]) -> bool {
    if old.len() != new.len() {
        return false;
    }
    write_version(out, base);
    let count_at = out.len();
    out.push(0);
    for (count, run) in (1..).zip(runs(old, new)) {
        let Ok(count) = u8::try_from(count) else { return false };
        run.write(out);
        out[count_at] = count;
    }
    true
}

/// The runs in which `new` differs from `old`. Both have the same length.
fn runs<'a>(old: &'a [u8], new: &'a [u8]) -> impl Iterator<Item = Run<'a>> {
    let differs = move |at: &usize| old[*at] != new[*at];
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = (from..new.len()).find(differs)?;
        let mut end = start + 1;
        while let Some(next) = (end..new.len().min(end + RUN_HEAD_BYTES + 1)).find(differs) {
            end = next + 1;
        }
        from = end;
        Some(Run { offset: start as u16, bytes: &new[start..end] })
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const BASE: Version = Version::from_bits(7);

    fn difference(old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        write(&mut out, BASE, old, new).then_some(out)
    }

    #[test]
    fn two_fields_of_a_row_are_two_runs() {
        let old = [0; 300];
        let mut new = old;
        new[0..2].copy_from_slice(&[1, 2]);
        new[6] = 3;
        new[200] = 4;
        // The gap of 4 bytes between the first two fields is one byte longer than a run's head, so two runs
        // are shorter than one.
        let bytes = difference(&old, &new).unwrap();
        assert_eq!(bytes.len(), 6 + 1 + (2 + 2) + (2 + 1) + (3 + 1));
        new[4] = 5;
        assert_eq!(difference(&old, &new).unwrap().len(), 6 + 1 + (2 + 7) + (3 + 1));
    }

    #[test]
    fn what_has_another_length_has_no_difference() {
        assert_eq!(difference(&[1; 40], &[1; 41]), None);
    }

    #[test]
    fn a_difference_fits_its_own_base_only() {
        let bytes = difference(&[1; 40], &[2; 40]).unwrap();
        let difference = Difference::read(&mut Reader(&bytes)).unwrap();
        let other = Version::from_bits(8);
        for (former, length) in [(None, 0), (Some(other), 40), (Some(BASE), 39)] {
            let mut value = vec![1; length];
            assert_eq!(difference.apply(former, &mut value), Err(Mismatch));
            assert_eq!(value, vec![1; length]);
        }
    }

    #[test]
    fn a_run_does_not_end_behind_the_longest_value() {
        let mut bytes = Vec::new();
        write_version(&mut bytes, BASE);
        bytes.push(1);
        write_number(&mut bytes, VALUE_MAX as u64);
        bytes.extend_from_slice(&[1, 9]);
        assert_eq!(Difference::read(&mut Reader(&bytes)).unwrap_err(), Malformed::Field("run"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// For random changes, the difference turns the old value into the new one, and decodes as it was
        /// encoded.
        #[test]
        fn a_difference_makes_the_new_value(
            old in vec(0u8..3, 1..VALUE_MAX), changes in vec((any::<prop::sample::Index>(), 0u8..3), 0..40),
        ) {
            let mut new = old.clone();
            for (at, byte) in &changes {
                new[at.index(old.len())] = *byte;
            }
            let Some(bytes) = difference(&old, &new) else { return Err(TestCaseError::fail("as long")) };
            let mut reader = Reader(&bytes);
            let read = Difference::read(&mut reader).unwrap();
            reader.finish().unwrap();
            let mut again = Vec::new();
            read.write(&mut again);
            prop_assert_eq!(&again, &bytes);
            let mut value = old;
            read.apply(Some(BASE), &mut value).unwrap();
            prop_assert_eq!(value, new);
        }
    }
}
