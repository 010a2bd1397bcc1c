//! The replicated table of locks.

use std::fmt;

use weft_time::Duration;

/// Maximum length of a lock's name, in bytes.
pub const NAME_BYTES_MAX: usize = 48;

/// The name of a lock: 1 to 48 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// Bytes behind the length are zero.
    bytes: [u8; NAME_BYTES_MAX],
    length: u8,
}

impl Name {
    /// A name of these bytes; `None` if they are empty or too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut padded = [0; NAME_BYTES_MAX];
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(Self { bytes: padded, length: bytes.len() as u8 })
    }

    /// Bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// A lock that is held or has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub name: Name,
    /// Identity of the acquisition, which the client chooses.
    pub owner: u64,
    pub token: u64,
    pub ttl: Duration,
}

/// All held locks. Rows have numbers, so that one message describes a change of one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    rows: Vec<Option<Row>>,
    /// Numbers of the rows in use, in the order of their names.
    by_name: Vec<u32>,
    /// All rows below this index are in use.
    free_from: u32,
}

impl Table {
    pub fn new(locks: usize) -> Self {
        Self { rows: vec![None; locks], by_name: Vec::with_capacity(locks), free_from: 0 }
    }

    pub fn clear(&mut self) {
        self.rows.fill(None);
        self.by_name.clear();
        self.free_from = 0;
    }

    /// Number of rows, in use or not.
    pub fn capacity(&self) -> usize {
        self.rows.len()
    }

    pub fn row(&self, number: u32) -> Option<&Row> {
        self.rows[number as usize].as_ref()
    }

    /// The numbers of the rows in use.
    pub fn used(&self) -> &[u32] {
        &self.by_name
    }

    fn place(&self, name: &Name) -> Result<usize, usize> {
        let name_of = |number: &u32| self.rows[*number as usize].expect("its row is in use").name;
        self.by_name.binary_search_by(|number| name_of(number).cmp(name))
    }

    /// The row of this lock.
    pub fn find(&self, name: &Name) -> Option<(u32, &Row)> {
        let number = self.by_name[self.place(name).ok()?];
        Some((number, self.row(number)?))
    }

    /// A row that is not in use.
    pub fn free(&self) -> Option<u32> {
        let free = self.rows[self.free_from as usize..].iter().position(Option::is_none)?;
        Some(self.free_from + free as u32)
    }

    /// Writes a row. Returns false without effect if another row has the name, which no correct leader sends.
    pub fn set(&mut self, number: u32, row: Option<Row>) -> bool {
        let other = row.and_then(|row| self.find(&row.name));
        if other.is_some_and(|(other, _)| other != number) {
            return false;
        }
        if let Some(former) = self.rows[number as usize]
            && let Ok(place) = self.place(&former.name)
        {
            self.by_name.remove(place);
        }
        // A row without a name must not be found by name.
        self.rows[number as usize] = None;
        if let Some(row) = row
            && let Err(place) = self.place(&row.name)
        {
            self.by_name.insert(place, number);
        }
        self.rows[number as usize] = row;
        self.free_from = match row {
            Some(_) if number == self.free_from => number + 1,
            Some(_) => self.free_from,
            None => self.free_from.min(number),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn row(name: u8, token: u64) -> Row {
        Row { name: Name::new(&[name]).unwrap(), owner: 1, token, ttl: Duration::from_ms(1) }
    }

    #[test]
    fn names_have_1_to_48_bytes() {
        assert_eq!(Name::new(b""), None);
        assert_eq!(Name::new(&[7; 49]), None);
        assert_eq!(Name::new(&[7; 48]).unwrap().as_bytes(), [7; 48]);
        assert!(Name::new(b"a") < Name::new(b"a\0") && Name::new(b"a\0") < Name::new(b"b"));
    }

    proptest! {
        /// The table behaves like a map from numbers to rows, with unique names.
        #[test]
        fn rows_are_found_by_name(steps in prop::collection::vec((0u32..4, prop::option::of(0u8..6)), 1..60)) {
            let mut table = Table::new(4);
            let mut model: BTreeMap<u32, u8> = BTreeMap::new();
            for (token, (number, name)) in (1..).zip(steps) {
                let is_taken = name.is_some_and(|name| model.iter().any(|(n, m)| *n != number && *m == name));
                prop_assert_eq!(table.set(number, name.map(|name| row(name, token))), !is_taken);
                match name {
                    _ if is_taken => {}
                    Some(name) => drop(model.insert(number, name)),
                    None => drop(model.remove(&number)),
                }
                for name in 0..6 {
                    let found = table.find(&Name::new(&[name]).unwrap()).map(|(number, _)| number);
                    prop_assert_eq!(found, model.iter().find(|(_, m)| **m == name).map(|(n, _)| *n));
                }
                prop_assert_eq!(table.used().len(), model.len());
                prop_assert!(table.free().is_none_or(|free| !model.contains_key(&free)));
                prop_assert_eq!(table.free().is_none(), model.len() == 4);
            }
        }
    }
}
