//! The table of DrTM+H (Xenic, section 4.1.4): a fixed array of buckets, and further buckets that are linked
//! to full ones.
//!
//! Objects keep their addresses. So a peer that has the address of an object reads it with one READ, locks it
//! with one RDMA atomic and writes it with WRITEs.
//!
//! ```text
//! memory    bucket 0 | bucket 1 | … | linked bucket 0 | …
//! bucket    0 next(8)       1 + the number of the linked bucket that follows; 0 = none
//!           8               elements, bucket_slots of them
//! element   0 lock(8)       the attempt that holds the lock; 0 = none. The target of RDMA atomics
//!           8 version(8)    of the latest write or deletion; 0 if there was none
//!           16 key(8)
//!           24 length(8)    bytes of the value; bit 63: the object exists
//!           32 value(V)     V = the longest value, padded to 8 bytes
//! ```
//!
//! Integers are little-endian, as RDMA atomics require. A READ may see an object in the middle of a write.
//! The object is locked during the write, so the reader validates afterwards that it is not locked and that
//! its version has not changed.

use super::layout::{mix, scale};
use super::table::Full;
use crate::key::{Key, Version};

const NEXT_BYTES: usize = 8;
const VERSION: usize = 8;
const KEY: usize = 16;
const LENGTH: usize = 24;
const VALUE: usize = 32;
const PRESENT: u64 = 1 << 63;

/// The geometry of a chained table, and its free linked buckets.
#[derive(Clone, Debug)]
pub struct Chained {
    buckets: u32,
    linked: u32,
    bucket_slots: u32,
    value_bytes_max: usize,
    next_linked: u32,
    objects: u64,
}

/// A bucket of the array or a linked one, as the target of one READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Address.
    pub at: u64,
    /// Length in bytes.
    pub length: usize,
}

/// A decoded element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// The attempt that holds the lock; 0: none.
    pub lock: u64,
    /// Version of the latest write or deletion.
    pub version: Version,
    /// The key.
    pub key: u64,
    /// The value, if the object exists.
    pub value: Option<&'a [u8]>,
}

impl<'a> Element<'a> {
    /// Decodes the bytes of an element. A length that exceeds the element is cut.
    pub fn parse(bytes: &'a [u8]) -> Self {
        let length = word(bytes, LENGTH);
        let value = (length & PRESENT != 0).then(|| {
            let value = &bytes[VALUE..];
            &value[..value.len().min((length & !PRESENT) as usize)]
        });
        Self {
            lock: word(bytes, 0),
            version: Version::from_bits(word(bytes, VERSION)),
            key: word(bytes, KEY),
            value,
        }
    }
}

/// The lock of an element that is being initialized.
const INITIALIZING_LOCK: u64 = u64::MAX;

impl Chained {
    /// Offset of an element's lock.
    pub const LOCK: u64 = 0;
    /// Offset of an element's version.
    pub const VERSION: u64 = VERSION as u64;
    /// Offset of an element's length; the value follows it.
    pub const LENGTH: u64 = LENGTH as u64;
    /// Offset of an element's value.
    pub const VALUE: u64 = VALUE as u64;

