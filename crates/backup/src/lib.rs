//! Backup files: the keys and values of a key-value store as they were at one instant.
//!
//! ```text
//! file      0 "WEFTBAK"(7) version(1)   then blocks: head, records, end; nothing follows
//! block     0 kind(4) length(4)   8 checksum(16)   24 content, of that length
//! 1 head    0 key length(4) epoch(4)   8 node(1) recovered(1) zero(6)   16 length(8) x 16   then when it was begun and
//!           the name of the cluster, as texts: length(1) and as many bytes
//! 2 records 0 value length(2)   2 key   then the value, and the next record
//! 3 end     0 keys(8)   8 bytes(8)   16 longest key(4) longest value(4)   24 digest(8)
//! ```
//!
//! Integers are little-endian. A checksum is the XXH3 of 128 bits over the checksum of the block before (zeros if there
//! is none), the kind, the length and the content. So a file with any change, or without its end, is not taken for a
//! whole one. All keys of a file have one length; they are padded with zeros.

mod file;
mod totals;

pub use file::{BackupError, Head, Reader, STREAMS, Writer};
pub use totals::{Totals, trimmed};
