//! The host halves of rounds and of transactions, with a card that only records its commands.

use weft_cluster::Incarnation;
use weft_nic::HostCommand;
use weft_node::{
    CardPort, HostHalf, HostIo, Ledger, RoundsHalf, RoundsPauses, SessionHalf, TransactionHalf,
    TransactionSizes, found,
};
use weft_rounds::client::{Client, Outcome, Task};
use weft_rounds::message::{Call, Proposal, Value};
use weft_rounds::{ClientServerParameters, Position};
use weft_session::{Body, ClientHalf, ClientParameters, Ended, Verdict};
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, EngineState, EngineStatus, Epoch, NodeId, NodeSet, View};

const SLOT: u8 = 0;
const PAUSES: RoundsPauses =
    RoundsPauses { start_after: Duration::from_ms(5), return_after: Duration::from_ms(2) };

/// A card that records commands.
#[derive(Debug, Default)]
struct Card {
    calls: Vec<u8>,
    tokens: Vec<u32>,
    views: Vec<View>,
    resets: u32,
    memory: Vec<u8>,
    answers: Vec<(u8, Vec<u8>)>,
}

impl CardPort for Card {
    fn submit(&mut self, command: HostCommand<'_>) {
        match command {
            HostCommand::Call { kind, token, .. } => {
                self.calls.push(kind);
                self.tokens.push(token);
            }
            HostCommand::Configure { configuration, .. } => self.views.push(configuration.view),
            HostCommand::Reset { .. } => self.resets += 1,
            HostCommand::Respond { kind, payload, .. } => self.answers.push((kind, payload.to_vec())),
            other => panic!("a half has no reason for {other:?}"),
        }
    }

    fn host_memory(&mut self) -> &mut Vec<u8> {
        &mut self.memory
    }
}

fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// The configuration of a node in a view of three nodes, of which those in `joining` are joining.
fn configuration(index: usize, epoch: u32, joining: NodeSet) -> Configuration {
    let full = NodeSet::first(3).minus(joining);
    let view = View { epoch: Epoch(epoch), full, joining };
    Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE }
}

/// The half of rounds at a node, with its card.
struct Rounds {
    half: RoundsHalf,
    card: Card,
}

impl Rounds {
    fn new() -> Self {
        let parameters = ClientServerParameters {
            first_session: 1,
            clients: 4,
            value_bytes: 64,
            kept: 16,
            answer_bytes: 256,
        };
        Self { half: RoundsHalf::new(3, parameters, PAUSES), card: Card::default() }
    }

    fn configure(&mut self, now: Instant, configuration: &Configuration) {
        self.half.configure(now, configuration, &mut HostIo::new(SLOT, &mut self.card));
    }

    /// Handles expired deadlines; returns the kinds of the calls that this makes.
    fn wake(&mut self, now: Instant) -> Vec<u8> {
        self.card.calls.clear();
        self.half.handle_deadline(now);
        self.half.settle(now, &mut HostIo::new(SLOT, &mut self.card));
        self.card.calls.clone()
    }
}

#[test]
fn the_lowest_founder_starts_the_rounds_when_all_have_been_told() {
    for index in 0..3 {
        let mut rounds = Rounds::new();
        let first = configuration(index, 1, NodeSet::EMPTY);
        rounds.configure(at_us(0), &first);
        assert_eq!(rounds.card.calls, [Call::Subscribe as u8]);
        assert_eq!(rounds.card.views, [first.view]);
        let starts = at_us(5_000);
        assert_eq!(rounds.half.next_deadline(), (index == 0).then_some(starts));
        assert_eq!(rounds.wake(at_us(4_999)), [], "not before its time");
        assert_eq!(rounds.wake(starts), [Call::Start as u8][usize::from(index > 0)..]);
        assert_eq!(rounds.wake(at_us(9_000)), [], "once");
    }
}

#[test]
fn a_node_that_comes_later_asks_the_members_to_let_it_in() {
    let mut rounds = Rounds::new();
    let own = NodeSet::EMPTY.with(node(1));
    let told = configuration(1, 7, own);
    rounds.configure(at_us(0), &told);
    assert_eq!(rounds.card.views, [told.view]);
    assert_eq!(rounds.half.next_deadline(), None, "it starts nothing");
    // Later views are not passed to the engine.
    rounds.configure(at_us(10), &configuration(1, 8, NodeSet::EMPTY));
    assert_eq!(rounds.card.views.len(), 1);
}

