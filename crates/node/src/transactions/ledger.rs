//! An example of an application: accounts on all shards, and transfers of money between them.
//!
//! `weft start` serves it as `procedures = "ledger"`. Account *n* of shard *s* is the key `Key::new(s, n)`; its
//! value is the balance, a little-endian signed number of eight bytes, initially [`Ledger::BALANCE`].
//!
//! | procedure | keys | input | answer |
//! |---|---|---|---|
//! | `transfer` | from and to, [`Mode::Update`](weft_txn::Mode::Update) | amount(8) | both new balances |
//! | `deposit` | an account, `Update` | amount(8) | its new balance |
//! | `balance` | accounts, [`Mode::Read`](weft_txn::Mode::Read) | nothing | the sum of their balances |

use weft_txn::{Context, Key, Procedure, Procedures, Step};

use super::Application;

/// Why a procedure aborts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LedgerRefusal {
    /// An account does not exist.
    NoAccount = 1,
    /// The balance does not cover the amount.
    NotCovered = 2,
    /// The input or the number of keys is not as the procedure expects, or a balance would overflow.
    Malformed = 3,
}

/// Accounts on all shards.
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    accounts: u64,
}

impl Ledger {
    /// The most accounts of a shard.
    pub const ACCOUNTS_MAX: u64 = 10_000_000;
    /// Initial balance of an account.
    pub const BALANCE: i64 = 1_000;

    /// A ledger with `accounts` accounts on each shard.
    ///
    /// # Panics
    /// If `accounts` exceeds [`Ledger::ACCOUNTS_MAX`].
    pub fn new(accounts: u64) -> Self {
        assert!(accounts <= Self::ACCOUNTS_MAX, "a shard has at most {} accounts", Self::ACCOUNTS_MAX);
        Self { accounts }
    }
}

impl Application for Ledger {
    fn procedures(&self) -> Procedures {
        Procedures::new(vec![Box::new(Transfer), Box::new(Deposit), Box::new(Balance)])
    }

    fn objects(&self) -> u64 {
        self.accounts
    }

    fn value_bytes(&self) -> usize {
        size_of::<i64>()
    }

    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8])) {
        for account in 0..self.accounts {
            put(Key::new(shard, account), &Self::BALANCE.to_le_bytes());
        }
    }
}

fn number(bytes: &[u8]) -> Result<i64, LedgerRefusal> {
    bytes.try_into().map(i64::from_le_bytes).map_err(|_| LedgerRefusal::Malformed)
}

fn read(context: &Context<'_>, index: usize) -> Result<i64, LedgerRefusal> {
    number(context.value(index).ok_or(LedgerRefusal::NoAccount)?)
}

/// Commits, or aborts with the reason.
fn step(result: Result<(), LedgerRefusal>) -> Step {
    result.map_or_else(|refusal| Step::Abort(refusal as u8), |()| Step::Commit)
}

struct Transfer;

impl Procedure for Transfer {
    fn name(&self) -> &'static str {
        "transfer"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        step(transfer(context))
    }
}

fn transfer(context: &mut Context<'_>) -> Result<(), LedgerRefusal> {
    let amount = number(context.input())?;
    if context.keys().len() != 2 || amount < 0 {
        return Err(LedgerRefusal::Malformed);
    }
    let (from, to) = (read(context, 0)?, read(context, 1)?);
    if from < amount {
        return Err(LedgerRefusal::NotCovered);
    }
    let (from, to) = (from - amount, to.checked_add(amount).ok_or(LedgerRefusal::Malformed)?);
    context.write(0, &from.to_le_bytes());
    context.write(1, &to.to_le_bytes());
    context.answer(&[from.to_le_bytes(), to.to_le_bytes()].concat());
    Ok(())
}

struct Deposit;

impl Procedure for Deposit {
    fn name(&self) -> &'static str {
        "deposit"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        step(deposit(context))
    }
}

fn deposit(context: &mut Context<'_>) -> Result<(), LedgerRefusal> {
    let amount = number(context.input())?;
    if context.keys().len() != 1 || amount < 0 {
        return Err(LedgerRefusal::Malformed);
    }
    let balance = read(context, 0)?.checked_add(amount).ok_or(LedgerRefusal::Malformed)?;
    context.write(0, &balance.to_le_bytes());
    context.answer(&balance.to_le_bytes());
    Ok(())
}

struct Balance;

impl Procedure for Balance {
    fn name(&self) -> &'static str {
        "balance"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        step(balance(context))
    }
}

fn balance(context: &mut Context<'_>) -> Result<(), LedgerRefusal> {
    let mut sum = 0i64;
    for index in 0..context.keys().len() {
        sum = sum.checked_add(read(context, index)?).ok_or(LedgerRefusal::Malformed)?;
    }
    context.answer(&sum.to_le_bytes());
    Ok(())
}
