//! Smallbank: short transactions on bank accounts (Alomari, Cahill, Fekete and Röhm, "The cost of serializability on
//! platforms that use snapshot isolation", ICDE 2008), with the sizes of Xenic (5.5).
//!
//! Each account has a savings balance and a checking balance of four bytes each. A balance and its key of eight bytes
//! are Xenic's object of 12 bytes. The mix and the amounts are those of H-Store and FaSST. Amounts are in cents. An
//! account is on one shard; the accounts of a transaction can be on any shards.
//!
//! Two errors of the public implementations are corrected: amalgamate moves both balances of one customer into the
//! checking account of the other, and a check that overdraws the account costs a dollar more as a penalty (Alomari et
//! al., section 2). Every answer contains the change of the sum of all balances, so that the sum can be audited to the
//! cent.

use weft_txn::{Accesses, Context, Key, Mode, Outcome, Procedure, ProcedureId, Procedures, Request, Step};

use super::input::{Reader, Writer};
use super::{Audit, Call, Client, Repeating, Workload, random_of_client};

/// Accounts of each server in Xenic's evaluation (5.5).
pub const ACCOUNTS: u64 = 2_400_000;

/// This share of the transactions, in per cent, accesses hot accounts only; and this share of the accounts, in per
/// cent, is hot (5.5).
const HOT_ACCESSES: u64 = 90;
const HOT_ACCOUNTS: u64 = 4;

/// Reason of an abort: an account does not exist.
pub const NO_ACCOUNT: u8 = 1;
/// Reason of an abort: the sender's checking account does not cover a payment.
pub const NOT_COVERED: u8 = 2;
/// Reason of an abort: a balance would not fit into four bytes any more.
pub const OVERFLOW: u8 = 3;

/// Amounts of the transactions in cents.
const DEPOSIT: i64 = 130;
const PAYMENT: i64 = 500;
const SAVING: i64 = 2_020;
const CHECK: i64 = 500;
const PENALTY: i64 = 100;
const BALANCE_LEAST: u64 = 1_000_000;
const BALANCE_MOST: u64 = 5_000_000;

const SAVINGS: u64 = 1;
const CHECKING: u64 = 2;

const KINDS: [&str; 6] =
    ["amalgamate", "balance", "deposit-checking", "send-payment", "transact-savings", "write-check"];
/// Shares of the transactions in per cent, in the order of the kinds.
const MIX: [u64; 6] = [15, 15, 15, 25, 15, 15];

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct Smallbank {
    shards: u64,
    accounts: u64,
}

impl Smallbank {
    /// The workload on `shards` servers with `accounts` accounts each ([`ACCOUNTS`] in the paper).
    ///
    /// # Panics
    /// If there are fewer than two accounts in all, or more than 2^47 on a server.
    pub fn new(shards: usize, accounts: u64) -> Self {
        assert!(
            shards as u64 * accounts >= 2 && accounts < 1 << 47,
            "{shards} shards with {accounts} accounts"
        );
        Self { shards: shards as u64, accounts }
    }

    fn key(&self, table: u64, account: u64) -> Key {
        Key::new((account / self.accounts) as usize, (table << 48) | (account % self.accounts))
    }

    /// Number of hot accounts of each shard: its first accounts.
    fn hot(&self) -> u64 {
        (self.accounts * HOT_ACCOUNTS / 100).max(1)
    }

    fn balance(&self, shard: usize, table: u64, account: u64) -> i64 {
        // Any deterministic spread of initial balances will do: FNV-1a over the key.
        let bytes = (Key::new(shard, table << 48 | account)).bits().to_le_bytes();
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        (BALANCE_LEAST + (hash >> 16) % (BALANCE_MOST - BALANCE_LEAST + 1)) as i64
    }
}