/// The service may see only this node, while the others go on without it.
#[test]
fn a_node_that_is_alone_in_its_view_asks_all_others() {
    let mut rounds = Rounds::new();
    let own = NodeSet::EMPTY.with(node(1));
    let view = View { epoch: Epoch(4), full: NodeSet::EMPTY, joining: own };
    rounds.configure(at_us(0), &Configuration { view, ..configuration(1, 4, own) });
    assert_eq!(rounds.card.views, [View { full: NodeSet::first(3).without(node(1)), ..view }]);
}

#[test]
fn a_node_that_was_left_out_asks_again_after_a_pause_in_an_epoch_of_its_own() {
    let mut rounds = Rounds::new();
    rounds.configure(at_us(0), &configuration(1, 1, NodeSet::EMPTY));
    for epoch in [2, 3] {
        let lost = EngineStatus { epoch: Epoch(1), state: EngineState::Lost };
        rounds.half.status(at_us(100), lost, &mut HostIo::new(SLOT, &mut rounds.card));
        assert_eq!(rounds.half.next_deadline(), Some(at_us(2_100)));
        assert_eq!(rounds.wake(at_us(2_100)), []);
        let own = NodeSet::EMPTY.with(node(1));
        let asked = View { epoch: Epoch(epoch), full: NodeSet::first(3).without(node(1)), joining: own };
        assert_eq!(rounds.card.views.last(), Some(&asked));
    }
}

/// Lets the engine report a decision to its host half.
fn decide(rounds: &mut Rounds, instance: u64) {
    let value = Value { instance, proposer: 2, proposal: Proposal { change: false, bytes: b"decided" } };
    let payload = [&value.header()[..], b"decided"].concat();
    let decided = (Call::Decided as u8, &payload[..]);
    // Notifications of a subscriber have the token of calls whose reply is ignored.
    rounds.half.replied(at_us(5), 0, decided, &mut HostIo::new(SLOT, &mut rounds.card));
}

/// What a new client reads after this position: whether the node has forgotten decisions, and the instances of the
/// others.
fn read(rounds: &mut Rounds, after: Option<Position>) -> (bool, Vec<u64>) {
    let address = "127.0.0.1:9".parse().unwrap();
    let identity = after.map_or(1, |(instance, _)| instance + 1);
    let mut client = Client::new(ClientParameters::new(identity, 1));
    client.start(at_us(10), Task::Read(after)).unwrap();
    for step in 0..8 {
        let now = at_us(10 + step);
        let mut request = Vec::new();
        while let Some((_, kind)) = client.poll_transmit(&mut request) {
            let io = &mut HostIo::new(SLOT, &mut rounds.card);
            rounds.half.requested(now, address, (kind, &request), true, io);
            request.clear();
        }
        rounds.half.settle(now, &mut HostIo::new(SLOT, &mut rounds.card));
        for (kind, answer) in std::mem::take(&mut rounds.card.answers) {
            let Some((_, outcome)) = client.receive(now, 0, (kind, &answer)) else { continue };
            let Outcome::Decisions(decisions) = outcome else { panic!("{outcome:?}") };
            assert!(decisions.iter().all(|one| (one.place.1, one.proposal) == (2, b"decided")));
            return (decisions.forgotten, decisions.iter().map(|one| one.place.0).collect());
        }
    }
    panic!("a client that reads is answered");
}

#[test]
fn what_is_decided_is_told_to_clients() {
    let mut rounds = Rounds::new();
    rounds.configure(at_us(0), &configuration(0, 1, NodeSet::EMPTY));
    decide(&mut rounds, 3);
    assert_eq!(read(&mut rounds, None), (false, vec![3]));
}

