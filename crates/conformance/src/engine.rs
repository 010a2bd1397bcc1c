//! The port at which an engine of the gateware changes access rights, with a soft NIC as the peer: access is
//! revoked during a stream of WRITEs.

use weft_gateware::{CYCLE, Changed, RtlNic};
use weft_time::Duration;
use weft_verbs::{
    AccessFlags, Operation, QueuePairState, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};

use crate::stage::{Connection, Stage};
use crate::twin::{Kind, Options, Twin};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const LOG: u64 = 0x8000;
const LOG_BYTES: u64 = 0x4000;

/// The access rights that an engine changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The rights of the queue pair.
    QueuePair,
    /// The rights of the region. A change of the queue pair to the same rights follows, as a fence.
    Region,
}

/// The result of a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Cycles from the request to the marker.
    pub cycles: u64,
    /// WRITEs that had arrived at the time of the request.
    pub arrived: usize,
    /// WRITEs that were in memory at the time of the marker.
    pub landed: usize,
}

fn stage() -> Stage {
    let options = Options { power_on_seed: 5, ..Options::default() };
    Stage::new([Kind::Soft, Kind::Rtl], &Connection::default(), options)
}

fn nic(twin: &mut Twin) -> &mut RtlNic {
    twin.rtl().expect("the server is of the gateware")
}

/// Registers a region at the server, and makes the client send `count` frames, each a WRITE of `bytes` bytes
/// behind the previous one.
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

/// WRITEs of 64 bytes arrive, `gap` apart. After `before` of them an engine revokes access, while more WRITEs
/// arrive.
///
/// # Errors
/// A byte reached memory after the marker; memory holds anything but whole WRITEs from the first on; or there
/// was no marker.
///
/// # Panics
/// If a NIC refuses the set-up.
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
    // Cycle by cycle, to see the contents of memory at the marker.
    for cycle in 0.. {
        let now = start + CYCLE * cycle;
        if sent < frames.len() && now >= start + gap * sent as u64 {
            server.receive(now, &frames[sent]);
            sent += 1;
        }
        if sent == before && !asked {
            asked = true;
            let mut engine = nic(server).permissions(now);
            let changed = match change {
                Change::QueuePair => engine.change_access(number, AccessFlags::REMOTE_READ),
                Change::Region => engine
                    .change_region(keys, AccessFlags::REMOTE_READ)
                    .and_then(|()| engine.change_access(number, AccessFlags::ALL)),
            };
            changed.map_err(|error| error.to_string())?;
        }
        server.advance(now);
        if let Some(Changed { requested, done, .. }) = nic(server).permissions(now).poll() {
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
