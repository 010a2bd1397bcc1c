//! Replicated data types: workloads, clusters, measurements and fault campaigns.

mod popularity;
mod reference;
mod workload;

pub use popularity::Popularity;
pub use reference::Subject;
pub use workload::{ClientWorkload, Operation, Sizes, TypeName, Workload};
