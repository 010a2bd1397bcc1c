//! The receiver: the end whose memory is written.

use std::sync::Arc;

use weft_cuda::{Findings, Flag, Gpu, Place, Watcher};
use weft_net::{RegionEnd, RegionEvent};

use super::sender::pattern;
use super::{CudaBench, Job, News};
use crate::RdmaError;
use crate::pair::{Stream, answer, linger, poll_event, told};

/// Number of polls without progress of the kernel after which the run fails. A poll takes at least 20 us if
/// nothing happens.
const PATIENCE: u64 = 500_000;

/// The receiver's result of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    /// Whether the memory contains what was sent.
    pub(super) intact: bool,
    /// The kernel's findings.
    pub(super) findings: Findings,
}

/// Does the receiver's part of a job.
pub(super) fn serve(
    bench: &CudaBench,
    gpu: &Arc<Gpu>,
    end: &mut RegionEnd,
    place: Option<Place>,
    job: Job,
) -> Result<Served, RdmaError> {
    let mut served = Served { intact: true, findings: Findings::default() };
    match job {
        Job::Throughput => {
            Stream::serve(end)?;
            served.intact = holds_all(bench, end);
        }
        Job::Latency => {
            for _ in 0..bench.latency_messages {
                let number = told(end)?;
                answer(end, number)?;
            }
        }
        Job::Rounds(news) => {
            let place = place.expect("only memory that the GPU reads is watched");
            served.findings = watch(bench, gpu, end, &place, news)?;
        }
    }
    Ok(served)
}

/// Whether the region contains every byte that was written.
fn holds_all(bench: &CudaBench, end: &mut RegionEnd) -> bool {
    end.read(0, bench.stream().written())
        .is_ok_and(|bytes| bytes.iter().enumerate().all(|(place, byte)| *byte == pattern(place)))
}

/// Makes the kernel compare the data of each round, and answers each round when the kernel has compared it.
fn watch(
    bench: &CudaBench,
    gpu: &Arc<Gpu>,
    end: &mut RegionEnd,
    place: &Place,
    news: News,
) -> Result<Findings, RdmaError> {
    let flag = match news {
        News::LaterWrite => Flag::InMemory(bench.round_bytes as usize),
        News::Completion => Flag::OfHost,
    };
    let watcher = start(gpu, place, bench.round_bytes / 4, flag, bench.rounds)?;
    let mut answered = 0;
    let mut looks = 0;
    while answered < bench.rounds {
        if let Some(RegionEvent::Notified(round)) = poll_event(end)?
            && news == News::Completion
        {
            watcher.tell(round.into());
        }
        looks += 1;
        if watcher.checked() > answered {
            (answered, looks) = (answered + 1, 0);
            end.notify(answered as u32)?;
        } else if looks % 1_024 == 0 && watcher.has_ended()? || looks > PATIENCE {
            return Err(RdmaError::Failed(format!("the kernel waits for round {} in vain", answered + 1)));
        }
    }
    linger(end)?;
    Ok(watcher.finish()?)
}

#[allow(unsafe_code)]
fn start(gpu: &Arc<Gpu>, place: &Place, words: u32, flag: Flag, rounds: u64) -> Result<Watcher, RdmaError> {
    // Safety: the memory is attached to the card of `end`, which exists longer than the watcher.
    Ok(unsafe { Watcher::start(gpu, place, words, flag, rounds) }?)
}
