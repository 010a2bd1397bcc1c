//! Replicated data types: workloads, clusters, measurements and fault campaigns.

mod books;
mod campaign;
mod cluster;
mod crash;
mod division;
mod host;
mod hybrid;
mod measure;
mod reference;
mod result;
mod split;
mod sweep;
mod system;
mod type_name;
mod workload;

pub use campaign::{DELIVERED_WITHIN, ObjectFigures, ObjectSubject, SeedChoice};
pub use crash::{
    CrashBench, CrashReport, CrashResult, FailOvers, Mark, Outcome, Timeline, Victim, has_leader,
};
pub use hybrid::{HybridBench, HybridPoint, HybridReport};
pub use measure::{Measured, MethodResult, RdtBench, ReplicaResult};
pub use reference::Subject;
pub use result::RdtResult;
pub use sweep::{Sweep, SweepResult};
pub use system::{Callers, Card, Commit, Configuration, System};
pub use type_name::TypeName;
pub use workload::{ClientWorkload, Mix, Operation, Sizes, Workload};
