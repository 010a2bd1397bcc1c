//! Both ends of a stream: what a leader records about its followers, and when leader and follower repeat messages.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use weft_time::{Duration, Instant};
use weft_waist::{NODES_MAX, NodeId, NodeSet};

use crate::parameters::Parameters;

/// Decides when to retransmit: after an interval without progress. The interval doubles with each
/// retransmission, up to a limit.
///
/// Progress is frequent, so it only records the time and does not move the timer. When the timer fires, the
/// present time is compared with that of the latest progress; if the interval has not elapsed, nothing is
/// retransmitted, and the timer is set for the rest. If nothing is outstanding, it is not set again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pace {
    first: Duration,
    most: Duration,
    interval: Duration,
    since: Instant,
    /// Time for which the timer is set.
    set: Option<Instant>,
}

impl Pace {
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            first: parameters.retransmit,
            most: parameters.retransmit_max,
            interval: parameters.retransmit,
            since: Instant::ZERO,
            set: None,
        }
    }

    /// Notes progress, or that something has become outstanding: the interval starts again.
    pub fn progress(&mut self, now: Instant) {
        self.interval = self.first;
        self.since = now;
    }

    /// Returns a time to set the timer to, unless the timer is already set to that time or an earlier one.
    pub fn arm(&mut self) -> Option<Instant> {
        let due = self.since + self.interval;
        let late = self.set.is_none_or(|set| set > due);
        late.then(|| *self.set.insert(due))
    }

    /// Handles the timer: returns whether to repeat messages. If anything is still outstanding, the caller arms it
    /// again.
    pub fn fire(&mut self, now: Instant) -> bool {
        let due = self.set.take().is_some() && now >= self.since + self.interval;
        if due {
            self.since = now;
            self.interval = (self.interval * 2).min(self.most);
        }
        due
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Follower {
    /// Length that the follower has acknowledged.
    accepted: u64,
    /// Length that is durable at the follower.
    durable: u64,
    /// Number of the last write in the latest burst of retransmissions.
    resent: u64,
    /// Highest number sent before that burst. Until the follower has accepted up to here, it gets further bursts.
    recover: u64,
}

/// A leader's records of the followers of its stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leading {
    followers: NodeSet,
    ledger: [Follower; NODES_MAX],
    burst: u64,
    /// Length of the stream that enough members have on disk.
    durable: u64,
    /// When each write behind that length was accepted, if writes are committed without waiting for disks.
    behind: VecDeque<Instant>,
    disk_lag: Option<Duration>,
    /// The committed length that the followers were last sent.
    pub told: u64,
    pub pace: Pace,
}

