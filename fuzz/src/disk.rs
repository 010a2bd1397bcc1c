//! Recovery from a disk with arbitrary damage.

use weft_store::{Found, Parameters, RecoveryError, Refusal, SECTOR, SimulatedDisk, Store};
use xxhash_rust::xxh3::Xxh3;

use crate::input::Input;

const PARAMETERS: Parameters = Parameters::new(2, 8, 4);
/// Bytes of a frame's header, see `crates/store/src/frame.rs`, and of its part in front of the checksum.
const HEADER: usize = 96;
const CHECKED: usize = 80;

/// Fills a store, changes parts of its disk, also with valid checksums, and recovers it. Recovery must end
/// without a panic. Without forged checksums it must find nothing that was not written. The recovered store
/// must be usable.
pub fn disk(data: &[u8]) {
    let mut input = Input::new(data);
    let mut disk = SimulatedDisk::new(PARAMETERS.disk_bytes(), 1);
    let mut store = Store::format(PARAMETERS, 1, &mut disk);
    let mut records = Vec::new();
    for step in 0..input.byte() % 32 {
        let record = vec![step; usize::from(input.half() % 5_000)];
        if store.append(&record).is_ok() {
            records.push(record);
        }
        if input.rarely() && store.begin_snapshot().is_ok() {
            let _ = store.put_chunk(&[b's'; 100]);
            settle(&mut store, &mut disk);
            store.end_snapshot();
        }
        if input.coin() {
            settle(&mut store, &mut disk);
        }
    }
    settle(&mut store, &mut disk);
    let mut is_forged = false;
    while !input.is_empty() {
        is_forged |= change(&mut input, disk.sectors_mut());
    }
    let recovered = Store::recover(PARAMETERS, &mut disk, |found| {
        if let Found::Record(number, bytes) = found {
            assert!(is_forged || records.get(number as usize).is_some_and(|record| record == bytes));
        }
    });
    match recovered {
        Ok(mut store) => {
            settle(&mut store, &mut disk);
            let next = store.next_record();
            assert_eq!(store.durable(), next);
            match store.append(b"more") {
                Ok(number) => assert_eq!(number, next),
                Err(refusal) => assert_eq!(refusal, Refusal::Full),
            }
            settle(&mut store, &mut disk);
            // A forged frame has a valid checksum, so its contents may contradict the data behind it.
            if !is_forged {
                let again = Store::recover(PARAMETERS, &mut disk, |_| {});
                assert_eq!(again.expect("it was repaired").next_record(), store.next_record());
            }
        }
        Err(RecoveryError::Disk(error)) => panic!("{error}"),
        Err(_) => {}
    }
}

fn settle(store: &mut Store, disk: &mut SimulatedDisk) {
    store.pump(disk).expect("the disk works");
    while disk.step() {
        store.pump(disk).expect("the disk works");
    }
}

/// Changes some bytes of a sector, or copies another sector over it. Returns whether the frame's checksum was
/// made valid.
fn change(input: &mut Input<'_>, sectors: &mut [u8]) -> bool {
    let count = sectors.len() / SECTOR;
    let at = usize::from(input.byte()) % count * SECTOR;
    match input.byte() % 4 {
        0 => {
            let from = usize::from(input.byte()) % count * SECTOR;
            sectors.copy_within(from..from + SECTOR, at);
        }
        1 => sectors[at..at + SECTOR].fill(0),
        _ => {
            let place = if input.coin() { input.byte() } else { input.byte() % HEADER as u8 };
            let changes = input.bytes(8);
            for (byte, change) in sectors[at + usize::from(place)..].iter_mut().zip(changes) {
                *byte ^= change;
            }
        }
    }
    let forges = input.coin();
    if forges {
        set_checksum(&mut sectors[at..]);
    }
    forges
}

fn set_checksum(frame: &mut [u8]) {
    let length = u32::from_le_bytes(frame[60..64].try_into().expect("four bytes")) as usize;
    let Some(payload) = frame.get(HEADER..).and_then(|behind| behind.get(..length)) else { return };
    let mut hasher = Xxh3::new();
    hasher.update(&frame[..CHECKED]);
    hasher.update(payload);
    let checksum = hasher.digest128();
    frame[CHECKED..HEADER].copy_from_slice(&checksum.to_le_bytes());
}
