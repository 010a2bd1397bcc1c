//! Several engines in the slots of one card, over real sockets: each serves its clients, and a node that comes
//! back gets all data of all engines.

mod common;

use weft_client::{Acquired, Client, Cluster, Read};
use weft_node::Ledger;
use weft_time::Duration;
use weft_txn::{Key, Mode, Outcome, ProcedureId};

use common::{Addresses, Running};

/// The rounds are long, because this machine may be busy.
const ENGINES: &str = "[kv]\nvalue_bytes = 64\ncapacity_keys = 1000\n\
    [transactions]\nprocedures = \"ledger\"\nsize = 100\n\
    [[object]]\nname = \"visits\"\ntype = \"pn-counter\"\n\
    [[object]]\nname = \"till\"\ntype = \"account\"\n\
    [[log]]\nname = \"audit\"\n\
    [rounds]\nperiod_us = 200000\n\
    [lock]\n";

/// Procedure of the ledger that adds to an account.
const DEPOSIT: ProcedureId = ProcedureId(1);

#[test]
fn all_engines_serve_and_a_node_that_comes_back_is_full_again() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = addresses.config(3, folder.path(), ENGINES);
    let mut nodes: Vec<Running> = (0..3).map(|node| Running::start(&config, node)).collect();
    nodes.iter().for_each(|node| {
        node.wait_for(" as full ");
    });
    let cluster = Cluster { give_up: Duration::from_secs(20), ..Cluster::from(&config) };
    let proposed = Client::open(&cluster).unwrap().rounds().unwrap().propose(b"a first decision").wait();
    assert!(proposed.is_ok(), "{proposed:?}");
    let locks = Client::open(&cluster).unwrap().lock().unwrap();
    let acquire =
        |name: &str| match locks.acquire(name, std::time::Duration::from_secs(3_600)).wait().unwrap() {
            Acquired::Granted(lease) => Some(lease.token),
            Acquired::Held(_) => None,
        };
    let token = acquire("deploy").expect("nobody holds it");
    let mut newest = token;
    for (round, node) in nodes.iter_mut().enumerate() {
        let client = Client::open(&cluster).unwrap();
        let (kv, transactions) = (client.kv().unwrap(), client.transactions().unwrap());
        let (visits, till) = (client.object("visits").unwrap(), client.object("till").unwrap());
        let audit = client.log("audit").unwrap();
        let content = format!("round {round}").into_bytes();
        let number = round as i64;
        // Calls to all engines are outstanding at the same time.
        let written = kv.put(b"round\0\0\0", &content);
        let deposited =
            transactions.call(DEPOSIT, &[(Key::new(round, 7), Mode::Update)], &5_i64.to_le_bytes());
        let counted = visits.update("increment", &[5]);
        let paid = till.update("deposit", &[3]);
        let appended = audit.append(&content);
        written.wait().unwrap();
        counted.wait().unwrap();
        paid.wait().unwrap();
        let balance = (Ledger::BALANCE + 5).to_le_bytes().to_vec();
        assert_eq!(deposited.wait().unwrap().outcome, Outcome::Committed { answer: balance.clone() });
        let index = appended.wait().unwrap();

        // A node leaves, and comes back as a new process without data.
        node.end().unwrap();
        let read = audit.read(index).wait().unwrap();
        assert!(matches!(&read, Read::Entry(entry) if entry.content == content), "{read:?}");
        *node = Running::start(&config, round);
        node.wait_for(" as full ");
        assert_eq!(kv.get(b"round\0\0\0").wait().unwrap().unwrap().value, content);
        // Use a new client: a client that has called the former process would get an unknown outcome for its next
        // call.
        let transactions = Client::open(&cluster).unwrap().transactions().unwrap();
        let read = transactions.call(ProcedureId(2), &[(Key::new(round, 7), Mode::Read)], &[]);
        assert_eq!(read.wait().unwrap().outcome, Outcome::Committed { answer: balance });
        let replica = visits.at(round).unwrap();
        assert_eq!(replica.query("value", &[]).wait().unwrap(), 5 * (number + 1));
        assert_eq!(till.at(round).unwrap().query("balance", &[]).wait().unwrap(), 3 * (number + 1));
        // Whichever node leads, the lock is held with the token that was granted, and later grants have larger
        // tokens.
        assert_eq!(acquire("deploy"), None);
        assert_eq!(locks.renew("deploy", token).wait().unwrap().map(|lease| lease.token), Some(token));
        assert_eq!(locks.renew("deploy", token + 1).wait().unwrap(), None);
        let other = acquire(&format!("round {round}")).expect("nobody holds it");
        assert!(other > newest, "{other:x} after {newest:x}");
        newest = other;
    }
    assert!(locks.release("deploy", token).wait().unwrap());
    assert_eq!(locks.query("deploy").wait().unwrap(), None);
}
