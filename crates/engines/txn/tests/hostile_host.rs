//! A card accepts a transaction that its host has executed only if the host was allowed to execute it. Other
//! messages of the host do no harm, nor do messages of a card to a host without a table.

use proptest::collection::vec;
use proptest::prelude::*;
use weft_time::Instant;
use weft_txn::host::{Half, HalfParameters, Local};
use weft_txn::host_port::{HostKind, HostMessage};
use weft_txn::message::{Claim, Got, Kind, Put, Status, Want, write_list};
use weft_txn::store::{IndexParameters, Precision, Shape};
use weft_txn::{
    Access, Accesses, Context, Key, Mode, Parameters, Placement, Procedure, ProcedureId, Procedures, Request,
    Step, Transactions, Version,
};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

/// A procedure that stays on the host.
struct OnHost;

impl Procedure for OnHost {
    fn name(&self) -> &'static str {
        "on host"
    }

    fn run(&self, _: &mut Context<'_>) -> Step {
        Step::Commit
    }

    fn ship(&self) -> bool {
        false
    }
}

fn procedures() -> Procedures {
    Procedures::new(vec![Box::new(OnHost)])
}

/// The card of node 0 of three nodes, which is the primary of shard 0.
struct Card {
    engine: Transactions,
    memory: Memory,
    effects: Effects,
}

impl Card {
    fn new() -> Self {
        let shape = Shape {
            slots: 128,
            segment_slots: 4,
            displacement: Some(8),
            slot_bytes: 64,
            pages: 64,
            page_slots: 4,
            blocks: 128,
            value_bytes_max: 1024,
        };
        let index =
            IndexParameters { precision: Precision::Runs, ahead: 0, entries: 16, value_bytes_max: 1024 };
        let parameters = Parameters { window: 16, log_bytes: 1 << 16, ..Parameters::new(3, 2) };
        let placement = Placement::Card { shape, index, table_address: 1 << 16 };
        let memory = Memory::new(Transactions::memory_bytes(&parameters, &placement));
        let engine = Transactions::new(parameters, procedures(), placement);
        let mut card = Self { engine, memory, effects: Effects::default() };
        let view = View { epoch: Epoch(1), full: NodeSet::first(3), joining: NodeSet::EMPTY };
        let node = NodeId::new(0).expect("a node");
        card.handle(Event::Configure(Configuration { node, view, lease_until: Instant::FAR_FUTURE }));
        card
    }

    fn handle(&mut self, event: Event<'_>) {
        self.effects.clear();
        let mut io = Io { effects: &mut self.effects, memory: &mut self.memory };
        self.engine.handle(Instant::ZERO, event, &mut io);
    }

    /// The card handles the host's report. Returns the outcome, if the attempt ends at once, and whether the
    /// card sends LOG.
    fn executed(&mut self, said: &Said) -> (Option<Status>, bool) {
        let payload = said.encode();
        let message = Message { kind: HostKind::Local as u8, payload: &payload };
        self.handle(Event::Call { caller: Caller::Host(1), message, last: true });
        let (mut ended, mut logged) = (None, false);
        for effect in self.effects.iter() {
            match effect {
                Effect::Reply { kind, payload, .. } => {
                    let message = self.effects.message(*kind, payload);
                    if let Ok(HostMessage::Outcome { status, .. }) =
                        HostMessage::parse(*kind, message.payload)
                    {
                        ended = Some(status);
                    }
                }
                Effect::Send { kind, .. } => logged |= *kind == Kind::Log as u8,
                _ => {}
            }
        }
        (ended, logged)
    }
}

/// A host's report of a transaction that it has executed.
#[derive(Clone, Debug)]
struct Said {
    applied: u64,
    step: [u8; 2],
    claims: Vec<(Key, Mode, u64)>,
    writes: Vec<(Key, Option<Vec<u8>>)>,
    answer: Vec<u8>,
    read: Vec<(u8, Option<Vec<u8>>)>,
}

