//! Requests of Redis clients.

use weft_kv::message::{Kind, Reply, Request, Status};
use weft_resp::{Now, Parser, Record, RespServer, RespServerParameters};
use weft_time::{Duration, Instant};
use weft_waist::{Epoch, NodeId, NodeSet};

const KEY_BYTES: usize = 9;

/// Parses requests as a whole and in two parts, which must give the same. Then a protocol server processes
/// them, with answers of a store that the input chooses. The server must make progress and answer every
/// connection.
pub fn resp(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else { return };
    let (first, second) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let (whole, pieces) = (requests(&[bytes]), requests(&[first, second]));
    assert_eq!(whole.is_some(), pieces.is_some());
    assert!(whole.is_none() || whole == pieces);
    if let Some(record) = Record::decode(bytes) {
        assert_eq!(record.encode(), bytes);
    }
    server(first, second, cut);
}

fn requests(pieces: &[&[u8]]) -> Option<Vec<Vec<Vec<u8>>>> {
    let (mut parser, mut found) = (Parser::default(), Vec::new());
    for piece in pieces {
        parser.feed(piece);
        while parser.advance().ok()? {
            found.push(parser.arguments().map(<[u8]>::to_vec).collect());
        }
    }
    Some(found)
}

fn server(first: &[u8], second: &[u8], dice: u8) {
    let own = NodeId::new(0).expect("there is a node 0");
    let mut server = RespServer::new(RespServerParameters {
        own,
        servers: vec![("127.0.0.1".to_owned(), 6379)],
        key_bytes: KEY_BYTES,
        value_bytes_max: 64,
        password: None,
        durable_copies: 0,
        clock_skew: Duration::ZERO,
        give_up: Duration::from_secs(1),
        first_client: 7,
        sessions: 2,
    });
    let mut now = Now { instant: Instant::ZERO, unix_ms: 1_000 };
    let ids = [server.open(now), server.open(now)];
    server.receive(ids[0], first);
    server.receive(ids[1], second);
    let mut payload = Vec::new();
    for step in 0u8..200 {
        while server.poll_ready(now).is_some() {}
        payload.clear();
        let Some((_, kind)) = server.poll_transmit(&mut payload) else { break };
        // The store answers as the input says, whether the answer fits or not.
        let request = Request::parse(&payload, KEY_BYTES).expect("a server writes what a node reads");
        assert_eq!(kind, Kind::Request as u8);
        let value = &second[..second.len().min(usize::from(step))];
        let status = match step.wrapping_mul(7).wrapping_add(dice) % 8 {
            0 => Status::NotFound,
            1 => Status::Mismatch,
            2 => Status::TableFull,
            3 => Status::BadRequest,
            _ => Status::Ok,
        };
        let reply = Reply {
            status,
            client: request.client,
            request: request.request,
            version: 1 + u64::from(step % 3),
            epoch: Epoch(1),
            full: NodeSet::first(1),
            value,
        };
        server.message(now, Kind::Reply as u8, &[&reply.header()[..], value].concat());
        server.message(now, Kind::Reply as u8, first);
    }
    // Requests that are left over time out.
    for _ in 0..4 {
        now.instant += Duration::from_secs(2);
        server.handle_deadline(now);
        while server.poll_ready(now).is_some() {}
        while server.poll_transmit(&mut payload).is_some() {}
    }
}
