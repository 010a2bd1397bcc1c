//! Tests of a store, one property at a time.

use weft_store::{
    Damage, Disk, Found, Parameters, RecoveryError, Refusal, SECTOR, SimulatedDisk, Store, WriteFault,
};

const PARAMETERS: Parameters = Parameters::new(2, 8, 4);
/// Positions of the first batch in the mirror and in the log, and of the areas for snapshots.
const MIRROR: u64 = 2 * SECTOR as u64;
const AREAS: u64 = (4 + 2 * 2) * SECTOR as u64;
const LOG: u64 = (4 + 2 * 2 + 2 * 4) * SECTOR as u64;

fn formatted() -> (SimulatedDisk, Store) {
    let mut disk = SimulatedDisk::new(PARAMETERS.disk_bytes(), 1);
    let mut store = Store::format(PARAMETERS, 1, &mut disk);
    settle(&mut store, &mut disk);
    (disk, store)
}

fn settle(store: &mut Store, disk: &mut SimulatedDisk) {
    store.pump(disk).unwrap();
    while disk.step() {
        store.pump(disk).unwrap();
    }
    assert!(store.is_idle());
}

/// Appends a record as a batch of its own.
fn put(store: &mut Store, disk: &mut SimulatedDisk, record: &str) {
    store.append(record.as_bytes()).unwrap();
    settle(store, disk);
}

fn recover(disk: &mut SimulatedDisk) -> Result<(Store, Vec<String>), RecoveryError> {
    let mut found = Vec::new();
    let store = Store::recover(PARAMETERS, disk, |what| {
        let (Found::Chunk(bytes) | Found::Record(_, bytes)) = what;
        found.push(String::from_utf8(bytes.to_vec()).unwrap());
    })?;
    Ok((store, found))
}

/// Changes the header of a frame.
fn flip(disk: &mut SimulatedDisk, at: u64) {
    disk.sectors_mut()[at as usize + 40] ^= 1;
}

#[test]
fn a_record_is_durable_when_the_flush_has_ended() {
    let (mut disk, mut store) = formatted();
    assert_eq!(store.append(b"one"), Ok(0));
    store.pump(&mut disk).unwrap();
    assert_eq!(store.append(b"two"), Ok(1));
    store.pump(&mut disk).unwrap();
    assert_eq!((store.durable(), store.next_record()), (0, 2));
    assert!(disk.step());
    store.pump(&mut disk).unwrap();
    assert_eq!(store.durable(), 1, "the second waits for the next flush");
    settle(&mut store, &mut disk);
    assert_eq!(store.durable(), 2);
    disk.cut_power();
    let (mut store, found) = recover(&mut disk).unwrap();
    assert_eq!(found, ["one", "two"]);
    assert_eq!(store.durable(), 1, "the last batch is written again");
    settle(&mut store, &mut disk);
    assert_eq!(store.durable(), 2);
}

#[test]
fn a_batch_with_one_intact_copy_is_taken_and_repaired() {
    for at in [MIRROR, LOG] {
        let (mut disk, mut store) = formatted();
        put(&mut store, &mut disk, "one");
        flip(&mut disk, at);
        let (mut store, found) = recover(&mut disk).unwrap();
        assert_eq!(found, ["one"]);
        settle(&mut store, &mut disk);
        flip(&mut disk, MIRROR + LOG - at);
        assert_eq!(recover(&mut disk).unwrap().1, ["one"]);
    }
}

#[test]
fn a_torn_tail_is_cut_off_and_damage_is_not() {
    let (mut disk, mut store) = formatted();
    put(&mut store, &mut disk, "one");
    put(&mut store, &mut disk, "two");
    put(&mut store, &mut disk, "three");
    let image = disk.sectors_mut().to_vec();
    // Both copies of the last batch are damaged, so its flush cannot have ended.
    flip(&mut disk, LOG + 2 * SECTOR as u64);
    flip(&mut disk, MIRROR);
    assert_eq!(recover(&mut disk).unwrap().1, ["one", "two"]);
    // The first batch is only in the log.
    disk.sectors_mut().copy_from_slice(&image);
    flip(&mut disk, LOG);
    let damage = RecoveryError::Damaged(Damage::Records(0));
    assert_eq!(recover(&mut disk).err(), Some(damage));
}

#[test]
fn a_write_that_was_lost_in_an_earlier_lap_is_damage() {
    let (mut disk, mut store) = formatted();
    for lap in 0..3 {
        for record in 0..6 {
            if lap == 2 && record == 3 {
                disk.fail_write(WriteFault::Lost);
            }
            put(&mut store, &mut disk, &format!("{lap}{record}"));
        }
        if lap < 2 {
            store.begin_snapshot().unwrap();
            store.put_chunk(b"all").unwrap();
            settle_chunk(&mut store, &mut disk);
            store.end_snapshot();
            settle(&mut store, &mut disk);
        }
    }
    assert_eq!(recover(&mut disk).err(), Some(RecoveryError::Damaged(Damage::Records(15))));
}

