//! Transactions, Xenic's protocol: each client deposits to its own account and reads its balance.

use std::rc::Rc;

use weft_harness::{Caller, Contender, ContenderCluster, DATAGRAM_BYTES, Ended, MakeEngines, UPDATE};
use weft_node::{EngineChoice, Ledger, TransactionSizes};
use weft_time::Instant;
use weft_txn::client::{ClientParameters, Ended as ClientEnded, Pool};
use weft_txn::{Accesses, Key, Mode, Outcome, ProcedureId, Request};

use super::{GIVE_UP, PAUSE, REPEAT};

const DEPOSIT: ProcedureId = ProcedureId(1);
const BALANCE: ProcedureId = ProcedureId(2);
/// Replicas of each shard; fewer if there are fewer nodes.
pub(super) const REPLICAS: usize = 3;
/// Bytes of a datagram that are reserved for headers.
const HEADERS: usize = 64;

/// The application of all nodes. It has more accounts than there can be clients.
static LEDGER: std::sync::LazyLock<Ledger> = std::sync::LazyLock::new(|| Ledger::new(1_024));

/// Transactions as a contender.
#[derive(Clone, Copy, Debug)]
pub struct TransactionsContender;

/// One client of the ledger, with its expected balance.
pub struct TransactionsCaller {
    account: Key,
    deposit: Request,
    balance: Request,
    is_update: bool,
    acknowledged: i64,
    /// Deposits that may have taken effect.
    unknown: i64,
    wrong: Vec<String>,
}

impl Contender for TransactionsContender {
    type Assembly = MakeEngines;
    type Caller = TransactionsCaller;

    const HOLDS: &'static str = "exact balances";

    fn assembly(&self, nodes: usize, _: u32) -> MakeEngines {
        Rc::new(move || {
            let sizes = TransactionSizes {
                nodes,
                replicas: REPLICAS.min(nodes),
                message_bytes: DATAGRAM_BYTES - HEADERS,
                record: false,
            };
            vec![EngineChoice::Transactions(&*LEDGER, sizes, None)]
        })
    }

    fn client(&self, number: u32, nodes: usize) -> (Pool, TransactionsCaller) {
        let node = number as usize % nodes;
        let parameters = ClientParameters {
            first: node,
            repeat: REPEAT,
            pause: PAUSE,
            give_up: GIVE_UP,
            ..ClientParameters::new(u64::from(number) + 1, nodes)
        };
        let account = Key::new(node, u64::from(number) / nodes as u64);
        let caller = TransactionsCaller {
            account,
            deposit: request(DEPOSIT, account, Mode::Update, &1_i64.to_le_bytes()),
            balance: request(BALANCE, account, Mode::Read, &[]),
            is_update: false,
            acknowledged: 0,
            unknown: 0,
            wrong: Vec::new(),
        };
        (Pool::new([parameters]), caller)
    }

    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        cluster.drivers().flat_map(|(_, clients)| clients.callers()).flat_map(|it| it.wrong.clone()).collect()
    }
}

impl Caller for TransactionsCaller {
    type Half = Pool;

    fn begin(&mut self, _: Instant, kind: usize) -> &Request {
        self.is_update = kind == UPDATE;
        if self.is_update { &self.deposit } else { &self.balance }
    }

    /// Checks an outcome. Only this client uses its account, so the balance is the sum of its deposits.
    fn end(&mut self, _: Instant, ended: ClientEnded) -> Ended {
        let answer = match ended {
            ClientEnded::Outcome(_, Outcome::Committed { answer }) => answer.first_chunk().copied(),
            ClientEnded::Outcome(_, Outcome::Unknown) => {
                self.unknown += i64::from(self.is_update);
                return Ended::Failed;
            }
            _ => return Ended::Failed,
        };
        self.acknowledged += i64::from(self.is_update);
        let least = Ledger::BALANCE + self.acknowledged;
        let balance = answer.map(i64::from_le_bytes);
        if !balance.is_some_and(|balance| (least..=least + self.unknown).contains(&balance)) {
            let (acknowledged, unknown) = (self.acknowledged, self.unknown);
            self.wrong.push(format!(
                "account {:?} holds {balance:?} after {acknowledged} deposits, {unknown} of unknown outcome besides",
                self.account
            ));
        }
        Ended::Done
    }
}

/// A call of a procedure with one account.
fn request(procedure: ProcedureId, account: Key, mode: Mode, input: &[u8]) -> Request {
    let mut accesses = Accesses::default();
    accesses.add(account, mode).expect("one key fits");
    Request { procedure, input: input.to_vec(), accesses }
}