impl Leading {
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            followers: NodeSet::EMPTY,
            ledger: [Follower::default(); NODES_MAX],
            burst: parameters.burst as u64,
            durable: 0,
            // A follower has at most three windows of accepted entries that are not on its disk, and lacks at most one.
            behind: VecDeque::with_capacity(parameters.disk_lag.map_or(0, |_| 4 * parameters.window)),
            disk_lag: parameters.disk_lag,
            told: 0,
            pace: Pace::new(parameters),
        }
    }

    /// Starts a stream with these followers.
    pub fn reset(&mut self, followers: NodeSet) {
        self.followers = followers;
        self.ledger = [Follower::default(); NODES_MAX];
        (self.durable, self.told) = (0, 0);
        self.behind.clear();
    }

    pub fn followers(&self) -> NodeSet {
        self.followers
    }

    /// Length that all members have accepted, out of the leader's own `accepted`.
    pub fn shortest(&self, accepted: u64) -> u64 {
        self.followers.iter().map(|node| self.ledger[node.index()].accepted).fold(accepted, u64::min)
    }

    /// Length that is durable at `copies` of the `full` members, or at all if there are fewer. The length at the
    /// leader itself is `own`.
    pub fn durable_at(&self, copies: usize, full: NodeSet, own: u64) -> u64 {
        let mut lengths = [0; NODES_MAX];
        lengths[0] = own;
        let others = full.intersection(self.followers);
        for (length, node) in lengths[1..].iter_mut().zip(others.iter()) {
            *length = self.ledger[node.index()].durable;
        }
        let lengths = &mut lengths[..=others.len()];
        let rank = copies.clamp(1, lengths.len()) - 1;
        *lengths.select_nth_unstable_by(rank, |one, other| other.cmp(one)).1
    }

    /// Notes the length that is durable at a follower.
    pub fn note_durable(&mut self, from: NodeId, length: u64) {
        let follower = &mut self.ledger[from.index()];
        follower.durable = follower.durable.max(length);
    }

    /// Notes when the next write was accepted.
    pub fn accepted(&mut self, now: Instant) {
        if self.disk_lag.is_some() {
            self.behind.push_back(now);
        }
    }

    /// Notes the length that enough members have on disk. Returns whether it has grown.
    pub fn enough_have(&mut self, length: u64) -> bool {
        let grown = length.saturating_sub(self.durable);
        self.behind.drain(..(grown as usize).min(self.behind.len()));
        self.durable += grown;
        grown > 0
    }

    /// Whether the oldest write that too few members have on disk was accepted longer ago than the disks may lag.
    pub fn lags(&self, now: Instant) -> bool {
        let oldest = self.disk_lag.zip(self.behind.front());
        oldest.is_some_and(|(lag, accepted)| now > *accepted + lag)
    }

    /// Whether too few members have some write on disk that may be committed.
    pub fn awaits_disks(&self) -> bool {
        !self.behind.is_empty()
    }

    /// The first write that a follower is not known to have on disk, if that is one which too few members have.
    pub fn not_on_disk(&self, follower: NodeId) -> Option<u64> {
        let durable = self.ledger[follower.index()].durable;
        (self.awaits_disks() && durable <= self.durable).then_some(durable + 1)
    }

    /// The length that a follower has acknowledged, if it is less than the leader's `accepted`.
    pub fn waits_for(&self, follower: NodeId, accepted: u64) -> Option<u64> {
        let acknowledged = self.ledger[follower.index()].accepted;
        (self.followers.contains(follower) && acknowledged < accepted).then_some(acknowledged)
    }

    /// Processes a follower's acknowledgement; returns the writes to send it again, if any. A reported gap starts
    /// one burst. The acknowledgement of a burst triggers the next, until all writes sent before the first burst
    /// have been repeated. Further reports of the same gap trigger nothing; the timer handles them.
    pub fn acknowledge(
        &mut self,
        from: NodeId,
        to: u64,
        gap: bool,
        accepted: u64,
    ) -> Option<RangeInclusive<u64>> {
        let follower = &mut self.ledger[from.index()];
        follower.accepted = follower.accepted.max(to);
        let again = to >= follower.resent && (gap || to < follower.recover) && to == follower.accepted;
        again.then(|| self.resend(from, accepted)).flatten()
    }

    /// The next burst of writes for a follower that has not accepted all.
    pub fn resend(&mut self, to: NodeId, accepted: u64) -> Option<RangeInclusive<u64>> {
        let follower = &mut self.ledger[to.index()];
        let (first, last) = (follower.accepted + 1, accepted.min(follower.accepted + self.burst));
        if first > last {
            return None;
        }
        (follower.resent, follower.recover) = (last, accepted);
        Some(first..=last)
    }
}