impl Said {
    /// The report of a transaction that reads an absent object and writes it.
    fn writing(key: Key) -> Self {
        Self {
            applied: 0,
            step: [0, 0],
            claims: vec![(key, Mode::Update, 0)],
            writes: vec![(key, Some(vec![7]))],
            answer: Vec::new(),
            read: Vec::new(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = self.applied.to_be_bytes().to_vec();
        out.extend_from_slice(&self.step);
        let claims = (0u8..).zip(&self.claims).map(|(index, &(key, mode, version))| Claim {
            want: Want { index, access: Access { key, mode } },
            version: Version::from_bits(version),
        });
        write_list(&mut out, claims);
        let put = |(key, value): &(Key, Option<Vec<u8>>)| (*key, value.clone());
        let puts: Vec<_> = self.writes.iter().map(put).collect();
        let version = Version::ZERO;
        write_list(
            &mut out,
            puts.iter().map(|(key, value)| Put { key: *key, version, value: value.as_deref() }),
        );
        out.extend_from_slice(&(self.answer.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.answer);
        let got = self.read.iter().map(|(index, value)| Got {
            index: *index,
            read: version,
            new: version,
            value: value.as_deref(),
        });
        write_list(&mut out, got);
        out
    }
}

fn said() -> impl Strategy<Value = Said> {
    let shard = prop_oneof![4 => Just(0), 1 => 1usize..16];
    let key = move || (shard.clone(), 0u64..6).prop_map(|(shard, local)| Key::new(shard, local));
    let mode = prop_oneof![Just(Mode::Read), Just(Mode::Update), Just(Mode::Write)];
    let value = || proptest::option::of(vec(any::<u8>(), 0..1_100));
    let version = prop_oneof![3 => Just(0), 1 => any::<u64>()];
    let applied = prop_oneof![3 => Just(0), 1 => any::<u64>()];
    (
        (applied, 0u8..3, any::<u8>()),
        vec((key(), mode, version), 0..70),
        vec((key(), value()), 0..8),
        vec(any::<u8>(), 0..80),
        vec((0u8..8, value()), 0..8),
    )
        .prop_map(|((applied, step, reason), claims, writes, answer, read)| Said {
            applied,
            step: [step, reason],
            claims,
            writes,
            answer,
            read,
        })
}

proptest! {
    #[test]
    fn a_card_survives_what_its_host_says_to_have_executed(all in vec(said(), 1..20)) {
        let mut card = Card::new();
        for said in all {
            let elsewhere = said.claims.iter().any(|(key, ..)| key.shard() != 0);
            let (_, logged) = card.executed(&said);
            prop_assert!(!(logged && elsewhere), "it is not this node's to change: {:?}", said);
        }
    }
}

#[test]
fn only_own_keys_that_nobody_holds_are_written() {
    let mut card = Card::new();
    let (own, foreign) = (Key::new(0, 1), Key::new(1, 1));
    assert_eq!(card.executed(&Said::writing(own)), (None, true));
    assert_eq!(card.executed(&Said::writing(own)), (Some(Status::Conflict), false), "it is locked");
    assert_eq!(card.executed(&Said::writing(foreign)), (Some(Status::Conflict), false));
    let other = Key::new(0, 2);
    let unclaimed = Said { writes: vec![(other, None)], ..Said::writing(Key::new(0, 3)) };
    let only_read = Said { claims: vec![(other, Mode::Read, 0)], ..Said::writing(other) };
    let twice = Said { claims: vec![(other, Mode::Update, 0); 2], ..Said::writing(other) };
    let too_many = Said {
        claims: (0..65).map(|local| (Key::new(0, local), Mode::Read, 0)).collect(),
        ..Said::writing(other)
    };
    let goes_on = Said { step: [1, 0], ..Said::writing(other) };
    for wrong in [unclaimed, only_read, twice, too_many, goes_on] {
        assert_eq!(card.executed(&wrong), (Some(Status::Faulty), false), "{wrong:?}");
    }
    let stale = Said { claims: vec![(other, Mode::Update, 99)], applied: 0, ..Said::writing(other) };
    let _ = card.executed(&stale);
    assert!(card.executed(&Said::writing(Key::new(0, 4))).1, "what was wrong holds nothing");
}

/// A host without a table executes nothing alone, whatever its card reports.
#[test]
fn a_host_without_a_table_executes_nothing_by_itself() {
    let parameters = HalfParameters { local: Local::All, ..HalfParameters::default() };
    let mut half = Half::new(procedures(), parameters, None);
    let kind = HostKind::Serves as u8;
    assert!(half.receive(Instant::ZERO, 0, kind, &[0xff, 0xff], &mut []).is_err());
    assert!(half.receive(Instant::ZERO, 0, kind, &[0xff], &mut []).is_err());
    let mut accesses = Accesses::default();
    accesses.add(Key::new(0, 1), Mode::Update).expect("the first key");
    half.call(Request { procedure: ProcedureId(0), input: Vec::new(), accesses });
    assert_eq!(half.poll_card(&[]).expect("the card is asked").kind, HostKind::Begin as u8);
}