#[test]
fn clients_are_told_that_a_node_which_was_left_out_has_missed_decisions() {
    let mut rounds = Rounds::new();
    rounds.configure(at_us(0), &configuration(0, 1, NodeSet::EMPTY));
    decide(&mut rounds, 3);
    let lost = EngineStatus { epoch: Epoch(1), state: EngineState::Lost };
    rounds.half.status(at_us(6), lost, &mut HostIo::new(SLOT, &mut rounds.card));
    rounds.wake(at_us(2_006));
    decide(&mut rounds, 50);
    assert_eq!(read(&mut rounds, None), (false, vec![3]));
    assert_eq!(read(&mut rounds, Some((3, 2))), (true, vec![50]));

    let mut late = Rounds::new();
    late.configure(at_us(0), &configuration(1, 7, NodeSet::EMPTY.with(node(1))));
    decide(&mut late, 50);
    assert_eq!(read(&mut late, None), (true, vec![50]));
}

/// The half of transactions with the initial objects of a founder, and its card.
fn transactions() -> (TransactionHalf, Card) {
    let sizes = TransactionSizes { nodes: 3, replicas: 3, message_bytes: 1_400, record: false };
    let (_, _, half, memory) = found(node(1), 1, (&Ledger::new(8), &sizes), None);
    assert!(memory.iter().any(|byte| *byte != 0), "a founder has the accounts");
    (half, Card { memory, ..Card::default() })
}

#[test]
fn a_founder_keeps_its_tables_and_a_later_member_empties_them() {
    let joins = NodeSet::EMPTY.with(node(1));
    for (epoch, joining, keeps) in
        [(1, NodeSet::EMPTY, true), (1, joins, false), (2, NodeSet::EMPTY, false), (2, joins, false)]
    {
        let (mut half, mut card) = transactions();
        let told = configuration(1, epoch, joining);
        half.configure(at_us(0), &told, &mut HostIo::new(SLOT, &mut card));
        assert_eq!(card.memory.iter().any(|byte| *byte != 0), keeps, "epoch {epoch}, {joining:?}");
        assert_eq!(card.resets, u32::from(!keeps));
        // From now on the data stays, whatever views follow.
        card.memory.fill(1);
        half.configure(at_us(1), &configuration(1, 9, NodeSet::EMPTY), &mut HostIo::new(SLOT, &mut card));
        assert!(card.memory.iter().all(|byte| *byte == 1));
        assert_eq!(card.resets, u32::from(!keeps));
    }
}

#[test]
fn a_next_life_of_transactions_begins_with_nothing() {
    let (mut half, mut card) = transactions();
    half.rejoin(at_us(0), Incarnation::FIRST, &mut HostIo::new(SLOT, &mut card));
    assert!(card.memory.iter().all(|byte| *byte == 0));
    assert_eq!(half.sessions().map(|(clients, _)| clients), Some(0));
}

#[test]
fn halves_know_how_many_clients_they_remember() {
    let sessions = SessionHalf::new(1, &[1]);
    let (transactions, _) = transactions();
    for counted in [sessions.sessions(), transactions.sessions()] {
        assert!(matches!(counted, Some((0, 1_000..))), "{counted:?}");
    }
}

#[test]
fn a_call_in_a_session_reaches_the_engine_once_and_its_answer_the_client() {
    const CALL: u8 = 5;
    let mut half = SessionHalf::new(1, &[CALL]);
    let mut card = Card::default();
    let mut client = weft_session::Client::new(ClientParameters::new(77, 1));
    client.start(at_us(0), None, Body { kind: CALL, bytes: b"call" }).unwrap();
    let address = "127.0.0.1:9".parse().unwrap();
    for step in 0..8 {
        let now = at_us(step);
        let mut request = Vec::new();
        while let Some((_, kind)) = client.poll_transmit(&mut request) {
            // The network delivers each message twice.
            for _ in 0..2 {
                half.requested(now, address, (kind, &request), true, &mut HostIo::new(SLOT, &mut card));
            }
            request.clear();
        }
        for token in std::mem::take(&mut card.tokens) {
            half.replied(now, token, (6, b"answer"), &mut HostIo::new(SLOT, &mut card));
        }
        half.settle(now, &mut HostIo::new(SLOT, &mut card));
        for (kind, answer) in std::mem::take(&mut card.answers) {
            let Some(ended) = client.receive(now, 0, (kind, &answer), |_| Verdict::Final).unwrap() else {
                continue;
            };
            assert_eq!(ended.ended, Ended::Answer(Body { kind: 6, bytes: b"answer" }));
            assert_eq!(card.calls, [CALL]);
            return;
        }
    }
    panic!("a client that calls is answered");
}
