//! Sessions of clients: the records by which a node makes sure that no request takes effect twice.
//!
//! A client numbers its requests from 1 and issues number *r* only after *r* - [`SESSION_WINDOW`] has ended. So a
//! session needs one slot per number modulo the window. A slot holds the record of the latest request that was
//! applied there and, at a leader, the request that is still undecided. Every node records every applied write, so
//! a node that becomes leader has the records of all earlier leaders.
//!
//! A leader admits new clients while it has fewer sessions than the limit. Other leaders may admit clients at the
//! same time, at most one per entry of their windows, before this node receives them. The table has space for
//! these beyond the limit, so recording never fails. If the table is full all the same (a node may have dropped
//! fewer sessions than the leaders), the session of the client that was silent for longest is dropped.
//!
//! Once a node has dropped a client's session, because the client was silent or has left, it must refuse that
//! client for ever: copies of its requests may still arrive. Clients take their numbers from their clocks, so
//! later clients have higher ones. A node keeps the highest number that it has dropped, the *horizon*, and admits
//! no client at or below it. A client that is refused for this reason (its clock is slow, or it was silent for
//! long) receives the horizon and goes on under a number beyond it. In a state transfer the horizon travels as the
//! first request of client 0, a number that no client has.

use weft_time::{Duration, Instant};
use weft_waist::NODES_MAX;

use crate::message::{Malformed, SESSION_BYTES, SESSION_WINDOW, Status, be64, put};
use crate::parameters::Parameters;
use crate::placement::mix;

const PLACES: usize = SESSION_WINDOW as usize;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct SessionEntry {
    /// The latest applied request; 0 if there was none.
    request: u64,
    version: u64,
    /// The latest undecided request in this node's own window; 0 if there is none.
    pending: u64,
    status: Status,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Session {
    client: u64,
    used: bool,
    active: Instant,
    /// Neighbours in the list of sessions, which is ordered by last activity.
    newer: u32,
    older: u32,
    /// Number of requests that are pending.
    pending: u32,
    places: [SessionEntry; PLACES],
}

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Unknown: it must be executed.
    Never,
    /// Applied, with this outcome.
    Recorded { status: Status, version: u64 },
    /// In this node's window: the reply will follow.
    Pending,
    /// A late duplicate: the client has reused its slot for a later request.
    Superseded,
}

/// Why a client gets no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// As many clients have sessions as the limit allows.
    Full,
    /// The client may be one whose session was dropped.
    Forgotten { horizon: u64 },
}

/// The sessions of a node: a table by client, and a list by activity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sessions {
    limit: usize,
    idle: Duration,
    capacity: usize,
    /// The highest client number whose session was dropped; 0 if there is none. A client with this number or a
    /// lower one is admitted only if it still has a session. Always 0 where a peer may be the engine in gateware,
    /// which has no horizon.
    horizon: u64,
    has_horizon: bool,
    /// Hash map with open addressing and linear probing: index of a session plus one, or 0 for free.
    map: Vec<u32>,
    list: Vec<Session>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    /// Number of sessions dropped although their clients had not been idle for `idle`.
    pub forced_evictions: u64,
}

impl Sessions {
    pub fn new(parameters: &Parameters) -> Self {
        let capacity = parameters.sessions + (NODES_MAX - 1) * parameters.window;
        Self {
            limit: parameters.sessions,
            idle: parameters.session_idle,
            capacity,
            horizon: 0,
            has_horizon: parameters.beyond_gates,
            map: vec![0; (2 * capacity).next_power_of_two()],
            list: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            newest: NONE,
            oldest: NONE,
            forced_evictions: 0,
        }
    }

    /// Drops all sessions, but keeps the horizon.
    pub fn clear(&mut self) {
        self.map.fill(0);
        self.list.clear();
        self.free.clear();
        (self.newest, self.oldest) = (NONE, NONE);
    }

    /// Number of clients with a session.
    pub fn count(&self) -> usize {
        self.list.len() - self.free.len()
    }

    fn home(&self, client: u64) -> usize {
        mix(client) as usize & (self.map.len() - 1)
    }

    /// The map index at which the client is, or the free one for it; and the index of its session, if it has one.
    fn probe(&self, client: u64) -> (usize, Option<usize>) {
        let mask = self.map.len() - 1;
        let mut at = self.home(client);
        while self.map[at] != 0 {
            let index = self.map[at] as usize - 1;
            if self.list[index].client == client {
                return (at, Some(index));
            }
            at = (at + 1) & mask;
        }
        (at, None)
    }

