//! Two ends on loopback addresses, each driven by a thread of its own, and a stream of WRITEs between them.

use std::net::Ipv4Addr;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use weft_net::{Heard, IdlePolicy, RegionEnd, RegionEndError, RegionMemoryKind};
use weft_time::Duration;
use weft_verbs::PathMtu;

use crate::RdmaError;

/// Longest time without news.
const STALL: Duration = Duration::from_secs(10);
/// Longest wait for a packet between two looks.
const LOOK: Duration = Duration::from_us(20);
const PATH_MTU: PathMtu = PathMtu::Bytes4096;

/// Pollers that offer their core to others: a machine may have fewer cores than there are pollers.
const IDLE: IdlePolicy = IdlePolicy::SHARE;

impl From<RegionEndError> for RdmaError {
    fn from(error: RegionEndError) -> Self {
        match error {
            RegionEndError::Bind(error) => Self::Bind(error),
            RegionEndError::Io(error) => Self::Io(error),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Addresses that only this process uses.
fn addresses() -> [Ipv4Addr; 2] {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    [1, 2].map(|last| Ipv4Addr::new(127, high, low, last))
}

/// Connects a receiver in this thread, whose region is of this kind, with a sender of as many bytes in another, and
/// returns what came of both.
pub(super) fn with_pair<S: Send, R>(
    kind: RegionMemoryKind,
    bytes: u64,
    send: impl FnOnce(&mut RegionEnd) -> Result<S, RdmaError> + Send,
    serve: impl FnOnce(&mut RegionEnd) -> Result<R, RdmaError>,
) -> Result<(S, R), RdmaError> {
    // The other end has ended before it said who it is; its own error says why.
    fn gone<E>(_: E) -> RdmaError {
        RdmaError::Failed("the other end has ended".into())
    }
    let [receiver, sender] = addresses();
    let mut end = RegionEnd::open(receiver, kind, IDLE)?;
    let (to_sender, from_receiver) = channel();
    let (to_receiver, from_sender) = channel();
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let mut end = RegionEnd::open(sender, RegionMemoryKind::Own(bytes), IDLE)?;
            // The sender connects first and begins second: its peer is ready then.
            end.connect(&from_receiver.recv().map_err(gone)?, PATH_MTU)?;
            to_receiver.send(end.introduction()).map_err(gone)?;
            send(&mut end)
        });
        let served = (|| {
            to_sender.send(end.introduction()).map_err(gone)?;
            end.connect(&from_sender.recv().map_err(gone)?, PATH_MTU)?;
            serve(&mut end)
        })();
        drop(to_sender);
        let sent = sending.join().expect("the sender does not panic");
        match (sent, served) {
            (Ok(sent), Ok(served)) => Ok((sent, served)),
            (_, Err(error)) | (Err(error), _) => Err(error),
        }
    })
}

/// What an end hears next.
pub(super) fn hear(end: &mut RegionEnd) -> Result<Heard, RdmaError> {
    let heard = end.hear_within(STALL)?;
    heard.ok_or_else(|| RdmaError::Failed(format!("nothing has completed in {STALL}")))
}

/// What an end has heard, without waiting.
pub(super) fn look(end: &mut RegionEnd) -> Result<Option<Heard>, RdmaError> {
    Ok(end.poll(LOOK)?)
}

/// What the peer tells next.
pub(super) fn told(end: &mut RegionEnd) -> Result<u32, RdmaError> {
    loop {
        if let Heard::Told(value) = hear(end)? {
            return Ok(value);
        }
    }
}

/// Tells the peer a value, and waits until it has arrived.
pub(super) fn answer(end: &mut RegionEnd, value: u32) -> Result<(), RdmaError> {
    end.tell(value)?;
    while hear(end)? != Heard::Written {}
    Ok(())
}

/// Lets the card go on until nothing has come for a while: the last acknowledgement may have been lost.
pub(super) fn linger(end: &mut RegionEnd) -> Result<(), RdmaError> {
    while end.hear_within(Duration::from_ms(20))?.is_some() {}
    Ok(())
}

/// What a stream tells: it goes on, or it is over.
const GOES_ON: u32 = 0;
const OVER: u32 = 1;

/// WRITEs one behind the other. The receiver is told of some, so that it knows a slow stream from one that stalls, and
/// answers the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) size_bytes: u32,
    pub(super) messages: u64,
    /// Messages under way, each in a place of its own of both regions.
    pub(super) depth: u32,
}

impl Stream {
    /// Bytes of all places.
    pub(super) fn bytes(&self) -> usize {
        self.depth as usize * self.size_bytes as usize
    }

    /// Bytes of the places that are written to.
    pub(super) fn written(&self) -> usize {
        self.messages.min(self.depth.into()) as usize * self.size_bytes as usize
    }

    /// Sends what lies in the sender's region. Returns nanoseconds from the first post to the last answer.
    pub(super) fn send(&self, end: &mut RegionEnd) -> Result<u64, RdmaError> {
        let (mut posted, mut completed, mut answered) = (0, 0, false);
        let begin = Instant::now();
        while !answered {
            while posted < self.messages && posted - completed < self.depth.into() {
                let place = posted % u64::from(self.depth) * u64::from(self.size_bytes);
                posted += 1;
                let told = match posted {
                    last if last == self.messages => Some(OVER),
                    some if some.is_multiple_of(self.depth.into()) => Some(GOES_ON),
                    _ => None,
                };
                end.write(place, self.size_bytes, place, told)?;
            }
            match hear(end)? {
                Heard::Told(_) => answered = true,
                Heard::Written => completed += 1,
            }
        }
        Ok(begin.elapsed().as_nanos() as u64)
    }

    /// Answers the last message.
    pub(super) fn serve(end: &mut RegionEnd) -> Result<(), RdmaError> {
        while told(end)? != OVER {}
        answer(end, OVER)
    }

    /// Payload over a time, in bits per second.
    pub(super) fn goodput(&self, nanoseconds: u64) -> f64 {
        self.messages as f64 * f64::from(self.size_bytes) * 8e9 / nanoseconds as f64
    }
}