/// A follower's side of a stream: what it owes the leader in acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Following {
    /// Since the last acknowledgement, a write arrived with a gap before it.
    pub gap: bool,
    pub pace: Pace,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(index: usize) -> NodeId {
        NodeId::new(index).unwrap()
    }

    #[test]
    fn committed_is_what_the_slowest_has() {
        let mut leading = Leading::new(&Parameters::default());
        leading.reset(NodeSet::from_iter([node(1), node(2)]));
        assert_eq!(leading.acknowledge(node(1), 5, false, 7), None);
        assert_eq!(leading.shortest(7), 0);
        assert_eq!(leading.acknowledge(node(2), 3, false, 7), None);
        assert_eq!(leading.shortest(7), 3);
        leading.acknowledge(node(2), 1, false, 7);
        assert_eq!(leading.shortest(7), 3, "an old acknowledgement takes nothing back");
        leading.reset(NodeSet::EMPTY);
        assert_eq!(leading.shortest(7), 7, "alone, what is accepted is committed");
    }

    #[test]
    fn the_fastest_disks_decide_what_is_durable() {
        let mut leading = Leading::new(&Parameters::default());
        leading.reset(NodeSet::from_iter([node(1), node(2), node(3)]));
        let full = NodeSet::first(3);
        leading.note_durable(node(1), 5);
        leading.note_durable(node(3), 9);
        let durable_at = |copies, own| leading.durable_at(copies, full, own);
        assert_eq!((durable_at(1, 2), durable_at(2, 2), durable_at(3, 2)), (5, 2, 0), "node 3 is joining");
        assert_eq!(durable_at(2, 7), 5);
        assert_eq!(leading.durable_at(2, NodeSet::first(1), 7), 7, "alone, it is all");
        leading.note_durable(node(1), 4);
        assert_eq!(leading.durable_at(2, full, 7), 5, "an old acknowledgement takes nothing back");
    }

    #[test]
    fn the_disks_lag_from_the_oldest_write_that_too_few_have() {
        let ms = |ms| Instant::ZERO + Duration::from_ms(ms);
        let lag = Duration::from_ms(5);
        let mut leading = Leading::new(&Parameters { disk_lag: Some(lag), ..Parameters::default() });
        leading.reset(NodeSet::from_iter([node(1), node(2)]));
        assert!(!leading.lags(ms(99)) && !leading.awaits_disks(), "nothing was accepted");
        [1, 2, 8].into_iter().for_each(|at| leading.accepted(ms(at)));
        assert!(!leading.lags(ms(6)));
        assert!(leading.lags(ms(7)));
        leading.note_durable(node(1), 2);
        assert_eq!((leading.not_on_disk(node(1)), leading.not_on_disk(node(2))), (None, Some(1)));
        assert!(leading.enough_have(2));
        assert!(!leading.enough_have(1), "an old report takes nothing back");
        assert!(!leading.lags(ms(13)) && leading.lags(ms(14)));
        assert_eq!((leading.not_on_disk(node(1)), leading.not_on_disk(node(2))), (Some(3), Some(1)));
        assert!(leading.enough_have(3));
        assert!(!leading.lags(ms(99)) && leading.not_on_disk(node(2)).is_none());
    }

    #[test]
    fn a_gap_is_filled_burst_by_burst_and_once() {
        let mut leading = Leading::new(&Parameters { burst: 4, ..Parameters::default() });
        leading.reset(NodeSet::from_iter([node(1)]));
        assert_eq!(leading.acknowledge(node(1), 2, true, 12), Some(3..=6));
        assert_eq!(leading.acknowledge(node(1), 2, true, 13), None, "the burst is on its way");
        assert_eq!(leading.acknowledge(node(1), 4, true, 13), None, "so is its end");
        assert_eq!(leading.acknowledge(node(1), 6, false, 13), Some(7..=10));
        assert_eq!(leading.acknowledge(node(1), 10, false, 13), Some(11..=13));
        assert_eq!(leading.acknowledge(node(1), 13, false, 20), None);
    }

    #[test]
    fn a_pace_doubles_and_starts_over_on_progress() {
        let ms = |ms| Instant::ZERO + Duration::from_ms(ms);
        let mut pace =
            Pace::new(&Parameters { retransmit_max: Duration::from_ms(5), ..Parameters::default() });
        assert_eq!(pace.arm(), Some(ms(2)));
        assert_eq!(pace.arm(), None);
        pace.progress(ms(1));
        assert!(!pace.fire(ms(2)), "there was progress since");
        assert_eq!(pace.arm(), Some(ms(3)));
        assert!(pace.fire(ms(3)));
        assert_eq!(pace.arm(), Some(ms(7)));
        assert!(pace.fire(ms(8)));
        assert_eq!(pace.arm(), Some(ms(13)), "the longest interval");
        pace.progress(ms(9));
        assert_eq!(pace.arm(), Some(ms(11)), "the timer moves to an earlier time");
        assert!(pace.fire(ms(11)));
        assert!(!pace.fire(ms(99)), "a timer that was not set says nothing");
    }
}
