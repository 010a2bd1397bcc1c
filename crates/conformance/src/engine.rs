//! The gateware's port for engines, with a soft peer: permissions that go within a stream of WRITEs, calls, requests of its own.

use weft_gateware::{CYCLE, EngineEvent, RtlNic};
use weft_rdma::{
    AccessFlags, Operation, QueuePairState, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};
use weft_time::Duration;

use crate::stage::{Connection, Stage};
use crate::twin::{Kind, Options, Twin};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const LOG: u64 = 0x8000;
const LOG_BYTES: u64 = 0x4000;

/// Calls that the gateware keeps until its engine takes them.
const CALLS: usize = 16;

/// What an engine changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The access of the queue pair.
    QueuePair,
    /// The access of the region, and a change of the queue pair that changes nothing as its fence.
    Region,
}

/// How a revocation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Cycles from the request to the marker.
    pub cycles: u64,
    /// WRITEs that had arrived when the engine asked, and those that had landed at the marker.
    pub arrived: usize,
    /// See there.
    pub landed: usize,
}

fn stage() -> Stage {
    let options = Options { power_on_seed: 5, ..Options::default() };
    Stage::new([Kind::Soft, Kind::Rtl], &Connection::default(), options)
}

fn nic(twin: &mut Twin) -> &mut RtlNic {
    twin.rtl().expect("the server is of the gateware")
}

/// A region of the server, and `count` frames of the client, each a WRITE of `bytes` bytes behind the one before.
fn stream(stage: &mut Stage, region: Region, count: u64, bytes: u32) -> (RegionKeys, Vec<Vec<u8>>) {
    let keys = stage.twins[SERVER].driver().register_region(region).expect("room");
    stage.settle(SERVER);
    for index in 0..count {
        let offset = index * u64::from(bytes);
        let remote = RemoteAddress { address: region.address + offset, rkey: keys.rkey };
        let local = stage.local(CLIENT, 0x1000 + offset, bytes);
        stage.post(CLIENT, WorkRequest::new(index, Operation::Write { remote, immediate: None }, local));
    }
    let frames: Vec<_> = stage.outbox[CLIENT].drain(..).collect();
    assert_eq!(frames.len() as u64, count);
    (keys, frames)
}

/// WRITEs of 64 bytes come in, `gap` apart; after `before` of them an engine takes the permission, and they go on coming.
///
/// # Errors
/// A byte landed after the marker, something else than whole WRITEs from the first on landed, or there was no marker.
///
/// # Panics
/// If a NIC refuses its set-up.
pub fn revoke(target: Target, change: Change, before: usize, gap: Duration) -> Result<Revoked, String> {
    let context = format!("{target:?} {change:?} after {before}, {gap}");
    let mut stage = stage();
    let region = Region { target, ..Region::host(LOG, LOG_BYTES, AccessFlags::ALL) };
    let (keys, frames) = stream(&mut stage, region, 60, 64);
    let number = stage.queue_pairs[SERVER];
    let source = stage.twins[CLIENT].image(Target::Host, 0x1000 + 60 * 64).split_off(0x1000);
    let server = &mut stage.twins[SERVER];
    let start = server.now();
    let mut sent = 0;
    let mut asked = false;
    let mut marked = None;
    // Cycle by cycle, for the memory as it is at the marker.
    for cycle in 0.. {
        let now = start + CYCLE * cycle;
        if sent < frames.len() && now >= start + gap * sent as u64 {
            server.receive(now, &frames[sent]);
            sent += 1;
        }
        if sent == before && !asked {
            asked = true;
            let mut engine = nic(server).engine(now);
            let changed = match change {
                Change::QueuePair => engine.change_access(number, AccessFlags::REMOTE_READ),
                Change::Region => engine
                    .change_region(keys, AccessFlags::REMOTE_READ)
                    .and_then(|()| engine.change_access(number, AccessFlags::ALL)),
            };
            changed.map_err(|error| error.to_string())?;
        }
        server.advance(now);
        if let Some(EngineEvent::Changed { requested, done, .. }) = nic(server).engine(now).poll() {
            let image = server.image(target, (LOG + LOG_BYTES) as usize);
            marked = Some((done - requested, image));
        }
        if sent == frames.len() && marked.is_some() {
            break;
        }
        if cycle > 100_000 {
            return Err(format!("{context}: no marker"));
        }
    }
    let (cycles, image) = marked.expect("the loop ends with it");
    server.settle(server.now());
    let after = server.image(target, image.len());
    if after != image {
        return Err(format!("{context}: something lands after the marker"));
    }
    let log = image[LOG as usize..].chunks(64);
    let landed = source.chunks(64).zip(log).take_while(|(one, other)| one == other).count();
    let refused = server.counter("sent_access_error") + server.counter("sent_invalid_request");
    let state = server.driver().query_queue_pair(number).expect("created").state;
    if refused != 1 || state != QueuePairState::Error || landed > before {
        return Err(format!("{context}: {refused} refusals, {state}, {landed} landed"));
    }
    Ok(Revoked { cycles, arrived: before, landed })
}

