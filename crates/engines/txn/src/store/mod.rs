//! Where a shard's objects are: a table in host memory that the card reads by DMA, and the card's index of it.
//!
//! - [`Table`] is the host's half, a Robin Hood table over flat bytes ([`Layout`] tells them one by one). Only the
//!   host writes it, line by line ([`Lines`]), in an order in which a reader that takes each line at a moment of its
//!   own never misses an object.
//! - [`Lookup`] is that reader: it is given bytes and says what to read next. It notices what changed under it and
//!   reads again.
//! - [`Index`] is the card's half: where to read ([`Hint`], from the host's [`Report`]s), the cached objects, their
//!   locks and versions.
//! - [`Chained`] is the table of the designs that Weft is compared with, whose objects keep their addresses.
//!
//! The origin is Xenic, section 4.1. What differs, and why, stands at each module.

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
