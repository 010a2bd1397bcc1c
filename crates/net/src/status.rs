//! Answers to status requests.

use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_cluster::ClusterId;
use weft_cluster::status::{StatusAnswer, StatusRequest};
use weft_time::{Duration, Instant};

use crate::UdpPort;

/// Number of requests that are answered in each [`PERIOD`], from all senders together. An answer takes some
/// microseconds, so together they take less than a hundredth of a core. A complete status takes one request for
/// each engine and one for every eight counters.
const ANSWERS: u32 = 64;
const PERIOD: Duration = Duration::from_ms(50);

/// Handles status requests at a port that receives other messages, too, and sends the answers.
#[derive(Debug)]
pub(crate) struct StatusDesk {
    cluster: ClusterId,
    queue: VecDeque<(SocketAddr, Vec<u8>)>,
    period_end: Instant,
    left: u32,
    refused: u64,
}

impl StatusDesk {
    pub(crate) fn new(cluster: ClusterId) -> Self {
        let queue = VecDeque::with_capacity(ANSWERS as usize);
        Self { cluster, queue, period_end: Instant::ZERO, left: ANSWERS, refused: 0 }
    }

    /// The request in a datagram, if it is a status request that may be answered now.
    pub(crate) fn take(&mut self, now: Instant, bytes: &[u8]) -> Option<StatusRequest> {
        if now >= self.period_end {
            (self.period_end, self.left) = (now + PERIOD, ANSWERS);
        }
        let has_room = self.left > 0 && self.queue.len() < ANSWERS as usize;
        let request = if has_room { StatusRequest::decode(bytes).ok() } else { None };
        let request = request.filter(|request| request.cluster == self.cluster);
        match request {
            Some(_) => self.left -= 1,
            None => self.refused += 1,
        }
        request
    }

    pub(crate) fn answer(&mut self, to: SocketAddr, request: &StatusRequest, answer: &StatusAnswer) {
        self.queue.push_back((to, answer.encode(self.cluster, request.token)));
    }

    /// Queues the answers as far as the port has room.
    pub(crate) fn transmit(&mut self, port: &mut UdpPort<SocketAddr>) {
        while let Some((to, bytes)) = self.queue.front() {
            if !port.push(*to, bytes) {
                return;
            }
            self.queue.pop_front();
        }
    }

    /// Number of requests refused: malformed, of another cluster, or over the limit.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use weft_cluster::ClusterName;
    use weft_cluster::status::StatusPart;

    use super::*;

    #[test]
    fn a_flood_of_requests_is_answered_as_far_as_a_few_are() {
        let cluster = ClusterName::default().id();
        let mut desk = StatusDesk::new(cluster);
        let request = StatusRequest { cluster, token: 7, part: StatusPart::Node };
        let bytes = request.encode();
        let at = |ms| Instant::ZERO + Duration::from_ms(ms);
        let answered =
            |desk: &mut StatusDesk, ms| (0..10_000).filter(|_| desk.take(at(ms), &bytes).is_some()).count();
        assert_eq!(answered(&mut desk, 0), ANSWERS as usize);
        assert_eq!(answered(&mut desk, 49), 0);
        assert_eq!(answered(&mut desk, 50), ANSWERS as usize);
        assert_eq!(desk.refused(), 30_000 - 2 * u64::from(ANSWERS));
    }

    #[test]
    fn what_is_no_request_or_another_clusters_is_not_answered() {
        let mut desk = StatusDesk::new(ClusterName::default().id());
        let cluster = ClusterName::new("other").unwrap().id();
        let strange = StatusRequest { cluster, token: 7, part: StatusPart::Node }.encode();
        assert_eq!(desk.take(Instant::ZERO, &strange), None);
        assert_eq!(desk.take(Instant::ZERO, &strange[..100]), None);
        assert_eq!(desk.refused(), 2);
    }
}
