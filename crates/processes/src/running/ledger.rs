//! Transactions of the ledger: transfers keep the sum of all accounts, and deposits to one account have an
//! order that respects real time.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_client::{Client, Error, Transactions};
use weft_txn::{Key, Mode, Outcome, ProcedureId};
use weft_workload::Random;

use super::{Count, DESCRIBED, EngineResult, Run, for_each, persist};

/// Accounts of each shard between which money is transferred. One transaction can read those of 16 shards.
const MOVED: u64 = 4;
/// The account of shard 0 that receives deposits.
const DEPOSITED: u64 = MOVED;
/// Minimum number of accounts of each shard.
pub const ACCOUNTS_MIN: u64 = MOVED + 1;
const PAUSE: Duration = Duration::from_millis(2);

/// The procedures of the ledger.
const TRANSFER: ProcedureId = ProcedureId(0);
const DEPOSIT: ProcedureId = ProcedureId(1);
const BALANCE: ProcedureId = ProcedureId(2);

/// Answers of one client, or of all.
#[derive(Clone, Debug, Default)]
struct Tally {
    count: Count,
    /// Sums of all accounts between which money is transferred, one for each time that a client has read all
    /// of them.
    sums: Vec<i64>,
    /// Acknowledged deposits of 1: begin, end, and balance after the deposit.
    deposits: Vec<(u64, u64, i64)>,
    /// Deposits that took effect, and whose answers were lost with the node where they ran.
    deposits_unanswered: u64,
    /// Deposits with an unknown outcome.
    deposits_unknown: u64,
}

/// Totals before and after the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    sum: i64,
    deposited: i64,
}

impl Totals {
    fn read(transactions: &Transactions, shards: usize) -> Result<Self, Error> {
        let balance = |keys: &[(Key, Mode)]| {
            let lost = Error::Refused("the answer was lost");
            persist(|| number(transactions, BALANCE, keys, &[])?.ok_or(lost.clone()))
        };
        let deposited = [(Key::new(0, DEPOSITED), Mode::Read)];
        Ok(Self { sum: balance(&moved(shards))?, deposited: balance(&deposited)? })
    }
}

fn moved(shards: usize) -> Vec<(Key, Mode)> {
    let keys = (0..shards).flat_map(|shard| (0..MOVED).map(move |account| Key::new(shard, account)));
    keys.map(|key| (key, Mode::Read)).collect()
}

/// Calls a procedure that answers with numbers, and returns the first number; `None` if the procedure took effect and
/// its answer was lost.
fn number(
    transactions: &Transactions,
    procedure: ProcedureId,
    keys: &[(Key, Mode)],
    input: &[u8],
) -> Result<Option<i64>, Error> {
    match transactions.call(procedure, keys, input).wait()?.outcome {
        Outcome::Committed { answer } => {
            let first = answer.first_chunk().ok_or(Error::Refused("the answer is too short for a number"))?;
            Ok(Some(i64::from_le_bytes(*first)))
        }
        Outcome::Unanswered => Ok(None),
        _ => Err(Error::Refused("the procedure did not commit")),
    }
}

pub(super) fn drive(run: &Run<'_>, clients: &[Client]) -> EngineResult {
    let shards = run.load.cluster.nodes.len();
    let transactions = |client: &Client| client.transactions().expect(DESCRIBED);
    let before = Totals::read(&transactions(&clients[0]), shards);
    let parts = for_each(clients, |number, client| {
        let transactions = transactions(client);
        let mut random = Random::new(run.load.seed ^ 1, number);
        let mut books = Tally::default();
        run.repeat(PAUSE, || books.call(run, &transactions, shards, &mut random));
        books
    });
    let mut books = Tally::default();
    for part in parts {
        books.count.add(part.count);
        books.sums.extend(part.sums);
        books.deposits.extend(part.deposits);
        books.deposits_unanswered += part.deposits_unanswered;
        books.deposits_unknown += part.deposits_unknown;
    }
    let findings = match (before, Totals::read(&transactions(&clients[0]), shards)) {
        (Ok(before), Ok(after)) => books.findings(before, after),
        (Err(error), _) | (_, Err(error)) => vec![format!("the accounts cannot be read: {error}")],
    };
    EngineResult::new("transactions", books.count, "money conserved, deposits in order", findings)
}

