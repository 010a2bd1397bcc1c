//! A plain sender and a plain receiver: the rate of the machine's UDP without a protocol above it.
//!
//! They use the same [`UdpPort`] and the same loop as nodes and clients, so their rates are the limit for any
//! transport on this crate. The sender keeps a window of datagrams in flight and the receiver reports how far it
//! has come; otherwise the receiver would be overrun and losses would be measured instead of rates. Nothing is
//! retransmitted, and the result is what the receiver counts.

use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};
use weft_time::{Duration, Instant};

use crate::{Datagram, Endpoint, Stop, UdpPort};

/// Bytes of the shortest datagram: its number, big-endian.
pub const SHORTEST_DATAGRAM: usize = 8;

/// The number that marks the end of the load, and the end's confirmation.
const LAST: u64 = u64::MAX;

/// How long a sender waits for a report before it assumes that the datagrams in flight are lost.
const PATIENCE: Duration = Duration::from_ms(20);

/// How often the end is sent to a receiver that does not confirm it.
const END_REPEATS: u32 = 50;

/// Parameters of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainLoad {
    /// The UDP payload of each datagram, at least [`SHORTEST_DATAGRAM`] bytes.
    pub datagram_bytes: usize,
    /// The most datagrams in flight.
    pub window: u64,
    /// How long to send.
    pub duration: Duration,
}

/// The result of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderReport {
    /// Number of datagrams sent.
    pub datagrams: u64,
    /// How often a report failed to arrive, so that the datagrams in flight were assumed to be lost.
    pub stalls: u64,
}

/// The result of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverReport {
    /// Number of datagrams received.
    pub datagrams: u64,
    /// Bytes of UDP payload received.
    pub bytes: u64,
    /// Time from the first datagram to the last.
    pub elapsed: Duration,
    /// Datagrams that had not arrived when a later one did.
    pub lost: u64,
}

impl ReceiverReport {
    /// UDP payload received, in bits per second.
    pub fn goodput_bits_per_s(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Datagrams received per second.
    pub fn datagrams_per_s(&self) -> f64 {
        self.datagrams as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// An endpoint that sends a [`PlainLoad`] on port 0, and requests the stop when the receiver has confirmed the
/// end, or does not answer.
#[derive(Debug)]
pub struct PlainSender<'a> {
    load: PlainLoad,
    to: SocketAddrV4,
    stop: &'a Stop,
    /// The number of the next datagram.
    next: u64,
    /// Datagrams with numbers below this one are no longer in flight.
    reported: u64,
    end: Option<Instant>,
    /// When to stop waiting for a report.
    patience: Instant,
    end_repeats: u32,
    farewell_due: bool,
    stalls: u64,
}

impl<'a> PlainSender<'a> {
    /// A sender to `to`. Its duration starts with the first transmission.
    ///
    /// # Panics
    /// If the load's datagrams are shorter than [`SHORTEST_DATAGRAM`] or its window is 0.
    pub fn new(load: PlainLoad, to: SocketAddrV4, stop: &'a Stop) -> Self {
        assert!(load.datagram_bytes >= SHORTEST_DATAGRAM && load.window > 0);
        Self {
            load,
            to,
            stop,
            next: 0,
            reported: 0,
            end: None,
            patience: Instant::ZERO,
            end_repeats: 0,
            farewell_due: false,
            stalls: 0,
        }
    }

    /// The result so far.
    pub fn report(&self) -> SenderReport {
        SenderReport { datagrams: self.next, stalls: self.stalls }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.end.is_some_and(|end| now >= end)
    }
}

impl Endpoint for PlainSender<'_> {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_>) {
        match number(datagram) {
            Some(LAST) if self.is_over(now) => self.stop.request(),
            Some(reported) if (self.reported..=self.next).contains(&reported) => {
                self.reported = reported;
                self.patience = now + PATIENCE;
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let end = self.end?;
        Some(if self.end_repeats > 0 { self.patience } else { end.min(self.patience) })
    }

    fn handle_deadline(&mut self, now: Instant) {
        if self.is_over(now) {
            if self.end_repeats == 0 || now >= self.patience {
                if self.end_repeats == END_REPEATS {
                    self.stop.request();
                }
                self.end_repeats += 1;
                self.farewell_due = true;
                self.patience = now + PATIENCE;
            }
        } else if now >= self.patience {
            self.stalls += u64::from(self.reported < self.next);
            self.reported = self.next;
            self.patience = now + PATIENCE;
        }
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort]) {
        if self.end.is_none() {
            self.end = Some(now + self.load.duration);
            self.patience = now + PATIENCE;
        }
        if self.farewell_due {
            self.farewell_due = !ports[0].push(self.to, &LAST.to_be_bytes());
        }
        if self.end_repeats > 0 {
            return;
        }
        while self.next - self.reported < self.load.window {
            let next = self.next;
            // The remainder of the buffer is not written, because filling it would lower the rate.
            let taken = ports[0].push_with(self.to, self.load.datagram_bytes, |_, buffer| {
                buffer[..SHORTEST_DATAGRAM].copy_from_slice(&next.to_be_bytes());
            });
            if !taken {
                break;
            }
            self.next += 1;
        }
    }
}

/// An endpoint that counts the datagrams of a [`PlainSender`] on port 0, and requests the stop when the sender has
/// sent its end.
#[derive(Debug)]
pub struct PlainReceiver<'a> {
    stop: &'a Stop,
    /// Number of datagrams after which a report is due.
    report_every: u64,
    sender: Option<SocketAddrV4>,
    /// One more than the greatest number received.
    reached: u64,
    reported: u64,
    over: bool,
    first: Instant,
    last: Instant,
    datagrams: u64,
    bytes: u64,
}

