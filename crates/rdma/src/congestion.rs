//! Congestion control: how many packets a queue pair may have outstanding.
//!
//! The transport is clocked by acknowledgements (BALBOA 4.4): a packet that is sent takes one place of the
//! window, and its acknowledgement frees the place. An implementation of [`CongestionControl`] decides the
//! size of the window, one for each queue pair.

use std::fmt::Debug;

use weft_time::Instant;

/// How a loss was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// By a gap: the peer has reported it, or the order of the peer's responses shows it.
    Gap,
    /// By a time-out: no packet arrived within the acknowledgement time-out.
    TimeOut,
}

/// Decides the size of a queue pair's window.
pub trait CongestionControl: Debug + Send {
    /// Packets that may be outstanding. The transport uses at least 1 and at most `window_packets`.
    fn window(&self) -> u32;

    /// Called when `packets` more packets have been acknowledged.
    fn on_ack(&mut self, now: Instant, packets: u32);

    /// Called when a packet was lost. The requester sends it and all later packets again.
    fn on_loss(&mut self, now: Instant, loss: Loss);

    /// Called when the peer has reported, by a congestion notification, that a packet of this queue pair met
    /// congestion.
    fn on_mark(&mut self, now: Instant);
}

/// Creates the congestion control of a new connection, given `window_packets`.
pub type CongestionControlFactory = fn(u32) -> Box<dyn CongestionControl>;

/// The window always has its full size. For lossless networks, as in BALBOA.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow(u32);

impl FixedWindow {
    /// A window of `packets`.
    pub const fn new(packets: u32) -> Self {
        Self(packets)
    }

    /// A fixed window, as a [`CongestionControlFactory`].
    pub fn boxed(packets: u32) -> Box<dyn CongestionControl> {
        Box::new(Self(packets))
    }
}

impl CongestionControl for FixedWindow {
    fn window(&self) -> u32 {
        self.0
    }

    fn on_ack(&mut self, _: Instant, _: u32) {}

    fn on_loss(&mut self, _: Instant, _: Loss) {}

    fn on_mark(&mut self, _: Instant) {}
}

/// Additive increase, multiplicative decrease: the window grows by one packet for each window that is
/// acknowledged, and is halved for each loss or mark. After a time-out it is one packet.
#[derive(Clone, Copy, Debug)]
pub struct AdditiveIncrease {
    limit: u32,
    window: u32,
    acknowledged: u32,
}

impl AdditiveIncrease {
    /// The window starts with its full size of `limit` packets.
    pub const fn new(limit: u32) -> Self {
        Self { limit, window: limit, acknowledged: 0 }
    }

    /// Additive increase, as a [`CongestionControlFactory`].
    pub fn boxed(limit: u32) -> Box<dyn CongestionControl> {
        Box::new(Self::new(limit))
    }

    fn shrink_to(&mut self, window: u32) {
        self.window = window.max(1);
        self.acknowledged = 0;
    }
}

impl CongestionControl for AdditiveIncrease {
    fn window(&self) -> u32 {
        self.window
    }

    fn on_ack(&mut self, _: Instant, packets: u32) {
        self.acknowledged += packets;
        while self.acknowledged >= self.window {
            self.acknowledged -= self.window;
            self.window = (self.window + 1).min(self.limit);
        }
    }

    fn on_loss(&mut self, _: Instant, loss: Loss) {
        match loss {
            Loss::Gap => self.shrink_to(self.window / 2),
            Loss::TimeOut => self.shrink_to(1),
        }
    }

    fn on_mark(&mut self, _: Instant) {
        self.shrink_to(self.window / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additive_increase_grows_by_one_a_window_and_halves_on_loss() {
        let mut control = AdditiveIncrease::new(16);
        control.on_loss(Instant::ZERO, Loss::Gap);
        assert_eq!(control.window(), 8);
        control.on_ack(Instant::ZERO, 8 + 9);
        assert_eq!(control.window(), 10);
        control.on_mark(Instant::ZERO);
        assert_eq!(control.window(), 5);
        control.on_loss(Instant::ZERO, Loss::TimeOut);
        assert_eq!(control.window(), 1);
        control.on_ack(Instant::ZERO, 1_000);
        assert_eq!(control.window(), 16);
    }
}
