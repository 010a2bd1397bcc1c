//! Rates of queue pairs: the reaction point and the notification point of DCQCN.
//!
//! A receiver of packets that a switch has marked tells their sender so, once in [`NOTIFICATION_INTERVAL`] for each
//! queue pair (`notification.rs`); the sender limits the rate of that queue pair (`pace.rs`). A queue pair
//! at the line rate is not limited and costs nothing. Only requests are limited: responses follow from the requests of
//! the peer, and are not marked.

mod machine;
mod notification;
mod pace;

pub use machine::{BITS_PER_S, LINE_RATE, RATE_MIN, RateMachine, STEP_BYTES};
pub use notification::NOTIFICATION_INTERVAL;
pub use pace::{BURST_NS, FRAMING_BYTES, PERIOD};

pub(crate) use notification::NotificationPoint;
pub(crate) use pace::ReactionPoint;
