//! The storage of a shard's objects: a table in host memory that the card reads by DMA, and the card's index
//! of it.
//!
//! - [`Table`] is the host's part: a Robin Hood table in flat bytes ([`Layout`] defines them). Only the host
//!   writes it, line by line ([`Lines`]). The order of the writes makes sure that a reader which sees each
//!   line at a different moment never misses an object.
//! - [`Lookup`] is such a reader. It gets bytes and returns what to read next. It detects changes that happen
//!   during its reads, and then reads again.
//! - [`Index`] is the card's part: where look-ups start ([`Hint`], from the host's [`Report`]s), and the
//!   cached objects with their locks and versions.
//! - [`Chained`] is the table of the designs that Weft is compared with. Its objects keep their addresses.
//!
//! The design is that of Xenic, section 4.1. Each module says where it differs, and why.

mod chained;
mod index;
mod layout;
mod lookup;
mod overflow;
mod record;
mod report;
mod table;

pub use chained::{Bucket, Chained, Element};
pub use index::{Cached, Index, IndexParameters, Refused};
pub use layout::{LINE, Layout, LayoutError, Shape};
pub use lookup::{Lookup, Next, Region};
pub use record::Lines;
pub use report::{Hint, Overflow, Precision, Report};
pub use table::{Change, Full, Table};

#[cfg(test)]
mod tests;
