//! Small transactions of all kinds, over few keys.

use weft_txn::{Accesses, Context, Key, Mode, Procedure, ProcedureId, Procedures, Request, Step};

pub const ACCOUNTS: u64 = 6;
pub const BALANCE: u64 = 1_000;
const TOGGLES: u64 = 100;
const LONG: u64 = 200;
const POINTERS: u64 = 300;
const SUMS: u64 = 400;

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(value[..8].try_into().expect("eight bytes")))
}

/// A row: a balance, and unchanging text that is long enough to make a difference shorter than the row.
fn row(balance: u64, text: u8) -> Vec<u8> {
    [&balance.to_be_bytes()[..], &[text; 48]].concat()
}

/// A row that was read, with a new balance.
fn with_balance(row: Option<&[u8]>, balance: u64) -> Vec<u8> {
    [&balance.to_be_bytes()[..], row.map_or(&[][..], |row| &row[8..])].concat()
}

/// Moves the amount in the input from the first key to the second. Aborts if the first has too little.
struct Transfer {
    on_host: bool,
}

impl Procedure for Transfer {
    fn name(&self) -> &'static str {
        "transfer"
    }
    fn run(&self, context: &mut Context<'_>) -> Step {
        let amount = number(Some(context.input()));
        let (from, to) = (number(context.value(0)), number(context.value(1)));
        context.answer(&from.to_be_bytes());
        if from < amount {
            return Step::Abort(7);
        }
        let rows =
            [with_balance(context.value(0), from - amount), with_balance(context.value(1), to + amount)];
        (0..).zip(rows).for_each(|(index, row)| context.write(index, &row));
        Step::Commit
    }
    fn ship(&self) -> bool {
        !self.on_host
    }
}

/// Answers with the sum of all keys.
struct Sum;

impl Procedure for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }
    fn run(&self, context: &mut Context<'_>) -> Step {
        let values = (0..context.keys().len()).map(|index| number(context.value(index)));
        let sum = values.fold(0u64, u64::wrapping_add);
        context.answer(&sum.to_be_bytes());
        Step::Commit
    }
}

/// Inserts keys that are absent and deletes keys that are present.
struct Toggle;

impl Procedure for Toggle {
    fn name(&self) -> &'static str {
        "toggle"
    }
    fn run(&self, context: &mut Context<'_>) -> Step {
        for index in 0..context.keys().len() {
            if context.value(index).is_none() {
                let value = [context.input(), &[index as u8; 8]].concat();
                context.write(index, &value);
            } else {
                context.delete(index);
            }
        }
        Step::Commit
    }
}

/// Adds one to the key that the first key names, and writes a third key without reading it.
struct Chase;

impl Procedure for Chase {
    fn name(&self) -> &'static str {
        "chase"
    }
    fn run(&self, context: &mut Context<'_>) -> Step {
        let next = Key::from_bits(number(context.value(0))).expect("a pointer");
        let index = context.add(next, Mode::Update);
        if context.round() == 0 {
            return Step::More;
        }
        let count = number(context.value(index)).wrapping_add(1);
        context.write(index, &count.to_be_bytes());
        let blind = context.add(Key::new(next.shard(), SUMS + 7), Mode::Write);
        context.write(blind, &count.to_be_bytes());
        Step::Commit
    }
}

/// Writes the sum of all keys to the last one, which reveals write skew.
struct Sums;

impl Procedure for Sums {
    fn name(&self) -> &'static str {
        "sums"
    }
    fn run(&self, context: &mut Context<'_>) -> Step {
        let last = context.keys().len() - 1;
        let sum = (0..last).map(|index| number(context.value(index))).fold(0u64, u64::wrapping_add);
        let count = number(context.value(last));
        context.write(last, &(sum.wrapping_add(count)).to_be_bytes());
        Step::Commit
    }
}

/// Writes long values.
struct Long;

impl Procedure for Long {
    fn name(&self) -> &'static str {
        "long"
    }
    fn run(&self, context: &mut Context<'_>) -> Step {
        for index in 0..context.keys().len() {
            let value = vec![context.input()[index % 8]; 300 + 100 * index];
            context.write(index, &value);
        }
        Step::Commit
    }
}

/// Another procedure, which must stay on the host.
struct OnHost<P>(P);

impl<P: Procedure> Procedure for OnHost<P> {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn run(&self, context: &mut Context<'_>) -> Step {
        self.0.run(context)
    }
    fn ship(&self) -> bool {
        false
    }
}

/// Number of the first procedure that stays on the host.
const ON_HOST: u16 = 7;

pub fn procedures() -> Procedures {
    Procedures::new(vec![
        Box::new(Transfer { on_host: false }),
        Box::new(Sum),
        Box::new(Toggle),
        Box::new(Chase),
        Box::new(Transfer { on_host: true }),
        Box::new(Sums),
        Box::new(Long),
        Box::new(OnHost(Transfer { on_host: true })),
        Box::new(OnHost(Sum)),
        Box::new(OnHost(Toggle)),
        Box::new(OnHost(Chase)),
        Box::new(OnHost(Transfer { on_host: true })),
        Box::new(OnHost(Sums)),
        Box::new(OnHost(Long)),
    ])
}

pub const SUM: ProcedureId = ProcedureId(1);

pub fn accounts(nodes: usize) -> impl Iterator<Item = Key> {
    (0..nodes).flat_map(|shard| (0..ACCOUNTS).map(move |local| Key::new(shard, local)))
}