impl<'a> PlainReceiver<'a> {
    /// A receiver for a sender of this load; it reports four times per window.
    pub fn new(load: PlainLoad, stop: &'a Stop) -> Self {
        Self {
            stop,
            report_every: (load.window / 4).max(1),
            sender: None,
            reached: 0,
            reported: 0,
            over: false,
            first: Instant::ZERO,
            last: Instant::ZERO,
            datagrams: 0,
            bytes: 0,
        }
    }

    /// The result so far.
    pub fn report(&self) -> ReceiverReport {
        ReceiverReport {
            datagrams: self.datagrams,
            bytes: self.bytes,
            elapsed: self.last.saturating_since(self.first),
            lost: self.reached.saturating_sub(self.datagrams),
        }
    }
}

impl Endpoint for PlainReceiver<'_> {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_>) {
        let Some(number) = number(datagram) else { return };
        self.sender = Some(datagram.from);
        if number == LAST {
            self.over = true;
            return;
        }
        if self.datagrams == 0 {
            self.first = now;
        }
        self.last = now;
        self.datagrams += 1;
        self.bytes += datagram.bytes.len() as u64;
        self.reached = self.reached.max(number + 1);
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn handle_deadline(&mut self, _now: Instant) {}

    fn transmit(&mut self, _now: Instant, ports: &mut [UdpPort]) {
        let Some(sender) = self.sender else { return };
        if self.over {
            if ports[0].push(sender, &LAST.to_be_bytes()) {
                self.stop.request();
            }
        } else if self.reached - self.reported >= self.report_every
            && ports[0].push(sender, &self.reached.to_be_bytes())
        {
            self.reported = self.reached;
        }
    }
}

/// The number at the start of a datagram; `None` if it is too short.
fn number(datagram: Datagram<'_>) -> Option<u64> {
    datagram.bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::thread;

    use super::*;
    use crate::{Clock, IdlePolicy, PortOptions, run};

    fn port() -> UdpPort {
        UdpPort::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &PortOptions::default()).unwrap()
    }

    #[test]
    fn the_receiver_counts_what_the_sender_sends() {
        for datagram_bytes in [SHORTEST_DATAGRAM, 64, 4096] {
            let load = PlainLoad { datagram_bytes, window: 32, duration: Duration::from_ms(50) };
            let (stop_sender, stop_receiver) = (Stop::new().unwrap(), Stop::new().unwrap());
            let mut receiver = PlainReceiver::new(load, &stop_receiver);
            let mut ports = [port()];
            let mut sender = PlainSender::new(load, ports[0].local_address(), &stop_sender);
            let clock = Clock::starting_now();
            thread::scope(|scope| {
                scope.spawn(|| {
                    run(&mut receiver, &mut ports, clock, IdlePolicy::SHARE, &stop_receiver).unwrap()
                });
                run(&mut sender, &mut [port()], clock, IdlePolicy::SHARE, &stop_sender).unwrap();
            });
            let (sent, received) = (sender.report(), receiver.report());
            // The sender sent far more than one window, so reports have opened it again and again.
            assert!(sent.datagrams > 2 * load.window);
            assert_eq!((received.datagrams, received.lost), (sent.datagrams, 0));
            assert_eq!(received.bytes, received.datagrams * datagram_bytes as u64);
            assert!(received.goodput_bits_per_s() > 0.0);
        }
    }

    #[test]
    fn a_sender_without_a_receiver_comes_to_an_end() {
        let load = PlainLoad { datagram_bytes: 64, window: 32, duration: Duration::from_ms(50) };
        let stop = Stop::new().unwrap();
        let nobody = port().local_address();
        let mut sender = PlainSender::new(load, nobody, &stop);
        run(&mut sender, &mut [port()], Clock::starting_now(), IdlePolicy::SLEEP, &stop).unwrap();
        // The number of stalls depends on how long the thread had to wait for its core.
        assert!(sender.report().datagrams >= load.window);
    }
}
