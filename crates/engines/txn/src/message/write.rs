//! Encoders of message bodies. The header precedes them.
#![allow(missing_docs, reason = "the table of messages says what the fields are")]

use super::*;

/// The most bytes of a report's body that precede the attempts.
pub(crate) const REPORT_HEAD_BYTES: usize = 1 + 8 + 5 * NODES_MAX + 4 + 1;

/// The most bytes of a LOG message's body that precede its writes.
pub(crate) const LOG_HEAD_BYTES_MAX: usize = fields::ID_BYTES_MAX + 8;

pub fn execute(out: &mut Vec<u8>, id: TransactionId, wants: impl Iterator<Item = Want>) {
    write_id(out, id);
    write_list(out, wants);
}

pub fn lock(out: &mut Vec<u8>, id: TransactionId, claims: impl Iterator<Item = Claim>) {
    write_id(out, id);
    write_list(out, claims);
}

/// The caller appends the list of items ([`write_list`]).
pub fn executed(out: &mut Vec<u8>, id: TransactionId, shard: usize, status: Status, atomic: bool) {
    write_id(out, id);
    out.extend_from_slice(&[shard as u8, status as u8, u8::from(atomic)]);
}

pub fn validate(out: &mut Vec<u8>, id: TransactionId, shard: usize, seen: impl Iterator<Item = Seen>) {
    write_id(out, id);
    out.push(shard as u8);
    write_list(out, seen);
}

pub fn validated(out: &mut Vec<u8>, id: TransactionId, shard: usize, status: Status) {
    write_id(out, id);
    out.extend_from_slice(&[shard as u8, status as u8]);
}

pub fn place(out: &mut Vec<u8>, place: &RecordPart) {
    write_id(out, place.id);
    out.extend_from_slice(&[place.shard as u8, place.part, place.parts]);
}

pub fn refused(out: &mut Vec<u8>, at: &RecordPart, shards: u16, lack: Lack) {
    place(out, at);
    out.extend_from_slice(&shards.to_be_bytes());
    out.push(lack as u8);
}

pub fn log<'a, T: Item<'a>>(
    out: &mut Vec<u8>,
    at: &RecordPart,
    shards: u16,
    needs: Room,
    writes: impl Iterator<Item = T>,
) {
    log_head(out, at, shards, needs);
    write_list(out, writes);
}

fn log_head(out: &mut Vec<u8>, at: &RecordPart, shards: u16, needs: Room) {
    place(out, at);
    out.extend_from_slice(&shards.to_be_bytes());
    // A transaction has at most 64 keys, so each number fits in a byte.
    out.extend_from_slice(&[needs.pages as u8, needs.blocks as u8]);
}

/// Appends the body of LOG with differences where they are shorter, for replicas that hold the former values.
/// Returns whether any write is a difference.
pub fn log_differences<'a>(
    out: &mut Vec<u8>,
    at: &RecordPart,
    shards: u16,
    needs: Room,
    replacements: impl Iterator<Item = Replacement<'a>>,
) -> bool {
    log_head(out, at, shards, needs);
    let count_at = out.len();
    out.push(0);
    let mut shorter = false;
    for replacement in replacements {
        shorter |= replacement.write_shorter(out);
        out[count_at] += 1;
    }
    shorter
}

pub fn marks(out: &mut Vec<u8>, heard: u64, written: u64, applied: u64, asks: bool) {
    for number in [heard, written, applied] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.push(u8::from(asks));
}

pub fn ship<'a>(
    out: &mut Vec<u8>,
    id: TransactionId,
    procedure: ProcedureId,
    input: &[u8],
    wants: impl Iterator<Item = Want>,
    local: impl Iterator<Item = Got<'a>>,
) {
    write_id(out, id);
    out.extend_from_slice(&procedure.0.to_be_bytes());
    out.extend_from_slice(&(input.len() as u16).to_be_bytes());
    out.extend_from_slice(input);
    write_list(out, wants);
    write_list(out, local);
}

pub fn shipped(out: &mut Vec<u8>, id: TransactionId, status: Status, reason: u8, shards: u16, answer: &[u8]) {
    write_id(out, id);
    out.extend_from_slice(&[status as u8, reason]);
    out.extend_from_slice(&shards.to_be_bytes());
    out.extend_from_slice(&(answer.len() as u16).to_be_bytes());
    out.extend_from_slice(answer);
}

pub fn report(
    out: &mut Vec<u8>,
    asks: bool,
    (base, decided): (&Base, &Watermarks),
    (part, parts): (u16, u16),
    held: impl Iterator<Item = Held>,
) {
    out.push(u8::from(asks));
    out.extend_from_slice(&base.epoch.0.to_be_bytes());
    out.extend_from_slice(&base.full.bits().to_be_bytes());
    out.extend_from_slice(&base.joining.bits().to_be_bytes());
    for watermark in decided {
        fields::write_count(out, *watermark);
    }
    out.extend_from_slice(&part.to_be_bytes());
    out.extend_from_slice(&parts.to_be_bytes());
    write_list(out, held);
}
