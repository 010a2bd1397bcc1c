//! Describes operations in explanations, and keys in files.

use std::fmt::Write as _;

use crate::operation::{Action, Call, Outcome};

/// The bytes in hexadecimal, two digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all that is written");
        text
    })
}

pub(crate) fn describe_client(call: &Call) -> String {
    let verb = match call.action {
        Action::Get => "get",
        Action::Put { .. } => "put",
        Action::Delete => "delete",
        Action::CompareAndSet { .. } => "compare-and-set",
        Action::CompareAndDelete { .. } => "compare-and-delete",
    };
    format!("{verb} by client {}", call.client)
}

/// What `call` says about the first version that it names.
pub(crate) fn describe_version(call: &Call) -> String {
    let who = describe_client(call);
    match (call.action, call.outcome) {
        (_, Some(Outcome::Found { version, .. })) => format!("{who} returned version {version}"),
        (_, Some(Outcome::Mismatch { version })) if version > 0 => format!("{who} found version {version}"),
        (Action::CompareAndSet { expected, .. }, Some(Outcome::Written { .. })) if expected > 0 => {
            format!("{who} succeeded on version {expected}")
        }
        (Action::CompareAndDelete { expected }, Some(Outcome::Deleted { .. })) => {
            format!("{who} succeeded on version {expected}")
        }
        (Action::CompareAndSet { .. }, Some(Outcome::Written { version })) => {
            format!("{who} succeeded on an absent key and was given version {version}")
        }
        (_, Some(Outcome::Written { version } | Outcome::Deleted { version })) => {
            format!("{who} was given version {version}")
        }
        _ => format!("{who} found the key absent"),
    }
}

/// How the client of `call` learned of the greatest version that it names.
pub(crate) fn describe_outcome(call: &Call) -> String {
    match call.outcome {
        Some(Outcome::Deleted { version }) => {
            format!(
                "the deletion of the key as version {version} had been acknowledged to client {}",
                call.client
            )
        }
        Some(Outcome::Written { version }) => {
            format!("version {version} had been acknowledged to client {}", call.client)
        }
        _ => {
            let version = call.observed_version().unwrap_or(0);
            format!("version {version} had been returned to client {}", call.client)
        }
    }
}