impl Tally {
    /// One transaction, chosen at random.
    fn call(&mut self, run: &Run<'_>, transactions: &Transactions, shards: usize, random: &mut Random) {
        match random.below(100) {
            0..50 => {
                let mut account = || Key::new(random.below(shards as u64) as usize, random.below(MOVED));
                let (from, to) = (account(), account());
                if from == to {
                    return;
                }
                let amount = (random.below(100) as i64).to_le_bytes();
                let keys = [(from, Mode::Update), (to, Mode::Update)];
                if self.count.take(number(transactions, TRANSFER, &keys, &amount)).is_some() {
                    run.changed();
                }
            }
            50..75 => {
                let begun = run.now_ns();
                let keys = [(Key::new(0, DEPOSITED), Mode::Update)];
                let result = number(transactions, DEPOSIT, &keys, &1_i64.to_le_bytes());
                self.deposits_unknown += u64::from(result.as_ref().is_err_and(Error::may_have_happened));
                if let Some(balance) = self.count.take(result) {
                    run.changed();
                    match balance {
                        Some(balance) => self.deposits.push((begun, run.now_ns(), balance)),
                        None => self.deposits_unanswered += 1,
                    }
                }
            }
            _ => {
                let sum = self.count.take(number(transactions, BALANCE, &moved(shards), &[]));
                self.sums.extend(sum.flatten());
            }
        }
    }

    fn findings(&self, before: Totals, after: Totals) -> Vec<String> {
        let mut findings = Vec::new();
        let sum = before.sum;
        if let Some(other) = self.sums.iter().chain([&after.sum]).find(|other| **other != sum) {
            findings.push(format!("the accounts held {sum} together, and then {other}"));
        }
        let known = self.deposits.len() as i64 + self.deposits_unanswered as i64;
        let unknown = self.deposits_unknown as i64;
        let grown = after.deposited - before.deposited;
        if grown < known || grown > known + unknown {
            findings.push(format!(
                "{known} deposits were acknowledged, {unknown} may have happened, and the balance has grown by {grown}"
            ));
        }
        let mut balances = BTreeMap::new();
        for &(begun, ended, balance) in &self.deposits {
            if balances.insert(balance, (begun, ended)).is_some() {
                findings.push(format!("two deposits were told to have left the balance {balance}"));
            }
        }
        // In the order of the balances, no deposit may end before one with a smaller balance begins.
        let mut latest_begun = 0;
        for (balance, (begun, ended)) in balances {
            if ended < latest_begun {
                findings
                    .push(format!("the deposit that left {balance} ended before one with less had begun"));
                break;
            }
            latest_begun = latest_begun.max(begun);
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Totals = Totals { sum: 100, deposited: 1_000 };

    fn books() -> Tally {
        let deposits = vec![(0, 10, 1_001), (20, 30, 1_003)];
        Tally { sums: vec![100, 100], deposits, deposits_unknown: 1, ..Tally::default() }
    }

    fn found(books: &Tally, after: Totals, what: &str) {
        let findings = books.findings(BEFORE, after);
        assert!(findings.iter().any(|finding| finding.contains(what)), "{findings:?}");
    }

    #[test]
    fn right_answers_are_right() {
        for deposited in [1_002, 1_003] {
            assert_eq!(books().findings(BEFORE, Totals { sum: 100, deposited }), Vec::<String>::new());
        }
    }

    #[test]
    fn planted_wrong_answers_are_found() {
        let after = Totals { sum: 100, deposited: 1_003 };
        let unanswered = |deposits_unanswered| Tally { deposits_unanswered, ..books() };
        assert_eq!(unanswered(1).findings(BEFORE, after), Vec::<String>::new());
        found(&unanswered(2), after, "4 deposits were acknowledged");
        found(&books(), Totals { sum: 99, ..after }, "and then 99");
        found(&Tally { sums: vec![100, 101], ..books() }, after, "and then 101");
        found(&books(), Totals { deposited: 1_001, ..after }, "has grown by 1");
        found(&books(), Totals { deposited: 1_004, ..after }, "has grown by 4");
        let twice = Tally { deposits: vec![(0, 10, 1_001), (20, 30, 1_001)], ..books() };
        found(&twice, after, "two deposits");
        let reversed = Tally { deposits: vec![(0, 10, 1_003), (20, 30, 1_001)], ..books() };
        found(&reversed, after, "ended before");
    }
}