fn settle_chunk(store: &mut Store, disk: &mut SimulatedDisk) {
    store.pump(disk).unwrap();
    disk.step();
    store.pump(disk).unwrap();
}

#[test]
fn a_snapshot_replaces_what_it_reflects() {
    let (mut disk, mut store) = formatted();
    put(&mut store, &mut disk, "one");
    put(&mut store, &mut disk, "two");
    store.begin_snapshot().unwrap();
    assert_eq!(store.begin_snapshot(), Err(Refusal::Busy));
    put_chunk_after_record(&mut store, &mut disk);
    assert_eq!(store.snapshot(), 0);
    assert_eq!(recover(&mut disk).unwrap().1, ["one", "two", "three"], "it has not ended");
    store.end_snapshot();
    settle(&mut store, &mut disk);
    assert_eq!(store.snapshot(), 1);
    assert_eq!(recover(&mut disk).unwrap().1, ["one and two", "three"]);
    // The disk has only one copy of the chunk.
    let area = AREAS + 4 * SECTOR as u64;
    flip(&mut disk, area);
    assert_eq!(recover(&mut disk).err(), Some(RecoveryError::Damaged(Damage::Chunk(0))));
}

fn put_chunk_after_record(store: &mut Store, disk: &mut SimulatedDisk) {
    store.append(b"three").unwrap();
    store.put_chunk(b"one and two").unwrap();
    assert_eq!(store.put_chunk(b"too soon"), Err(Refusal::Busy));
    settle_chunk(store, disk);
}

