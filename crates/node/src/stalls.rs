//! Detection of peers for which engines wait longer than a lease.

use weft_time::{Duration, Instant};
use weft_waist::{NODES_MAX, NodeId, NodeSet};

/// An engine's wait for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    /// The engine's measure of the peer's progress: see [`weft_waist::Engine::waits_for`].
    mark: u64,
    since: Instant,
    is_reported: bool,
}

/// A report for the operator: an engine waits, or has waited, for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The slot of the engine that waits.
    pub slot: u8,
    /// The peer that the engine waits for.
    pub peer: NodeId,
    /// How long it has waited so far, or had waited when the wait ended.
    pub lasted: Duration,
    /// Whether the wait is over.
    pub is_over: bool,
}

/// Monitors how long the engines of a node wait for its peers. Call [`Stalls::note`] several times in the length
/// of a lease.
#[derive(Debug)]
pub struct Stalls {
    slots: Vec<[Option<Wait>; NODES_MAX]>,
}

impl Stalls {
    /// A monitor of `slots` engines, none of which waits.
    pub fn new(slots: u8) -> Self {
        Self { slots: vec![[None; NODES_MAX]; slots.into()] }
    }

    /// Notes the progress mark of `peer` that the engine in `slot` reports. Returns a stall when its length
    /// reaches `longest`, and when a reported stall is over.
    pub fn note(
        &mut self,
        now: Instant,
        longest: Duration,
        (slot, peer): (u8, NodeId),
        mark: Option<u64>,
    ) -> Option<Stall> {
        let place = &mut self.slots[usize::from(slot)][peer.index()];
        let stall =
            |wait: &Wait, is_over| Stall { slot, peer, lasted: now.saturating_since(wait.since), is_over };
        match place {
            Some(wait) if Some(wait.mark) == mark => {
                let is_due = !wait.is_reported && now.saturating_since(wait.since) >= longest;
                wait.is_reported |= is_due;
                is_due.then(|| stall(wait, false))
            }
            _ => {
                let before = place.take();
                *place = mark.map(|mark| Wait { mark, since: now, is_reported: false });
                before.filter(|wait| wait.is_reported).map(|wait| stall(&wait, true))
            }
        }
    }

    /// The peers for which the engine in `slot` has waited for `longest` or more.
    pub fn stalled_for(&self, now: Instant, longest: Duration, slot: u8) -> NodeSet {
        let is_long = |wait: &Wait| now.saturating_since(wait.since) >= longest;
        let waits = self.slots[usize::from(slot)].iter().enumerate();
        let long = waits.filter(|(_, wait)| wait.as_ref().is_some_and(is_long));
        long.filter_map(|(peer, _)| NodeId::new(peer)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_ms(100);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    #[test]
    fn a_peer_that_stays_where_it_is_for_a_lease_is_told_of_once_and_again_when_it_gets_on() {
        let peer = NodeId::new(2).unwrap();
        let mut stalls = Stalls::new(2);
        let mut note = |ms, mark| stalls.note(at(ms), LEASE, (1, peer), mark);
        let stall = |ms, is_over| Some(Stall { slot: 1, peer, lasted: Duration::from_ms(ms), is_over });
        assert_eq!(note(0, Some(7)), None);
        assert_eq!(note(99, Some(7)), None);
        assert_eq!(note(120, Some(7)), stall(120, false));
        assert_eq!(note(300, Some(7)), None, "it is told once");
        assert_eq!(note(310, Some(8)), stall(310, true));
        assert_eq!(note(390, Some(9)), None, "it gets on");
        assert_eq!(note(480, Some(9)), None);
        assert_eq!(note(500, None), None, "it was in time");
        assert_eq!(note(501, Some(9)), None);
        assert_eq!(note(601, Some(9)), stall(100, false));
        assert_eq!(note(650, None), stall(149, true));
    }

    #[test]
    fn those_that_hold_an_engine_up_are_named() {
        let node = |index| NodeId::new(index).unwrap();
        let mut stalls = Stalls::new(1);
        for peer in [1, 2] {
            assert_eq!(stalls.note(at(0), LEASE, (0, node(peer)), Some(1)), None);
        }
        assert_eq!(stalls.note(at(90), LEASE, (0, node(2)), Some(2)), None);
        assert_eq!(stalls.stalled_for(at(110), LEASE, 0), NodeSet::EMPTY.with(node(1)));
        assert_eq!(stalls.stalled_for(at(50), LEASE, 0), NodeSet::EMPTY);
    }
}