    /// An empty table of `buckets` buckets and `linked` linked buckets, with `bucket_slots` elements each.
    /// Its memory must be [`Chained::bytes`] zeros.
    ///
    /// # Panics
    /// If there are no buckets, or they have no elements.
    pub fn new(buckets: u32, linked: u32, bucket_slots: u32, value_bytes_max: usize) -> Self {
        assert!(buckets > 0 && bucket_slots > 0, "a table has buckets, and they have elements");
        let value_bytes_max = value_bytes_max.next_multiple_of(8);
        Self { buckets, linked, bucket_slots, value_bytes_max, next_linked: 0, objects: 0 }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        u64::from(self.buckets + self.linked) * self.bucket_bytes() as u64
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> usize {
        VALUE + self.value_bytes_max
    }

    /// Elements of a bucket.
    pub fn bucket_slots(&self) -> u32 {
        self.bucket_slots
    }

    /// Number of objects.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// The bucket where a search for `key` begins.
    pub fn bucket(&self, key: Key) -> Bucket {
        self.numbered(scale(mix(key.bits()), self.buckets).into())
    }

    /// Offset of the element of `key` in a bucket's bytes. A deleted object has an element too.
    pub fn position(&self, bucket: &[u8], key: Key) -> Option<usize> {
        self.elements().find(|&at| {
            word(bucket, at + KEY) == key.bits() && (word(bucket, at + VERSION) != 0 || word(bucket, at) != 0)
        })
    }

    /// The linked bucket that follows the bucket with these bytes.
    pub fn next(&self, bucket: &[u8]) -> Option<Bucket> {
        let number = word(bucket, 0).checked_sub(1).filter(|&number| number < self.linked.into())?;
        Some(self.numbered(u64::from(self.buckets) + number))
    }

    /// The address of the element of `key`.
    pub fn find(&self, memory: &[u8], key: Key) -> Option<u64> {
        let mut bucket = self.bucket(key);
        loop {
            let bytes = &memory[bucket.at as usize..][..bucket.length];
            if let Some(position) = self.position(bytes, key) {
                return Some(bucket.at + position as u64);
            }
            bucket = self.next(bytes)?;
        }
    }

    /// The address of the element of `key`; if there is none, one is allocated. A new element is locked by
    /// `lock`, has version 0 and holds no value: its object is to be inserted.
    ///
    /// # Errors
    /// If there is no room. Then nothing changes.
    pub fn find_or_insert(&mut self, memory: &mut [u8], key: Key, lock: u64) -> Result<u64, Full> {
        assert!(lock != 0, "somebody makes it");
        if let Some(at) = self.find(memory, key) {
            return Ok(at);
        }
        let mut bucket = self.bucket(key);
        let at = loop {
            let bytes = &memory[bucket.at as usize..][..bucket.length];
            let free = self.elements().find(|&at| word(bytes, at) == 0 && word(bytes, at + VERSION) == 0);
            if let Some(free) = free {
                break bucket.at + free as u64;
            }
            bucket = match self.next(bytes) {
                Some(next) => next,
                None if self.next_linked < self.linked => {
                    let number = u64::from(self.next_linked);
                    self.next_linked += 1;
                    put(memory, bucket.at as usize, number + 1);
                    self.numbered(u64::from(self.buckets) + number)
                }
                None => return Err(Full::Slots),
            };
        };
        put(memory, at as usize + KEY, key.bits());
        put(memory, at as usize, lock);
        Ok(at)
    }

    /// Writes an object, existing or new. Its lock does not change.
    ///
    /// # Errors
    /// If there is no room. Then nothing changes.
    ///
    /// # Panics
    /// If the value is longer than the table allows, or the version is 0.
    pub fn put(&mut self, memory: &mut [u8], key: Key, version: Version, value: &[u8]) -> Result<u64, Full> {
        assert!(value.len() <= self.value_bytes_max && version != Version::ZERO, "a value of the table");
        let made = self.find(memory, key).is_none();
        let at = self.find_or_insert(memory, key, INITIALIZING_LOCK)?;
        let element = &mut memory[at as usize..][..VALUE + self.value_bytes_max];
        self.objects += u64::from(Element::parse(element).value.is_none());
        element[VALUE..VALUE + value.len()].copy_from_slice(value);
        put(element, LENGTH, PRESENT | value.len() as u64);
        put(element, VERSION, version.bits());
        if made {
            put(element, 0, 0);
        }
        Ok(at)
    }

    /// Deletes an object, and returns whether it existed. Its element stays, with the deletion's version.
    /// Readers validate that version, and a later insertion uses the same element.
    pub fn remove(&mut self, memory: &mut [u8], key: Key, version: Version) -> bool {
        let Some(at) = self.find(memory, key) else { return false };
        let at = at as usize;
        let was_there = word(memory, at + LENGTH) & PRESENT != 0;
        put(memory, at + LENGTH, 0);
        put(memory, at + VERSION, version.bits());
        self.objects -= u64::from(was_there);
        was_there
    }

    /// Deletes an object even if its insertion has not been applied yet: an element with the deletion's
    /// version is allocated if there is none.
    ///
    /// # Errors
    /// If there is no room. Then nothing changes.
    pub fn delete_or_mark_deleted(
        &mut self,
        memory: &mut [u8],
        key: Key,
        version: Version,
    ) -> Result<(), Full> {
        if self.find(memory, key).is_none() {
            let at = self.find_or_insert(memory, key, INITIALIZING_LOCK)?;
            // An element with lock 0 and version 0 counts as free, so the version is written before the lock
            // is released.
            put(memory, at as usize + VERSION, version.bits());
            put(memory, at as usize, 0);
        }
        self.remove(memory, key, version);
        Ok(())
    }

    /// Calls `each` with the key, version and value of every object.
    pub fn for_each(&self, memory: &[u8], mut each: impl FnMut(Key, Version, &[u8])) {
        for number in 0..u64::from(self.buckets + self.next_linked) {
            let bucket = self.numbered(number);
            let bytes = &memory[bucket.at as usize..][..bucket.length];
            for at in self.elements() {
                let element = Element::parse(&bytes[at..at + self.element_bytes()]);
                if let (Some(key), Some(value)) = (Key::from_bits(element.key), element.value) {
                    each(key, element.version, value);
                }
            }
        }
    }

    fn numbered(&self, number: u64) -> Bucket {
        Bucket { at: number * self.bucket_bytes() as u64, length: self.bucket_bytes() }
    }

    /// Bytes of a bucket.
    pub fn bucket_bytes(&self) -> usize {
        NEXT_BYTES + self.bucket_slots as usize * self.element_bytes()
    }

    fn elements(&self) -> impl Iterator<Item = usize> + use<> {
        let bytes = self.element_bytes();
        (0..self.bucket_slots as usize).map(move |slot| NEXT_BYTES + slot * bytes)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}