#[test]
fn a_full_log_refuses_until_a_snapshot_makes_room() {
    let (mut disk, mut store) = formatted();
    let refusal = loop {
        match store.append(&[7; 5_000]) {
            Ok(_) => settle(&mut store, &mut disk),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!((refusal, store.fullness()), (Refusal::Full, 1_000));
    store.begin_snapshot().unwrap();
    store.end_snapshot();
    settle(&mut store, &mut disk);
    assert_eq!(store.fullness(), 0);
    assert_eq!(store.append(&[7; 5_000]), Ok(4));
    assert_eq!(store.append(&vec![7; store.record_max() + 1]), Err(Refusal::TooLong));
    assert_eq!(store.append(&[7; 5_000]), Err(Refusal::Busy), "the batch is full");
}

#[test]
fn a_snapshot_that_is_too_long_is_given_up() {
    let (mut disk, mut store) = formatted();
    put(&mut store, &mut disk, "one");
    store.begin_snapshot().unwrap();
    for _ in 0..2 {
        store.put_chunk(&[1; 5_000]).unwrap();
        settle_chunk(&mut store, &mut disk);
    }
    assert_eq!(store.put_chunk(b"more"), Err(Refusal::Full));
    assert!(!store.is_writing_snapshot());
    assert_eq!(recover(&mut disk).unwrap().1, ["one"]);
}

/// An earlier snapshot must not come back, although the log still has all records behind it.
#[test]
fn a_misdirected_write_hides_no_snapshot() {
    let (mut disk, mut store) = formatted();
    put(&mut store, &mut disk, "one");
    store.begin_snapshot().unwrap();
    put_chunk_after_record(&mut store, &mut disk);
    store.end_snapshot();
    settle(&mut store, &mut disk);
    for record in ["four", "five"] {
        put(&mut store, &mut disk, record);
    }
    let image = disk.sectors_mut().to_vec();
    let length = PARAMETERS.batch_sectors as usize * SECTOR;
    for at in (0..=image.len() - length).step_by(SECTOR) {
        disk.sectors_mut().copy_from_slice(&image);
        disk.sectors_mut()[at..][..length].fill(7);
        match recover(&mut disk) {
            Ok((_, found)) => assert_eq!(found, ["one and two", "three", "four", "five"], "{at}"),
            Err(RecoveryError::Damaged(_)) => assert!((at + length) as u64 > AREAS, "{at}"),
            Err(error) => panic!("{at}: {error}"),
        }
    }
}

#[test]
fn a_store_that_starts_over_waits_for_all_earlier_flushes() {
    let (mut disk, mut store) = formatted();
    store.append(b"one").unwrap();
    store.pump(&mut disk).unwrap();
    store.start_over(2, &mut disk);
    store.start_over(3, &mut disk);
    store.append(b"two").unwrap();
    for _ in 0..3 {
        assert!(disk.step());
        store.pump(&mut disk).unwrap();
        assert_eq!(store.durable(), 0, "the record is written only now");
    }
    settle(&mut store, &mut disk);
    assert_eq!(store.durable(), 1);
}

#[test]
fn a_killed_process_leaves_no_failed_write_to_the_next_one() {
    for seed in 0..20 {
        let mut disk = SimulatedDisk::new(PARAMETERS.disk_bytes(), seed);
        let mut store = Store::format(PARAMETERS, 1, &mut disk);
        settle(&mut store, &mut disk);
        put(&mut store, &mut disk, "one");
        disk.fail_write(WriteFault::Failed);
        store.append(b"two").unwrap();
        store.pump(&mut disk).unwrap();
        disk.kill_process();
        let (mut store, _) = recover(&mut disk).unwrap();
        settle(&mut store, &mut disk);
    }
}

/// A process is killed when its snapshot has freed the full log, but only in the kernel's memory.
#[test]
fn a_recovered_store_overwrites_nothing_before_its_superblock_is_durable() {
    for seed in 0..100 {
        let mut disk = SimulatedDisk::new(PARAMETERS.disk_bytes(), seed);
        let mut store = Store::format(PARAMETERS, 1, &mut disk);
        settle(&mut store, &mut disk);
        for record in ["one", "two", "three", "four", "five", "six", "seven", "eight"] {
            put(&mut store, &mut disk, record);
        }
        store.begin_snapshot().unwrap();
        store.end_snapshot();
        store.pump(&mut disk).unwrap();
        disk.kill_process();
        let (mut store, _) = recover(&mut disk).unwrap();
        if store.append(b"nine").is_ok() {
            store.pump(&mut disk).unwrap();
            disk.cut_power();
            recover(&mut disk).unwrap();
        }
    }
}

#[test]
fn an_error_of_the_disk_is_final() {
    for fault in [Some(WriteFault::Failed), None] {
        let (mut disk, mut store) = formatted();
        match fault {
            Some(fault) => disk.fail_write(fault),
            None => disk.fail_flush(),
        }
        store.append(b"one").unwrap();
        store.pump(&mut disk).unwrap();
        disk.step();
        let error = store.pump(&mut disk).unwrap_err();
        assert_eq!(store.pump(&mut disk), Err(error));
        assert_eq!((store.durable(), store.append(b"two")), (0, Err(Refusal::Failed)));
    }
}

#[test]
fn a_store_of_another_version_is_refused() {
    let (mut disk, _) = formatted();
    disk.sectors_mut()[7] = b'1';
    // The first version had the copies of a superblock beside each other, in the first four sectors.
    for sector in [1, 2, 3] {
        disk.sectors_mut().copy_within(..SECTOR, sector * SECTOR);
    }
    disk.sectors_mut()[4 * SECTOR..].fill(0);
    let image = disk.sectors_mut().to_vec();
    assert_eq!(recover(&mut disk).err(), Some(RecoveryError::Version));
    assert_eq!(disk.sectors_mut(), image);
    let larger = Store::recover(Parameters::new(2, 9, 4), &mut disk, |_| {});
    assert_eq!(larger.err(), Some(RecoveryError::Version), "whatever the sizes");
    // One damaged byte is no other version.
    let (mut disk, _) = formatted();
    disk.sectors_mut()[7] = b'1';
    assert!(recover(&mut disk).is_ok());
}

#[test]
fn what_is_no_store_of_these_sizes_is_refused() {
    let mut blank = SimulatedDisk::new(PARAMETERS.disk_bytes(), 1);
    assert_eq!(recover(&mut blank).err(), Some(RecoveryError::Blank));
    blank.sectors_mut()[7] = 1;
    assert_eq!(recover(&mut blank).err(), Some(RecoveryError::Damaged(Damage::Superblocks)));
    let (mut disk, _) = formatted();
    let other = Store::recover(Parameters::new(2, 8, 3), &mut disk, |_| {});
    assert_eq!(other.err(), Some(RecoveryError::Sizes));
    let larger = Store::recover(Parameters::new(2, 9, 4), &mut disk, |_| {});
    assert_eq!(larger.err(), Some(RecoveryError::Sizes));
    let shorter = Store::recover(Parameters::new(1, 8, 4), &mut disk, |_| {});
    assert_eq!(shorter.err(), Some(RecoveryError::Sizes));
    assert_eq!(disk.bytes(), PARAMETERS.disk_bytes());
    disk.fail_read();
    assert!(matches!(recover(&mut disk), Err(RecoveryError::Disk(_))));
}