impl Workload for Smallbank {
    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn procedures(&self) -> Procedures {
        let all: [Change; 6] =
            [amalgamate, balance, deposit_checking, send_payment, transact_savings, write_check];
        let named = KINDS.iter().zip(all);
        Procedures::new(
            named.map(|(name, run)| Box::new(Banking { name, run }) as Box<dyn Procedure>).collect(),
        )
    }

    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8])) {
        for account in 0..self.accounts {
            for table in [SAVINGS, CHECKING] {
                let balance = self.balance(shard, table, account) as i32;
                put(Key::new(shard, table << 48 | account), &balance.to_le_bytes());
            }
        }
    }

    fn client(&self, node: usize, lane: u32, seed: u64) -> Box<dyn Client> {
        let mut random = random_of_client(node, lane, seed);
        let bank = *self;
        Box::new(Repeating::new(move |_: Option<&Outcome>| {
            let mut share = random.below(100);
            let kind =
                MIX.iter().position(|&part| share.checked_sub(part).map(|rest| share = rest).is_none());
            let kind = kind.expect("the mix makes a hundred");
            let hot = random.below(100) < HOT_ACCESSES;
            let mut account = || {
                let of_shard = if hot { bank.hot() } else { bank.accounts };
                random.below(bank.shards) * bank.accounts + random.below(of_shard)
            };
            let a = account();
            let one_only = bank.shards * bank.hot() == 1;
            let mut b = account();
            while b == a {
                // If there is only one hot account, it pays any other account.
                b = if one_only { (a + 1) % (bank.shards * bank.accounts) } else { account() };
            }
            Call { request: bank.request(kind, a, b), kind, begins: true }
        }))
    }

    fn audit(&self) -> Box<dyn Audit> {
        let mut initial = 0;
        for shard in 0..self.shards as usize {
            for account in 0..self.accounts {
                initial += self.balance(shard, SAVINGS, account) + self.balance(shard, CHECKING, account);
            }
        }
        Box::new(BalanceCheck {
            balances: self.shards * self.accounts * 2,
            least: initial,
            most: initial,
            found: 0,
            sum: 0,
            findings: Vec::new(),
        })
    }
}

impl Smallbank {
    fn request(&self, kind: usize, a: u64, b: u64) -> Request {
        let (savings, checking) =
            (|account| self.key(SAVINGS, account), |account| self.key(CHECKING, account));
        let keys: Vec<(Key, Mode)> = match kind {
            0 => vec![(savings(a), Mode::Update), (checking(a), Mode::Update), (checking(b), Mode::Update)],
            1 => vec![(savings(a), Mode::Read), (checking(a), Mode::Read)],
            2 => vec![(checking(a), Mode::Update)],
            3 => vec![(checking(a), Mode::Update), (checking(b), Mode::Update)],
            4 => vec![(savings(a), Mode::Update)],
            _ => vec![(savings(a), Mode::Read), (checking(a), Mode::Update)],
        };
        let mut accesses = Accesses::default();
        for (key, mode) in keys {
            accesses.add(key, mode).expect("three keys");
        }
        Request { procedure: ProcedureId(kind as u16), input: Vec::new(), accesses }
    }
}

/// Changes balances. Returns the change of the sum of all balances, or the reason of an abort.
type Change = fn(&mut Context<'_>) -> Result<i64, u8>;

/// A procedure that answers with the change of the sum of all balances, or aborts with a reason.
struct Banking {
    name: &'static str,
    run: Change,
}

impl Procedure for Banking {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        match (self.run)(context) {
            Ok(change) => {
                let sum = if context.keys().iter().any(|access| access.mode.locks()) {
                    0
                } else {
                    // A read-only transaction also returns the sum of the account's two balances.
                    read(context, 0).unwrap_or(0) + read(context, 1).unwrap_or(0)
                };
                context.answer(&Writer::default().i64(change).i64(sum).0);
                Step::Commit
            }
            Err(reason) => Step::Abort(reason),
        }
    }
}

/// A balance in cents.
fn read(context: &Context<'_>, index: usize) -> Result<i64, u8> {
    let bytes: [u8; 4] = context.value(index).and_then(|value| value.try_into().ok()).ok_or(NO_ACCOUNT)?;
    Ok(i64::from(i32::from_le_bytes(bytes)))
}

fn write(context: &mut Context<'_>, index: usize, balance: i64) -> Result<(), u8> {
    let balance = i32::try_from(balance).map_err(|_| OVERFLOW)?;
    context.write(index, &balance.to_le_bytes());
    Ok(())
}