/// All objects that are loaded at the start.
pub fn load(nodes: usize) -> impl Iterator<Item = (Key, Vec<u8>)> {
    let pointers = (0..nodes).map(move |shard| {
        let to = Key::new((shard + 1) % nodes, SUMS + 5);
        (Key::new(shard, POINTERS), to.bits().to_be_bytes().to_vec())
    });
    accounts(nodes).map(|key| (key, row(BALANCE, key.local() as u8))).chain(pointers)
}

pub fn sum_of_all(nodes: usize) -> Request {
    request(SUM, b"", accounts(nodes).map(|key| (key, Mode::Read)))
}

/// Reads all accounts, and writes their sum to an absent object of this shard.
pub fn sum_into_absent(nodes: usize, shard: usize) -> Request {
    let keys = accounts(nodes).map(|key| (key, Mode::Read));
    request(ProcedureId(5), b"", keys.chain([(Key::new(shard, SUMS), Mode::Update)]))
}

/// Writes `keys` long values of a shard: of 300 bytes, 400 bytes, and so on.
pub fn long(shard: usize, keys: u64) -> Request {
    request(ProcedureId(6), &[1; 8], (0..keys).map(|index| (Key::new(shard, LONG + index), Mode::Write)))
}

/// Inserts these keys if they are absent, and deletes them if they are present. `on_host`: by the procedure
/// that stays on the host.
pub fn toggle(keys: &[Key], on_host: bool) -> Request {
    let procedure = ProcedureId(if on_host { 2 + ON_HOST } else { 2 });
    request(procedure, &[3; 8], keys.iter().map(|&key| (key, Mode::Update)))
}

/// Moves money between two accounts, which may be in different shards.
pub fn transfer(from: Key, to: Key) -> Request {
    request(ProcedureId(0), &1u64.to_be_bytes(), [(from, Mode::Update), (to, Mode::Update)])
}

/// Writes a value of 300 bytes to a key.
pub fn long_at(key: Key) -> Request {
    request(ProcedureId(6), &[1; 8], [(key, Mode::Write)])
}

/// Reads all accounts of a shard.
pub fn sum_of_shard(shard: usize) -> Request {
    request(SUM, b"", (0..ACCOUNTS).map(|local| (Key::new(shard, local), Mode::Read)))
}

fn request(procedure: ProcedureId, input: &[u8], keys: impl IntoIterator<Item = (Key, Mode)>) -> Request {
    let mut accesses = Accesses::default();
    for (key, mode) in keys {
        accesses.add(key, mode).expect("few keys");
    }
    Request { procedure, input: input.to_vec(), accesses }
}

/// A random transaction whose procedure stays on the host. Most of them have only keys of the node's own
/// shard.
pub fn random_on_host(nodes: usize, node: usize, mut random: impl FnMut(u64) -> u64) -> Request {
    let request = self::random(nodes, node, &mut random);
    let own = random(4) > 0;
    let place = |key: Key| if own { Key::new(node, key.local()) } else { key };
    let keys = request.accesses.as_slice().iter().map(|access| (place(access.key), access.mode));
    let distinct: std::collections::BTreeSet<Key> = keys.clone().map(|(key, _)| key).collect();
    let procedure = ProcedureId(request.procedure.0 + ON_HOST);
    if distinct.len() < request.accesses.as_slice().len() && request.procedure != SUM {
        // Two keys are now equal.
        return Request { procedure, ..request };
    }
    self::request(procedure, &request.input, keys)
}

/// A transaction of a random kind, called at `node`.
pub fn random(nodes: usize, node: usize, mut random: impl FnMut(u64) -> u64) -> Request {
    // Half of the keys are in the node's own shard, so that all paths of the protocol are taken.
    let shard = |random: &mut dyn FnMut(u64) -> u64| {
        if random(2) == 0 { node } else { random(nodes as u64) as usize }
    };
    let account = |random: &mut dyn FnMut(u64) -> u64| Key::new(shard(random), random(ACCOUNTS));
    let random = &mut random as &mut dyn FnMut(u64) -> u64;
    match random(10) {
        kind @ 0..4 => {
            let from = account(random);
            let mut to = account(random);
            while to == from {
                to = account(random);
            }
            let amount = random(300).to_be_bytes();
            let procedure = ProcedureId(if kind == 3 { 4 } else { 0 });
            request(procedure, &amount, [(from, Mode::Update), (to, Mode::Update)])
        }
        4 => sum_of_all(nodes),
        5 if random(2) == 0 => {
            // All long values of a shard, which exceed one message.
            let shard = shard(random);
            request(SUM, b"", (0..5).map(|index| (Key::new(shard, LONG + index), Mode::Read)))
        }
        5 => {
            let count = 1 + random(3);
            request(SUM, b"", (0..count).map(|_| (account(random), Mode::Read)))
        }
        6 => {
            let count = 1 + random(3);
            let input = random(u64::MAX).to_be_bytes();
            request(
                ProcedureId(2),
                &input,
                (0..count).map(|_| (Key::new(shard(random), TOGGLES + random(3)), Mode::Update)),
            )
        }
        7 => request(ProcedureId(3), b"", [(Key::new(shard(random), POINTERS), Mode::Read)]),
        8 => {
            let keys = [0, 1, 2].map(|_| (Key::new(shard(random), SUMS + random(3)), Mode::Read));
            let last = Key::new(shard(random), SUMS + random(3));
            let others = keys.into_iter().filter(|(key, _)| *key != last);
            request(ProcedureId(5), b"", others.chain([(last, Mode::Update)]))
        }
        _ => {
            let count = 1 + random(5);
            let input = random(u64::MAX).to_be_bytes();
            request(
                ProcedureId(6),
                &input,
                (0..count).map(|index| (Key::new(shard(random), LONG + index), Mode::Write)),
            )
        }
    }
}
