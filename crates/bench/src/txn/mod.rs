//! Transactions: what is run, and what is checked of it.

pub mod workloads;