/// A WRITE into an RPC region comes as its beats and then as a call, and lies in memory then.
///
/// # Errors
/// It does not.
///
/// # Panics
/// If a NIC refuses its set-up.
pub fn call() -> Result<(), String> {
    let mut stage = stage();
    let region =
        Region { target: Target::OnChip, rpc: Some(3), ..Region::host(LOG, LOG_BYTES, AccessFlags::ALL) };
    let (_, frames) = stream(&mut stage, region, 1, 200);
    let source = stage.twins[CLIENT].image(Target::Host, 0x1000 + 200).split_off(0x1000);
    let server = &mut stage.twins[SERVER];
    let now = server.now();
    nic(server).engine(now).hold_calls(false);
    server.receive(now, &frames[0]);
    server.settle(now);
    let now = server.now();
    let mut bytes = Vec::new();
    let mut engine = nic(server).engine(now);
    while let Some(event) = engine.poll() {
        match event {
            EngineEvent::Beat { slot: 3, address, beat } => {
                if address & !63 != (LOG + bytes.len() as u64) & !63 {
                    return Err(format!("a beat for {address:#x} after {} bytes", bytes.len()));
                }
                for lane in (0..64).filter(|lane| beat.strobe >> lane & 1 == 1) {
                    bytes.push((beat.data[lane / 4] >> (8 * (lane % 4))) as u8);
                }
            }
            EngineEvent::Call(call) if bytes.len() == 200 => {
                let called = (call.slot, call.address, call.length, call.has_immediate);
                let memory = engine.read(Target::OnChip, LOG, 200).expect("installed");
                if called != (3, LOG, 200, false) || bytes != source || memory != source {
                    return Err(format!("{called:?}, {bytes:02x?}"));
                }
                return Ok(());
            }
            other => return Err(format!("{other:?} after {} bytes", bytes.len())),
        }
    }
    Err("no call".into())
}

/// Calls beyond those that the gateware keeps are dropped and counted; what was dropped is sent again and calls when there is
/// room.
///
/// # Errors
/// Something else happened.
///
/// # Panics
/// If a NIC refuses its set-up.
pub fn full_call_queue() -> Result<(), String> {
    let mut stage = stage();
    let region = Region { rpc: Some(1), ..Region::host(LOG, LOG_BYTES, AccessFlags::ALL) };
    let (_, frames) = stream(&mut stage, region, 24, 64);
    let server = &mut stage.twins[SERVER];
    let mut now = server.now();
    nic(server).engine(now).hold_calls(true);
    for frame in &frames {
        server.receive(now, frame);
        now += Duration::from_ns(40);
        server.advance(now);
    }
    now += Duration::from_us(5);
    server.advance(now);
    let dropped = server.counter("drop_rpc_queue_full");
    if dropped != 1 {
        // The first that finds no room is dropped so; those behind it come out of sequence.
        return Err(format!("{dropped} dropped"));
    }
    nic(server).engine(now).hold_calls(false);
    stage.advance(now);
    for side in [SERVER, CLIENT] {
        stage.settle(side);
    }
    let mut calls = 0;
    for _ in 0..200 {
        stage.exchange();
        let server = &mut stage.twins[SERVER];
        let now = server.now();
        let mut engine = nic(server).engine(now);
        let events = std::iter::from_fn(|| engine.poll());
        calls += events.filter(|event| matches!(event, EngineEvent::Call(_))).count();
        if calls >= frames.len() {
            break;
        }
        let Some(next) = stage.next_deadline() else { break };
        stage.advance(next);
        for side in [CLIENT, SERVER] {
            stage.settle(side);
        }
    }
    let rdma = stage.twins[SERVER].counter("rpc_calls");
    if calls == frames.len() && rdma == calls as u64 && calls > CALLS {
        Ok(())
    } else {
        Err(format!("{calls} calls came, {rdma} were counted"))
    }
}

/// An engine's own requests, over a queue pair whose completions are its own.
///
/// # Errors
/// A completion went elsewhere or the bytes did not arrive.
///
/// # Panics
/// If a NIC refuses its set-up.
pub fn own_requests() -> Result<(), String> {
    let mut stage = stage();
    let connection = Connection { psn: [30, 40], ..Connection::default() };
    let numbers = [0, 1].map(|side: usize| stage.twins[side].create_queue_pair().expect("room"));
    let now = stage.now();
    nic(&mut stage.twins[SERVER]).engine(now).adopt(numbers[SERVER]).map_err(|error| error.to_string())?;
    for side in 0..2 {
        let (receive, send) = connection.attributes(side, numbers[1 - side]);
        stage.twins[side].driver().connect(numbers[side], AccessFlags::ALL, receive, send).expect("legal");
        stage.settle(side);
    }
    stage.twins[SERVER].take_completions();
    let remote = stage.remote(CLIENT, LOG);
    let local = stage.local(SERVER, 0x2000, 100);
    let request = WorkRequest::new(0x1234, Operation::Write { remote, immediate: None }, local);
    let posted = nic(&mut stage.twins[SERVER]).engine(now).post(numbers[SERVER], &request);
    posted.map_err(|error| error.to_string())?;
    stage.settle(SERVER);
    stage.exchange();
    let server = &mut stage.twins[SERVER];
    let now = server.now();
    let told = nic(server).engine(now).poll();
    let Some(EngineEvent::Completion(completion)) = &told else { return Err(format!("{told:?}")) };
    let source = server.image(Target::Host, 0x2000 + 100).split_off(0x2000);
    let to_host = server.take_completions();
    let arrived = stage.twins[CLIENT].image(Target::Host, LOG as usize + 100).split_off(LOG as usize);
    if completion.id != 0x1234 || completion.status != 0 || !to_host.is_empty() || arrived != source {
        return Err(format!("{completion:?}, to the host: {to_host:?}"));
    }
    Ok(())
}