    fn unlink(&mut self, index: usize) {
        let (newer, older) = (self.list[index].newer, self.list[index].older);
        match newer {
            NONE => self.newest = older,
            newer => self.list[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.list[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, index: usize) {
        self.list[index].newer = NONE;
        self.list[index].older = self.newest;
        match self.newest {
            NONE => self.oldest = index as u32,
            newest => self.list[newest as usize].newer = index as u32,
        }
        self.newest = index as u32;
    }

    fn touch(&mut self, now: Instant, index: usize) {
        self.list[index].active = now;
        if self.newest != index as u32 {
            self.unlink(index);
            self.link_newest(index);
        }
    }

    fn evict(&mut self, index: usize) {
        self.unlink(index);
        self.list[index].used = false;
        self.free.push(index as u32);
        // Close the gap in the probe sequences that cross the freed index (backward shift).
        let mask = self.map.len() - 1;
        let (mut gap, _) = self.probe(self.list[index].client);
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            if self.map[at] == 0 {
                break;
            }
            let home = self.home(self.list[self.map[at] as usize - 1].client);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.map[gap] = self.map[at];
                gap = at;
            }
        }
        self.map[gap] = 0;
    }

    fn insert(&mut self, now: Instant, client: u64) -> usize {
        let (at, found) = self.probe(client);
        debug_assert!(found.is_none(), "a client has one session");
        let session = Session {
            client,
            used: true,
            active: now,
            newer: NONE,
            older: NONE,
            pending: 0,
            places: [SessionEntry::default(); PLACES],
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.list[index as usize] = session;
                index as usize
            }
            None => {
                self.list.push(session);
                self.list.len() - 1
            }
        };
        self.map[at] = index as u32 + 1;
        self.link_newest(index);
        index
    }

    /// Looks up what is recorded about a request.
    pub fn look_up(&self, client: u64, request: u64) -> Seen {
        let Some(index) = self.probe(client).1 else { return Seen::Never };
        let place = &self.list[index].places[(request % SESSION_WINDOW) as usize];
        if place.request == request {
            Seen::Recorded { status: place.status, version: place.version }
        } else if place.request > request || place.pending > request {
            Seen::Superseded
        } else if place.pending == request {
            Seen::Pending
        } else {
            Seen::Never
        }
    }

    /// Makes sure that the client has a session, or says why it gets none.
    pub fn admit(&mut self, now: Instant, client: u64) -> Result<(), NotAdmitted> {
        if let (_, Some(index)) = self.probe(client) {
            self.touch(now, index);
            return Ok(());
        }
        if self.has_horizon && client <= self.horizon {
            return Err(NotAdmitted::Forgotten { horizon: self.horizon });
        }
        while self.count() >= self.limit {
            let oldest = &self.list[self.oldest as usize];
            if oldest.pending > 0 || now.saturating_since(oldest.active) <= self.idle {
                return Err(NotAdmitted::Full);
            }
            self.forget(self.oldest as usize);
        }
        self.insert(now, client);
        Ok(())
    }

    /// Drops the session of a client that has left.
    pub fn leave(&mut self, client: u64) {
        if let (_, Some(index)) = self.probe(client)
            && self.has_horizon
            && self.list[index].pending == 0
        {
            self.forget(index);
        }
    }

    fn forget(&mut self, index: usize) {
        if self.has_horizon {
            self.horizon = self.horizon.max(self.list[index].client);
        }
        self.evict(index);
    }

    /// Notes that the request is undecided in this node's window.
    ///
    /// # Panics
    /// If the client has no session; call [`Sessions::admit`] first.
    pub fn mark_pending(&mut self, client: u64, request: u64) {
        let index = self.probe(client).1.expect("a client is admitted first");
        let session = &mut self.list[index];
        let place = &mut session.places[(request % SESSION_WINDOW) as usize];
        session.pending += u32::from(place.pending == 0);
        place.pending = request;
    }

    /// Notes that the request has left this node's window.
    pub fn clear_pending(&mut self, client: u64, request: u64) {
        if let (_, Some(index)) = self.probe(client) {
            self.clear_pending_at(index, request);
        }
    }

    fn clear_pending_at(&mut self, index: usize, request: u64) {
        let session = &mut self.list[index];
        let place = &mut session.places[(request % SESSION_WINDOW) as usize];
        if place.pending == request {
            place.pending = 0;
            session.pending -= 1;
        }
    }

    fn open(&mut self, now: Instant, client: u64) -> usize {
        match self.probe(client) {
            (_, Some(index)) => {
                self.touch(now, index);
                index
            }
            (_, None) => {
                if self.count() == self.capacity {
                    self.evict_silent();
                }
                self.insert(now, client)
            }
        }
    }

