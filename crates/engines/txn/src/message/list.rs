//! Lists of what messages hold.

use std::marker::PhantomData;

use super::{Malformed, Reader};

/// An element of a list.
pub trait Item<'a>: Sized {
    /// Reads one.
    ///
    /// # Errors
    /// If it is malformed.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed>;
    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);
}

/// A list of items, checked when it was parsed.
#[derive(Clone, Debug)]
pub struct List<'a, T> {
    bytes: &'a [u8],
    count: usize,
    items: PhantomData<T>,
}

impl<'a, T: Item<'a>> List<'a, T> {
    /// Reads it: at most 255 items behind their count.
    ///
    /// # Errors
    /// If it, or an item, is malformed.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = usize::from(reader.u8()?);
        let bytes = reader.0;
        for _ in 0..count {
            T::read(reader)?;
        }
        Ok(Self { bytes: &bytes[..bytes.len() - reader.0.len()], count, items: PhantomData })
    }

    /// Its items.
    pub fn iter(&self) -> impl Iterator<Item = T> + Clone + use<'a, T> {
        let mut reader = Reader(self.bytes);
        (0..self.count).map(move |_| T::read(&mut reader).expect("checked when the list was read"))
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Appends a list, and says how many items it has.
///
/// # Panics
/// If there are more than 255.
pub fn write_list<'a, T: Item<'a>>(out: &mut Vec<u8>, items: impl Iterator<Item = T>) -> usize {
    let at = out.len();
    out.push(0);
    let mut count = 0;
    for item in items {
        item.write(out);
        count += 1;
    }
    out[at] = u8::try_from(count).expect("a list has at most 255 items");
    count
}
