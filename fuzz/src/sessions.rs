//! Messages between clients and nodes, and the code on both sides that processes them.

use weft_rdt::client::{Client as ObjectClient, Invocation, sessions};
use weft_rdt::types;
use weft_rounds::client::{Client as RoundsClient, Task as RoundsTask};
use weft_rounds::{ClientServer, ClientServerParameters};
use weft_session::{ClientHalf, ClientParameters, Message};
use weft_smr::client::{Client as LogClient, Task as LogTask};
use weft_time::Instant;

const CLIENT: u64 = 1;
const SESSION: u64 = 2;

/// Parses a message and encodes it again. Clients and nodes with open sessions process it and must not panic.
pub fn session(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    if let Ok(once) = Message::parse(kind, bytes) {
        let mut written = Vec::new();
        let kind = once.encode(&mut written) as u8;
        assert_eq!(Message::parse(kind, &written), Ok(once));
    }
    let now = Instant::ZERO;
    let (mut hello, mut welcome) = (Vec::new(), Vec::new());
    let greets = Message::Hello { client: CLIENT }.encode(&mut hello) as u8;
    let welcomes = Message::Welcome { client: CLIENT, session: SESSION }.encode(&mut welcome) as u8;
    let parameters = ClientParameters::new(CLIENT, 3);

    let mut node = sessions::<u8>(SESSION, 2);
    let _ = node.receive(now, 0, (greets, &hello), true);
    if let Ok(Some(begin)) = node.receive(now, 0, (kind, bytes), true) {
        node.finish(begin.token, Some(begin.body));
    }
    let clients = ClientServerParameters {
        first_session: SESSION,
        clients: 2,
        value_bytes: 16,
        kept: 2,
        answer_bytes: 256,
    };
    let mut clients = ClientServer::<u8>::new(clients);
    let _ = clients.decided(bytes);
    let _ = clients.receive(now, 0, (greets, &hello), true);
    let _ = clients.receive(now, 0, (kind, bytes), true);
    let mut out = Vec::new();
    while node.poll_transmit(&mut out).is_some() || clients.poll_transmit(&mut out).is_some() {}

    let account = types::by_name("account").expect("it is shipped");
    let invocation = Invocation::new(&account, "balance", &[]).expect("it has a balance");
    let mut object = ObjectClient::new(parameters);
    object.start(now, (None, invocation));
    let _ = object.receive(now, 0, (welcomes, &welcome));
    let _ = object.receive(now, 0, (kind, bytes));
    let mut rounds = RoundsClient::new(parameters);
    rounds.start(now, RoundsTask::Read(None));
    let _ = rounds.receive(now, 0, (welcomes, &welcome));
    let _ = rounds.receive(now, 0, (kind, bytes));
    let mut log = LogClient::new(weft_smr::client::ClientParameters::new(CLIENT, 3));
    log.start(now, LogTask::Append(b"entry"));
    log.start(now, LogTask::Read(0));
    let _ = log.receive(now, 0, (kind, bytes));
    assert!(object.outstanding() <= 1 && rounds.outstanding() <= 1 && log.outstanding() <= 2);
}