/// Moves savings and checking of one customer into the checking account of the other.
fn amalgamate(context: &mut Context<'_>) -> Result<i64, u8> {
    let [savings, checking, other] = [read(context, 0)?, read(context, 1)?, read(context, 2)?];
    write(context, 0, 0)?;
    write(context, 1, 0)?;
    write(context, 2, other + savings + checking)?;
    Ok(0)
}

fn balance(context: &mut Context<'_>) -> Result<i64, u8> {
    read(context, 0).and(read(context, 1)).and(Ok(0))
}

fn deposit_checking(context: &mut Context<'_>) -> Result<i64, u8> {
    let checking = read(context, 0)?;
    write(context, 0, checking + DEPOSIT)?;
    Ok(DEPOSIT)
}

fn send_payment(context: &mut Context<'_>) -> Result<i64, u8> {
    let [from, to] = [read(context, 0)?, read(context, 1)?];
    if from < PAYMENT {
        return Err(NOT_COVERED);
    }
    write(context, 0, from - PAYMENT)?;
    write(context, 1, to + PAYMENT)?;
    Ok(0)
}

fn transact_savings(context: &mut Context<'_>) -> Result<i64, u8> {
    let savings = read(context, 0)?;
    write(context, 0, savings + SAVING)?;
    Ok(SAVING)
}

fn write_check(context: &mut Context<'_>) -> Result<i64, u8> {
    let [savings, checking] = [read(context, 0)?, read(context, 1)?];
    let amount = if savings + checking < CHECK { CHECK + PENALTY } else { CHECK };
    write(context, 1, checking - amount)?;
    Ok(-amount)
}

/// Checks that the sum of all balances is the initial sum plus the changes of the committed transactions.
struct BalanceCheck {
    /// Expected number of balances.
    balances: u64,
    /// Range of the expected sum. Transactions that may have committed widen it.
    least: i64,
    most: i64,
    found: u64,
    sum: i64,
    findings: Vec<String>,
}

impl Audit for BalanceCheck {
    fn committed(&mut self, _: &Request, answer: &[u8]) {
        let Some(change) = Reader(answer).i64() else {
            return self.findings.push(format!("an answer of {} bytes", answer.len()));
        };
        self.least += change;
        self.most += change;
    }

    fn unknown(&mut self, request: &Request) {
        match request.procedure.0 {
            2 => self.most += DEPOSIT,
            4 => self.most += SAVING,
            5 => self.least -= CHECK + PENALTY,
            _ => {}
        }
    }

    fn object(&mut self, key: Key, value: &[u8]) {
        self.found += 1;
        match value.try_into() {
            Ok(bytes) => self.sum += i64::from(i32::from_le_bytes(bytes)),
            Err(_) => self.findings.push(format!("{key} has {} bytes", value.len())),
        }
    }

    fn findings(&mut self) -> Vec<String> {
        if self.found != self.balances {
            self.findings.push(format!("there are {} balances in place of {}", self.found, self.balances));
        }
        if !(self.least..=self.most).contains(&self.sum) {
            let (sum, least, most) = (self.sum, self.least, self.most);
            self.findings.push(format!("all balances make {sum} cents in place of {least} to {most}"));
        }
        std::mem::take(&mut self.findings)
    }
}

#[cfg(test)]
mod tests {
    use super::super::serial::testing::{Run, transcript};
    use super::*;

    fn balance_of(run: &Run, key: Key) -> i64 {
        i64::from(i32::from_le_bytes(run.serial.object(key).unwrap().try_into().unwrap()))
    }

    #[test]
    fn the_books_balance_and_a_lost_cent_shows() {
        let bank = Smallbank::new(3, 200);
        assert_eq!(Run::new(&bank, 3, 4, 20_000, 1).findings(), [""; 0]);
        let mut run = Run::new(&bank, 3, 4, 20_000, 1);
        let key = bank.key(CHECKING, 17);
        let wrong = balance_of(&run, key) as i32 + 1;
        run.serial.replace(key, Some(&wrong.to_le_bytes()));
        assert_eq!(run.findings().len(), 1);
        let mut run = Run::new(&bank, 3, 4, 20_000, 1);
        run.serial.replace(key, None);
        assert_eq!(run.findings().len(), 2);
    }

