//! The end whose memory is written to.

use std::sync::Arc;

use weft_cuda::{Findings, Flag, Gpu, Place, Watcher};
use weft_net::{Heard, RegionEnd};

use super::sender::pattern;
use super::{CudaBench, Job, News};
use crate::RdmaError;
use crate::pair::{Stream, answer, linger, look, told};

/// Looks at a kernel that makes no progress before it is given up: a look takes 20 us at least when nothing happens.
const PATIENCE: u64 = 500_000;

/// What came of a job here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    /// The memory holds what was sent.
    pub(super) intact: bool,
    /// Of the kernel.
    pub(super) findings: Findings,
}

/// Serves a job.
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

/// Whether every byte of the region that was written is there.
fn holds_all(bench: &CudaBench, end: &mut RegionEnd) -> bool {
    end.read(0, bench.stream().written())
        .is_ok_and(|bytes| bytes.iter().enumerate().all(|(place, byte)| *byte == pattern(place)))
}

/// Lets the kernel compare each round, and answers when it has.
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
        if let Some(Heard::Told(round)) = look(end)?
            && news == News::Completion
        {
            watcher.tell(round.into());
        }
        looks += 1;
        if watcher.checked() > answered {
            (answered, looks) = (answered + 1, 0);
            end.tell(answered as u32)?;
        } else if looks % 1_024 == 0 && watcher.has_ended()? || looks > PATIENCE {
            return Err(RdmaError::Failed(format!("the kernel waits for round {} in vain", answered + 1)));
        }
    }
    linger(end)?;
    Ok(watcher.finish()?)
}

#[allow(unsafe_code)]
fn start(gpu: &Arc<Gpu>, place: &Place, words: u32, flag: Flag, rounds: u64) -> Result<Watcher, RdmaError> {
    // Safety: the memory is attached to the card of `end`, which lives longer than the watcher.
    Ok(unsafe { Watcher::start(gpu, place, words, flag, rounds) }?)
}