    fn evict_silent(&mut self) {
        let mut index = self.oldest;
        // A session with undecided requests is kept. The window is smaller than the table, so some session has
        // none.
        while self.list[index as usize].pending > 0 {
            index = self.list[index as usize].newer;
        }
        self.forced_evictions += 1;
        self.forget(index as usize);
    }

    /// Records the outcome of a request that was applied.
    pub fn record(&mut self, now: Instant, client: u64, request: u64, status: Status, version: u64) {
        let index = self.open(now, client);
        self.clear_pending_at(index, request);
        let place = &mut self.list[index].places[(request % SESSION_WINDOW) as usize];
        if place.request < request {
            (place.request, place.status, place.version) = (request, status, version);
        }
    }

    /// Number of positions that [`Sessions::export`] can return.
    pub fn places(&self) -> u32 {
        self.list.len() as u32 + u32::from(self.horizon > 0)
    }

    /// The session at a position, encoded, if the position is in use.
    pub fn export(&self, place: u32) -> Option<[u8; SESSION_BYTES]> {
        let mut bytes = [0; SESSION_BYTES];
        let Some(session) = self.list.get(place as usize) else {
            put(&mut bytes, 8, self.horizon.to_be_bytes());
            return Some(bytes);
        };
        put(&mut bytes, 0, session.client.to_be_bytes());
        for (at, place) in session.places.iter().enumerate().map(|(index, place)| (8 + 24 * index, place)) {
            put(&mut bytes, at, place.request.to_be_bytes());
            put(&mut bytes, at + 8, place.version.to_be_bytes());
            bytes[at + 16] = place.status as u8;
        }
        session.used.then_some(bytes)
    }

