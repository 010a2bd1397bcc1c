//! What the inspection finds in packets of known kind.
//!
//! `tools/inspection/export.py` draws the packets from the held-out part of its corpus. Each file has packets of one
//! kind: the length of a packet as four bytes, little-endian, then its payload.

use std::io;
use std::path::{Path as FilePath, PathBuf};

use serde::Serialize;
use thiserror::Error;
use weft_gateware::RtlServices;
use weft_results::NicModel;
use weft_results::table::{Table, grouped};
use weft_service::inspect::Verdict;
use weft_service::{Direction, Flow, Packet, Path, Services, Setting, TapKind};

/// The longest payload of a packet.
const BYTES_MAX: usize = 4_096;
/// Number of packets that pass one behind the other.
const TOGETHER: usize = 256;
const FLOW: Flow = Flow { queue_pair: 0, direction: Direction::Receive };
/// Power-on content of the gates' storage: random bits.
const POWER_ON_SEED: u32 = 7;

/// Reason for which packets cannot be judged.
#[derive(Debug, Error)]
pub enum PacketsError {
    /// The file is not there.
    #[error(
        "{0} is not there; write the packets with `tools/inspection/corpus.py` and then `tools/inspection/export.py` \
         (docs/inspection.md)"
    )]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    /// The file is no list of packets.
    #[error(
        "{0} is no list of packets of 1 to {BYTES_MAX} bytes; write it anew with `tools/inspection/export.py`"
    )]
    Malformed(PathBuf),
}

/// A share of packets, with Wilson's interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// The share.
    pub rate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of flagged packets.
    pub flagged: u64,
    /// Number of packets.
    pub packets: u64,
}

impl Rate {
    /// The share of flagged packets; there must be packets.
    pub fn new(flagged: u64, packets: u64) -> Self {
        const Z: f64 = 1.959_964;
        let (count, rate) = (packets as f64, flagged as f64 / packets as f64);
        let scale = 1.0 + Z * Z / count;
        let middle = (rate + Z * Z / (2.0 * count)) / scale;
        let half = Z / scale * (rate * (1.0 - rate) / count + Z * Z / (4.0 * count * count)).sqrt();
        Self { rate, low: (middle - half).max(0.0), high: (middle + half).min(1.0), flagged, packets }
    }
}

/// The shares of flagged packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Detection {
    /// Of packets that are code throughout.
    pub detection_rate_whole: Rate,
    /// Of packets in which code is embedded in clean data.
    pub detection_rate_embedded: Rate,
    /// Of clean packets.
    pub false_positive_rate: Rate,
}

impl Detection {
    pub(super) fn to_text(self) -> String {
        let percent = |share: f64| format!("{:.3}", share * 100.0);
        let rows = [
            ("code throughout", self.detection_rate_whole),
            ("code embedded", self.detection_rate_embedded),
            ("clean", self.false_positive_rate),
        ];
        let table = Table::of(rows)
            .words("packets", |(name, _)| *name)
            .numbers("of them", "", |(_, rate)| grouped(rate.packets))
            .numbers("flagged", "%", |(_, rate)| percent(rate.rate))
            .numbers("95 % from", "%", |(_, rate)| percent(rate.low))
            .numbers("to", "%", |(_, rate)| percent(rate.high));
        format!("\n{table}\n")
    }
}

/// Judges the packets in a folder: in software, or in gates by the Verilated module of the services, without the card.
pub(super) fn measure(nic: NicModel, folder: &FilePath) -> Result<Detection, PacketsError> {
    // All files are read before the first packet is judged.
    let [whole, embedded, clean] = ["whole", "embedded", "clean"].map(|name| read(&folder.join(name)));
    let (whole, embedded, clean) = (whole?, embedded?, clean?);
    let mut path: Box<dyn Path> = match nic {
        NicModel::Soft => Box::new(Services::new()),
        NicModel::Rtl => Box::new(RtlServices::new(None, POWER_ON_SEED)),
    };
    path.configure(FLOW, Setting { tap: TapKind::Inspect, ..Setting::default() });
    Ok(Detection {
        detection_rate_whole: judge(&mut *path, &whole),
        detection_rate_embedded: judge(&mut *path, &embedded),
        false_positive_rate: judge(&mut *path, &clean),
    })
}

fn judge(path: &mut dyn Path, packets: &[Packet]) -> Rate {
    let verdicts = packets.chunks(TOGETHER).flat_map(|packets| path.pass(packets));
    let flagged = verdicts.filter(|outcome| Verdict::from_bits(outcome.verdict).flagged).count();
    Rate::new(flagged as u64, packets.len() as u64)
}

/// The packets of a file.
fn read(path: &FilePath) -> Result<Vec<Packet>, PacketsError> {
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => PacketsError::Missing(path.to_owned()),
        _ => PacketsError::Unreadable(path.to_owned(), error),
    })?;
    let packets = parse(&bytes).filter(|packets| !packets.is_empty());
    packets.ok_or_else(|| PacketsError::Malformed(path.to_owned()))
}

fn parse(mut bytes: &[u8]) -> Option<Vec<Packet>> {
    let mut packets = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        let (payload, rest) = rest.split_at_checked(length).filter(|_| (1..=BYTES_MAX).contains(&length))?;
        packets.push(Packet { flow: FLOW, offset: 0, bytes: payload.to_vec() });
        bytes = rest;
    }
    Some(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_wilsons() {
        let rate = Rate::new(31, 100_000);
        // As tools/inspection/evaluate.py prints it.
        assert!((rate.low - 0.000_218_4).abs() < 5e-7 && (rate.high - 0.000_440_0).abs() < 5e-7, "{rate:?}");
        assert_eq!((Rate::new(0, 9).low, Rate::new(9, 9).high), (0.0, 1.0));
    }

    #[test]
    fn packets_are_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("whole");
        assert!(matches!(read(&path), Err(PacketsError::Missing(_))));
        let put = |bytes: &[u8]| std::fs::write(&path, bytes).unwrap();
        for wrong in [&[][..], &[1, 0, 0], &[2, 0, 0, 0, 9], &[0, 0, 0, 0], &[1, 16, 0, 0]] {
            put(wrong);
            assert!(matches!(read(&path), Err(PacketsError::Malformed(_))), "{wrong:?}");
        }
        put(&[1, 0, 0, 0, 9, 2, 0, 0, 0, 7, 8]);
        let bytes: Vec<_> = read(&path).unwrap().into_iter().map(|packet| packet.bytes).collect();
        assert_eq!(bytes, [vec![9], vec![7, 8]]);
    }
}
