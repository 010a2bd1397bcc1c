//! The driver revokes access rights while packets arrive: after the driver's call has returned, no packet may
//! change memory.
//!
//! The gateware judges a packet before it places the packet's payload. The driver's call returns when all
//! data that was allowed before the change is in memory. Packets that have arrived and have not been judged
//! count as later ones.

use weft_time::Duration;
use weft_verbs::{
    AccessFlags, Modify, Operation, PathMtu, QueuePairState, Region, RemoteAddress, Target, WorkRequest,
};

use crate::stage::{Connection, Stage};
use crate::twin::{Kind, Options};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const LOG: u64 = 0x8000;
const LOG_BYTES: u64 = 0x4000;

/// How access is revoked.
#[derive(Clone, Copy, Debug)]
pub enum Revocation {
    /// By changing the region's access rights.
    Region,
    /// By deregistering the region.
    Deregistration,
    /// By changing the queue pair's access rights.
    QueuePair,
    /// By putting the queue pair into ERROR.
    Error,
}

/// Delivers `before` frames, `gap` apart, revokes access without waiting for them, and delivers the remaining
/// ones.
fn revoke(kind: Kind, target: Target, how: Revocation, before: usize, gap: Duration) -> Result<(), String> {
    let context = format!("{} {target:?} {how:?} after {before} frames, {gap}", kind.name());
    let connection = Connection { path_mtu: PathMtu::Bytes256, ..Connection::default() };
    let mut stage = Stage::new([Kind::Soft, kind], &connection, Options::default());
    let region = Region { target, ..Region::host(LOG, LOG_BYTES, AccessFlags::ALL) };
    let keys = stage.twins[SERVER].driver().register_region(region).expect("legal");
    let remote = RemoteAddress { address: LOG, rkey: keys.rkey };
    let write = Operation::Write { remote, immediate: None };
    let local = stage.local(CLIENT, 0x1000, 40 * 256);
    stage.post(CLIENT, WorkRequest::new(1, write, local));
    let frames: Vec<_> = stage.outbox[CLIENT].drain(..).collect();
    assert_eq!(frames.len(), 40);

    let number = stage.queue_pairs[SERVER];
    let server = &mut stage.twins[SERVER];
    let mut now = server.now();
    for frame in &frames[..before] {
        server.receive(now, frame);
        now += gap;
        server.advance(now);
    }
    match how {
        Revocation::Region => server.driver().modify_region(keys, AccessFlags::REMOTE_READ).expect("legal"),
        Revocation::Deregistration => {
            server.driver().deregister_region(keys).expect("legal");
        }
        Revocation::QueuePair => {
            server
                .driver()
                .modify_queue_pair(number, Modify::Access(AccessFlags::REMOTE_READ))
                .expect("legal");
        }
        Revocation::Error => server.driver().modify_queue_pair(number, Modify::Error).expect("legal"),
    }
    let bytes = (LOG + LOG_BYTES) as usize;
    let image = server.image(target, bytes);
    server.settle(now);
    now = server.now();
    for frame in &frames[before..] {
        server.receive(now, frame);
        now += gap;
        server.advance(now);
    }
    server.settle(now);
    if server.image(target, bytes) != image {
        return Err(format!("{context}: something lands afterwards"));
    }
    if !matches!(how, Revocation::Error) {
        let refused = server.counter("sent_access_error") + server.counter("sent_invalid_request");
        assert_eq!(refused, 1, "{context}");
    }
    let state = server.driver().query_queue_pair(number).expect("legal").state;
    assert_eq!(state, QueuePairState::Error, "{context}");
    // The data in memory must be whole packets from the first on.
    let source = stage.twins[CLIENT].image(Target::Host, 0x1000 + 40 * 256).split_off(0x1000);
    let landed = &image[LOG as usize..];
    let packets = source.chunks(256).zip(landed.chunks(256)).take_while(|(one, other)| one == other).count();
    assert!(packets <= before, "{context}: {packets} packets");
    Ok(())
}

/// Revokes access in every way, at many times.
///
/// # Errors
/// A packet changed memory afterwards.
///
/// # Panics
/// If a NIC refuses the set-up, or does not end the connection.
pub fn check(kind: Kind) -> Result<(), String> {
    let mut failures = Vec::new();
    for how in [Revocation::Region, Revocation::Deregistration, Revocation::QueuePair, Revocation::Error] {
        for target in [Target::OnChip, Target::Hbm, Target::Host] {
            for (before, gap) in [(1, 0), (7, 4), (20, 24), (20, 28), (33, 60)] {
                failures.extend(revoke(kind, target, how, before, Duration::from_ns(gap)).err());
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}