    /// Merges a session from another node: in each slot the record with the higher request number stays.
    pub fn import(&mut self, now: Instant, bytes: &[u8; SESSION_BYTES]) -> Result<(), Malformed> {
        let client = be64(bytes, 0);
        if client == 0 && self.has_horizon {
            self.horizon = self.horizon.max(be64(bytes, 8));
            return Ok(());
        }
        for at in (0..PLACES).map(|index| 8 + 24 * index) {
            let (request, version) = (be64(bytes, at), be64(bytes, at + 8));
            let status = Status::parse_recorded(bytes[at + 16])?;
            if request != 0 {
                self.record(now, client, request, status, version);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sessions(limit: usize) -> Sessions {
        Sessions::new(&Parameters { sessions: limit, window: 1, ..Parameters::default() })
    }

    #[test]
    fn a_request_is_fresh_pending_recorded_and_superseded() {
        let mut sessions = sessions(4);
        assert_eq!(sessions.look_up(9, 3), Seen::Never);
        sessions.admit(Instant::ZERO, 9).unwrap();
        sessions.mark_pending(9, 3);
        assert_eq!(sessions.look_up(9, 3), Seen::Pending);
        sessions.record(Instant::ZERO, 9, 3, Status::Mismatch, 77);
        assert_eq!(sessions.look_up(9, 3), Seen::Recorded { status: Status::Mismatch, version: 77 });
        assert_eq!(sessions.look_up(9, 19), Seen::Never);
        sessions.record(Instant::ZERO, 9, 19, Status::Ok, 80);
        assert_eq!(sessions.look_up(9, 3), Seen::Superseded);
        // Streams of different leaders are applied in any order: an earlier request does not displace a later one.
        sessions.record(Instant::ZERO, 9, 3, Status::Mismatch, 77);
        assert_eq!(sessions.look_up(9, 19), Seen::Recorded { status: Status::Ok, version: 80 });
    }

    #[test]
    fn a_record_outlives_a_later_request_that_is_only_pending() {
        let mut sessions = sessions(4);
        sessions.record(Instant::ZERO, 9, 3, Status::Ok, 1);
        sessions.mark_pending(9, 19);
        sessions.clear_pending(9, 19);
        assert_eq!(sessions.look_up(9, 3), Seen::Recorded { status: Status::Ok, version: 1 });
        assert_eq!(sessions.look_up(9, 19), Seen::Never);
    }

    #[test]
    fn only_idle_clients_make_room() {
        let mut sessions = sessions(2);
        let late = Instant::ZERO + Duration::from_secs(61);
        sessions.admit(Instant::ZERO, 1).unwrap();
        sessions.admit(Instant::ZERO, 2).unwrap();
        assert_eq!(sessions.admit(Instant::ZERO + Duration::from_secs(59), 3), Err(NotAdmitted::Full));
        sessions.record(late, 1, 1, Status::Ok, 1);
        sessions.admit(late, 3).expect("client 2 was silent");
        assert_eq!(sessions.admit(late, 4), Err(NotAdmitted::Full));
        assert_eq!(sessions.look_up(1, 1), Seen::Recorded { status: Status::Ok, version: 1 });
    }

    #[test]
    fn a_client_with_something_pending_is_kept() {
        let mut sessions = sessions(1);
        sessions.admit(Instant::ZERO, 1).unwrap();
        sessions.mark_pending(1, 1);
        let late = Instant::ZERO + Duration::from_secs(100);
        assert_eq!(sessions.admit(late, 2), Err(NotAdmitted::Full));
        sessions.leave(1);
        sessions.clear_pending(1, 1);
        sessions.admit(late, 2).unwrap();
    }

    #[test]
    fn a_forgotten_client_stays_forgotten() {
        let forgotten = |horizon| Err(NotAdmitted::Forgotten { horizon });
        let mut sessions = sessions(2);
        for client in [5, 7] {
            sessions.admit(Instant::ZERO, client).unwrap();
            sessions.record(Instant::ZERO, client, 1, Status::Ok, 9);
        }
        sessions.leave(7);
        assert_eq!((sessions.count(), sessions.look_up(7, 1)), (1, Seen::Never));
        assert_eq!(sessions.admit(Instant::ZERO, 7), forgotten(7), "its request came again");
        assert_eq!(sessions.admit(Instant::ZERO, 6), forgotten(7), "nobody knows whether it is new");
        sessions.admit(Instant::ZERO, 5).expect("it is remembered");
        sessions.admit(Instant::ZERO, 8).unwrap();
        let late = Instant::ZERO + Duration::from_secs(61);
        sessions.admit(late, 9).unwrap();
        assert_eq!(sessions.admit(late, 5), forgotten(7), "it was silent");
        // A node that joins receives the horizon, and a node that clears its sessions keeps it.
        let mut joined = super::tests::sessions(2);
        for place in 0..sessions.places() {
            sessions.export(place).into_iter().for_each(|bytes| joined.import(late, &bytes).unwrap());
        }
        joined.clear();
        assert_eq!((joined.admit(late, 7), joined.count()), (forgotten(7), 0));
    }

    #[test]
    fn short_lived_clients_need_no_minute() {
        let mut sessions = sessions(2);
        for client in 1..10_000 {
            sessions.admit(Instant::ZERO, client).unwrap();
            sessions.record(Instant::ZERO, client, 1, Status::Ok, client);
            sessions.leave(client);
        }
        assert_eq!((sessions.count(), sessions.forced_evictions), (0, 0));
    }

    #[test]
    fn recording_never_fails() {
        let mut sessions = sessions(2);
        for client in 0..100 {
            sessions.record(Instant::ZERO, client, 1, Status::Ok, client);
        }
        assert_eq!(sessions.count(), 2 + 15);
        assert_eq!(sessions.forced_evictions, 83);
        assert_eq!(sessions.look_up(99, 1), Seen::Recorded { status: Status::Ok, version: 99 });
        assert_eq!(sessions.look_up(0, 1), Seen::Never);
    }

    proptest! {
        /// The map finds exactly the sessions in the list, whichever were evicted.
        #[test]
        fn the_map_agrees_with_the_list(clients in prop::collection::vec((0u64..60, 0u64..40), 1..300)) {
            let mut sessions = sessions(8);
            let mut now = Instant::ZERO;
            for (client, seconds) in clients {
                now += Duration::from_secs(seconds);
                if client % 4 == 0 {
                    sessions.leave(client);
                } else if client % 2 == 0 {
                    let _ = sessions.admit(now, client);
                } else {
                    sessions.record(now, client, 1, Status::Ok, 1);
                }
                let used = sessions.list.iter().filter(|session| session.used).count();
                prop_assert_eq!(used, sessions.count());
                prop_assert_eq!(sessions.map.iter().filter(|&&index| index != 0).count(), used);
                for (index, session) in sessions.list.iter().enumerate().filter(|(_, session)| session.used) {
                    prop_assert_eq!(sessions.probe(session.client).1, Some(index));
                }
            }
        }

        /// After a state transfer, lookups in a session give the same results as in the original.
        #[test]
        fn sessions_survive_a_transfer(requests in prop::collection::vec((1u64..64, 0u64..1000), 1..40)) {
            let (mut from, mut to) = (sessions(4), sessions(4));
            for &(request, version) in &requests {
                from.record(Instant::ZERO, 5, request, Status::Ok, version);
            }
            prop_assert_eq!(from.places(), 1);
            to.import(Instant::ZERO, &from.export(0).unwrap()).unwrap();
            for (request, _) in requests {
                prop_assert_eq!(from.look_up(5, request), to.look_up(5, request));
            }
        }
    }
}
