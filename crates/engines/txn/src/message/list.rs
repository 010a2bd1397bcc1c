//! Lists of items in messages.

use std::marker::PhantomData;

use super::{Malformed, Reader};

/// An element of a list.
pub trait Item<'a>: Sized {
    /// Decodes one item.
    ///
    /// # Errors
    /// If the item is malformed.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed>;
    /// Appends the encoded item.
    fn write(&self, out: &mut Vec<u8>);
}

/// A list of items, which was checked when it was decoded.
#[derive(Clone, Debug)]
pub struct List<'a, T> {
    bytes: &'a [u8],
    count: usize,
    items: PhantomData<T>,
}

impl<'a, T: Item<'a>> List<'a, T> {
    /// Decodes a list: a count of one byte, then the items.
    ///
    /// # Errors
    /// If the list or an item is malformed.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = usize::from(reader.u8()?);
        let bytes = reader.0;
        for _ in 0..count {
            T::read(reader)?;
        }
        Ok(Self { bytes: &bytes[..bytes.len() - reader.0.len()], count, items: PhantomData })
    }

    /// The items.
    pub fn iter(&self) -> impl Iterator<Item = T> + Clone + use<'a, T> {
        let mut reader = Reader(self.bytes);
        (0..self.count).map(move |_| T::read(&mut reader).expect("checked when the list was read"))
    }

    /// Number of items.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Appends a list, and returns its number of items.
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
