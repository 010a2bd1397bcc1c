//! A plain sender and a plain receiver: what the machine's UDP reaches with no protocol above it.
//!
//! They run on the same [`UdpPort`] and the same loop as everything else, so their rates are the limit that a
//! transport on this crate can approach. The sender keeps a window of datagrams under way and the receiver reports how
//! far it has come, because an overrun receiver would measure losses instead of rates. Nothing is retransmitted, and
//! the receiver's count is what counts.

use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};
use weft_time::{Duration, Instant};

use crate::{Datagram, Endpoint, Stop, UdpPort};

/// The shortest datagram: it begins with its number, 8 bytes, big-endian.
pub const SHORTEST_DATAGRAM: usize = 8;

/// The number that says "that was all", and the report that answers it.
const LAST: u64 = u64::MAX;

/// How long a sender waits for a report before it takes what is under way for lost.
const PATIENCE: Duration = Duration::from_ms(20);

/// How often the end is announced to a receiver that does not answer.
const FAREWELLS: u32 = 50;

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainLoad {
    /// The UDP payload of each datagram, at least [`SHORTEST_DATAGRAM`] bytes.
    pub datagram_bytes: usize,
    /// How many datagrams may be under way.
    pub window: u64,
    /// How long to send.
    pub duration: Duration,
}

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderReport {
    /// Datagrams sent.
    pub datagrams: u64,
    /// How often no report came and what was under way was given up.
    pub stalls: u64,
}

/// What a receiver has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverReport {
    /// Datagrams received.
    pub datagrams: u64,
    /// Their UDP payload.
    pub bytes: u64,
    /// From the first datagram to the last.
    pub elapsed: Duration,
    /// Datagrams that were sent and had not arrived when a later one did.
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

/// Sends [`PlainLoad`] on port 0 and requests the stop when the receiver has confirmed the end, or does not answer.
#[derive(Debug)]
pub struct PlainSender<'a> {
    load: PlainLoad,
    to: SocketAddrV4,
    stop: &'a Stop,
    /// The number of the next datagram.
    next: u64,
    /// Numbers below this one are no longer under way.
    reported: u64,
    end: Option<Instant>,
    /// When to give up waiting for a report.
    patience: Instant,
    farewells: u32,
    farewell_due: bool,
    stalls: u64,
}

impl<'a> PlainSender<'a> {
    /// A sender to `to`. Its time starts with the first transmission.
    ///
    /// # Panics
    /// If the load's datagrams are shorter than [`SHORTEST_DATAGRAM`] or its window is empty.
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
            farewells: 0,
            farewell_due: false,
            stalls: 0,
        }
    }

    /// What has been done so far.
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
        Some(if self.farewells > 0 { self.patience } else { end.min(self.patience) })
    }

    fn handle_deadline(&mut self, now: Instant) {
        if self.is_over(now) {
            if self.farewells == 0 || now >= self.patience {
                if self.farewells == FAREWELLS {
                    self.stop.request();
                }
                self.farewells += 1;
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
        if self.farewells > 0 {
            return;
        }
        while self.next - self.reported < self.load.window {
            let next = self.next;
            // The rest of the buffer stays as it is: a limit is not to be lowered by filling it.
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

/// Counts what a [`PlainSender`] sends to port 0, and requests the stop when the sender says that it was all.
#[derive(Debug)]
pub struct PlainReceiver<'a> {
    stop: &'a Stop,
    /// A report is due after this many datagrams.
    report_every: u64,
    sender: Option<SocketAddrV4>,
    /// One more than the greatest number seen.
    reached: u64,
    reported: u64,
    over: bool,
    first: Instant,
    last: Instant,
    datagrams: u64,
    bytes: u64,
}

impl<'a> PlainReceiver<'a> {
    /// A receiver for a sender of this load; it reports four times a window.
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

    /// What has been seen so far.
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

/// The number that a datagram begins with; `None` if it is too short.
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
            // Far more than one window: the reports have opened it again and again.
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
        // How often it has given up depends on how long the thread had to wait for its core.
        assert!(sender.report().datagrams >= load.window);
    }
}
