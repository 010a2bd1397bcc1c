//! Transactions: fault campaigns, measurements and their checks.

mod books;
mod campaign;
mod checker;
mod cluster;
mod host;
mod measure;
mod result;
mod steps;
mod system;
mod tables;
mod threads;
mod without;

pub use campaign::{TransactionFigures, TransactionsSubject};
pub use measure::{KindResult, Measured, Point, TxnBench};
pub use result::TxnResult;
pub use steps::{PanelResult, Quantity, StepResult, StepsBench, StepsResult};
pub use system::System;
pub use threads::{ThreadsBench, ThreadsResult, ThreadsRow};
pub use without::Without;
