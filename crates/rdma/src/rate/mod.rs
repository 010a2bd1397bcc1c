//! Rates of queue pairs: the reaction point and the notification point of DCQCN.
//!
//! A receiver of packets that a switch has marked notifies their sender, at most once in
//! [`NOTIFICATION_INTERVAL`] for each queue pair (`notification.rs`). The sender then limits the rate of that
//! queue pair (`pace.rs`). A queue pair at the line rate is not limited and costs nothing. Only requests are
//! limited. Responses are not marked, since the peer's requests determine their rate.

mod machine;
mod notification;
mod pace;

pub use machine::{BITS_PER_S, LINE_RATE, RATE_MIN, RateMachine, STEP_BYTES};
pub use notification::NOTIFICATION_INTERVAL;
pub use pace::{BURST_NS, FRAMING_BYTES, PERIOD};

pub(crate) use notification::NotificationPoint;
pub(crate) use pace::ReactionPoint;
