//! Outgoing messages, packed into datagrams by destination.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use weft_time::Duration;
use weft_wire::datagram::Builder;

/// The most open datagrams at a time. One more destination closes the oldest. A burst rarely has more
/// destinations than this: the peers and the clients' machines.
const OPEN_MAX: usize = 64;

/// A datagram under construction.
#[derive(Debug)]
struct Open {
    to: SocketAddrV4,
    /// CPU time that delays its messages, the same for all of them.
    cpu_time: Duration,
    builder: Builder,
}

/// Packs messages that are sent together to one destination into as few datagrams as possible, in order.
#[derive(Debug)]
pub struct Egress {
    datagram_bytes: usize,
    /// Whether messages share datagrams.
    aggregates: bool,
    open: VecDeque<Open>,
    closed: VecDeque<Open>,
    spare: Vec<Builder>,
}

impl Egress {
    /// An egress for datagrams of at most `datagram_bytes` bytes.
    pub fn new(datagram_bytes: usize) -> Self {
        Self {
            datagram_bytes,
            aggregates: true,
            open: VecDeque::with_capacity(OPEN_MAX),
            closed: VecDeque::with_capacity(OPEN_MAX),
            spare: Vec::with_capacity(2 * OPEN_MAX),
        }
    }

    /// Sets whether messages to one destination share datagrams. They do by default.
    pub fn set_aggregation(&mut self, aggregates: bool) {
        self.aggregates = aggregates;
    }

    /// Adds a message to `to`. Returns `false` if it is too long for a datagram.
    pub fn push(&mut self, to: SocketAddrV4, engine: u8, kind: u8, payload: &[u8]) -> bool {
        self.push_after(Duration::ZERO, to, engine, kind, payload)
    }

    /// Adds a message that is sent after an event's CPU time. Returns `false` if it is too long for a datagram.
    pub fn push_after(
        &mut self,
        cpu_time: Duration,
        to: SocketAddrV4,
        engine: u8,
        kind: u8,
        payload: &[u8],
    ) -> bool {
        if let Some(position) = self.open.iter().position(|open| open.to == to && open.cpu_time == cpu_time) {
            if self.aggregates && self.open[position].builder.try_push(engine, kind, payload) {
                return true;
            }
            let full = self.open.remove(position).expect("the position was just found");
            self.closed.push_back(full);
        }
        let mut builder = self.spare.pop().unwrap_or_else(|| Builder::new(self.datagram_bytes));
        if !builder.try_push(engine, kind, payload) {
            self.spare.push(builder);
            return false;
        }
        if self.open.len() == OPEN_MAX {
            self.closed.extend(self.open.pop_front());
        }
        self.open.push_back(Open { to, cpu_time, builder });
        true
    }

    /// Replaces the content of `out` by the next datagram, whose bytes are not copied, and returns its destination.
    pub fn poll(&mut self, out: &mut Vec<u8>) -> Option<SocketAddrV4> {
        self.poll_with_cpu_time(out).map(|(to, _)| to)
    }

    /// As [`Egress::poll`]. Returns also the CPU time that delays the datagram.
    pub fn poll_with_cpu_time(&mut self, out: &mut Vec<u8>) -> Option<(SocketAddrV4, Duration)> {
        let Open { to, cpu_time, mut builder } = self.closed.pop_front().or_else(|| self.open.pop_front())?;
        builder.take(out);
        self.spare.push(builder);
        Some((to, cpu_time))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weft_wire::datagram::Datagram;

    use super::*;

    fn to(port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
    }

    fn drain(egress: &mut Egress) -> Vec<(u16, Vec<Vec<u8>>)> {
        let mut all = Vec::new();
        let mut bytes = Vec::new();
        while let Some(destination) = egress.poll(&mut bytes) {
            let datagram = Datagram::parse(&bytes).unwrap();
            let messages = datagram.messages().map(|message| message.payload.to_vec()).collect();
            all.push((destination.port(), messages));
        }
        all
    }

    #[test]
    fn messages_to_one_destination_share_a_datagram() {
        let mut egress = Egress::new(1472);
        for (port, payload) in [(1, b"a"), (2, b"b"), (1, b"c")] {
            assert!(egress.push(to(port), 0, 0, payload));
        }
        let expected = vec![(1, vec![b"a".to_vec(), b"c".to_vec()]), (2, vec![b"b".to_vec()])];
        assert_eq!(drain(&mut egress), expected);
        assert_eq!(drain(&mut egress), vec![]);
    }

    #[test]
    fn messages_that_leave_at_other_times_do_not_share_a_datagram() {
        let mut egress = Egress::new(1472);
        for (us, payload) in [(0, b"a"), (3, b"b"), (0, b"c"), (3, b"d")] {
            assert!(egress.push_after(Duration::from_us(us), to(1), 0, 0, payload));
        }
        let mut bytes = Vec::new();
        let times: Vec<_> =
            std::iter::from_fn(|| egress.poll_with_cpu_time(&mut bytes).map(|(_, time)| time)).collect();
        assert_eq!(times, [Duration::ZERO, Duration::from_us(3)]);
    }

    #[test]
    fn a_full_datagram_is_closed_and_order_is_kept() {
        let mut egress = Egress::new(16 + 2 * 16);
        for payload in [b"1", b"2", b"3", b"4", b"5"] {
            assert!(egress.push(to(1), 0, 0, payload));
        }
        let payloads: Vec<u8> =
            drain(&mut egress).into_iter().flat_map(|(_, all)| all).map(|one| one[0]).collect();
        assert_eq!(payloads, b"12345");
    }

    #[test]
    fn messages_travel_alone_if_they_are_to() {
        let mut egress = Egress::new(1472);
        egress.set_aggregation(false);
        for (port, payload) in [(1, b"a"), (2, b"b"), (1, b"c")] {
            assert!(egress.push(to(port), 0, 0, payload));
        }
        let alone = |port, payload: &[u8]| (port, vec![payload.to_vec()]);
        assert_eq!(drain(&mut egress), vec![alone(1, b"a"), alone(2, b"b"), alone(1, b"c")]);
    }

    #[test]
    fn a_message_larger_than_a_datagram_is_refused() {
        let mut egress = Egress::new(64);
        assert!(!egress.push(to(1), 0, 0, &[0; 64]));
        assert_eq!(drain(&mut egress), vec![]);
    }

    #[test]
    fn many_destinations_lose_nothing() {
        let mut egress = Egress::new(256);
        for port in 0..200 {
            assert!(egress.push(to(port), 0, 0, &port.to_be_bytes()));
        }
        let mut ports: Vec<u16> = drain(&mut egress).into_iter().map(|(port, _)| port).collect();
        ports.sort_unstable();
        assert!(ports.into_iter().eq(0..200));
    }
}