    #[test]
    fn one_of_unknown_outcome_may_or_may_not_have_been() {
        let bank = Smallbank::new(1, 100);
        for took_effect in [false, true] {
            for kind in [2, 4, 5] {
                let mut run = Run::new(&bank, 1, 1, 1000, 1);
                let request = bank.request(kind, 1, 2);
                if took_effect {
                    run.serial.call(&request);
                }
                run.audit.unknown(&request);
                assert_eq!(run.findings(), [""; 0]);
            }
        }
    }

    #[test]
    fn each_transaction_does_what_it_should() {
        let bank = Smallbank::new(2, 10);
        let (a, b) = (3, 14);
        let run = |kind: usize, before: [i32; 3]| {
            let mut serial = super::super::Serial::load(&bank, 2);
            let keys = [bank.key(SAVINGS, a), bank.key(CHECKING, a), bank.key(CHECKING, b)];
            for (key, balance) in keys.iter().zip(before) {
                serial.replace(*key, Some(&balance.to_le_bytes()));
            }
            let outcome = serial.call(&bank.request(kind, a, b));
            let after = keys.map(|key| i32::from_le_bytes(serial.object(key).unwrap().try_into().unwrap()));
            (outcome, after)
        };
        let committed = |change: i64, sum: i64| Outcome::Committed {
            answer: Writer::default().i64(change).i64(sum).0.clone(),
        };
        let aborted = |reason| Outcome::Aborted { reason, answer: Vec::new() };
        assert_eq!(run(0, [10, 20, 5]), (committed(0, 0), [0, 0, 35]));
        assert_eq!(run(1, [10, 20, 5]), (committed(0, 30), [10, 20, 5]));
        assert_eq!(run(2, [10, 20, 5]), (committed(130, 0), [10, 150, 5]));
        assert_eq!(run(3, [10, 600, 5]), (committed(0, 0), [10, 100, 505]));
        assert_eq!(run(3, [10, 499, 5]), (aborted(NOT_COVERED), [10, 499, 5]));
        assert_eq!(run(4, [10, 20, 5]), (committed(2020, 0), [2030, 20, 5]));
        assert_eq!(run(5, [300, 200, 5]), (committed(-500, 0), [300, -300, 5]));
        assert_eq!(run(5, [299, 200, 5]), (committed(-600, 0), [299, -400, 5]));
        assert_eq!(run(0, [1, i32::MAX, 5]), (aborted(OVERFLOW), [1, i32::MAX, 5]));
    }

    #[test]
    fn the_mix_and_the_hot_accounts_are_those_of_the_paper() {
        let bank = Smallbank::new(3, 1000);
        let mut client = bank.client(1, 0, 5);
        let (mut kinds, mut hot, mut shards) = ([0u64; 6], 0u64, [0u64; 3]);
        let draws = 100_000;
        for _ in 0..draws {
            let call = client.next(None);
            kinds[call.kind] += 1;
            let accesses = call.request.accesses;
            assert!(accesses.as_slice().len() <= 3);
            let accounts = || accesses.as_slice().iter().map(|access| access.key.local() & 0xffff_ffff);
            hot += u64::from(accounts().all(|account| account < bank.hot()));
            shards[accesses.as_slice()[0].key.shard()] += 1;
        }
        for (kind, part) in kinds.iter().zip(MIX) {
            assert!(kind.abs_diff(draws * part / 100) < 700, "{kinds:?}");
        }
        // 90 % are drawn as hot. Of the others, 4 % are hot by chance if they have one account, nearly none
        // if they have two.
        assert!((90_000..90_700).contains(&hot), "{hot}");
        assert!(shards.iter().all(|shard| shard.abs_diff(draws / 3) < 750), "{shards:?}");
    }

    #[test]
    fn a_seed_decides_everything() {
        let bank = Smallbank::new(2, 100);
        assert_eq!(transcript(&bank, 2, 1), transcript(&bank, 2, 1));
        assert_ne!(transcript(&bank, 2, 1), transcript(&bank, 2, 2));
    }

    #[test]
    fn a_conflict_is_tried_again() {
        let bank = Smallbank::new(2, 100);
        let mut client = bank.client(0, 0, 1);
        let call = client.next(None);
        let again = client.next(Some(&Outcome::Conflict));
        assert_eq!((again.request, again.begins), (call.request, false));
        assert!(client.next(Some(&Outcome::Unknown)).begins);
    }
}
