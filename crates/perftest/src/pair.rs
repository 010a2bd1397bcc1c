//! Two connected ends on loopback addresses, each driven by its own thread, and a stream of WRITEs between
//! them.

use std::net::Ipv4Addr;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use weft_net::{IdlePolicy, RegionEnd, RegionEndError, RegionEvent, RegionMemoryKind};
use weft_time::Duration;
use weft_verbs::PathMtu;

use crate::RdmaError;

/// The longest time without an event, after which a run fails.
const STALL: Duration = Duration::from_secs(10);
/// The longest time that one poll waits for a packet.
const LOOK: Duration = Duration::from_us(20);
const PATH_MTU: PathMtu = PathMtu::Bytes4096;

/// The polling threads offer their core to others, because a machine may have fewer cores than polling
/// threads.
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

/// Loopback addresses that only this process uses.
fn addresses() -> [Ipv4Addr; 2] {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    [1, 2].map(|last| Ipv4Addr::new(127, high, low, last))
}

/// Connects a receiver in this thread, whose region has this kind of memory, with a sender in another thread,
/// whose region has as many bytes. Returns the results of both.
pub(super) fn with_pair<S: Send, R>(
    kind: RegionMemoryKind,
    bytes: u64,
    send: impl FnOnce(&mut RegionEnd) -> Result<S, RdmaError> + Send,
    serve: impl FnOnce(&mut RegionEnd) -> Result<R, RdmaError>,
) -> Result<(S, R), RdmaError> {
    // The other end has ended before it sent its introduction. Its own error contains the reason.
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
            // The sender connects first and starts to send last, so its peer is ready by then.
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

/// Waits for the next event of an end.
pub(super) fn wait_event(end: &mut RegionEnd) -> Result<RegionEvent, RdmaError> {
    let heard = end.wait(STALL)?;
    heard.ok_or_else(|| RdmaError::Failed(format!("nothing has completed in {STALL}")))
}

/// The next event of an end. Waits only for a short time.
pub(super) fn poll_event(end: &mut RegionEnd) -> Result<Option<RegionEvent>, RdmaError> {
    Ok(end.poll(LOOK)?)
}

/// Waits for the next value that the peer sends.
pub(super) fn told(end: &mut RegionEnd) -> Result<u32, RdmaError> {
    loop {
        if let RegionEvent::Notified(value) = wait_event(end)? {
            return Ok(value);
        }
    }
}

/// Sends a value to the peer, and waits until it has arrived.
pub(super) fn answer(end: &mut RegionEnd, value: u32) -> Result<(), RdmaError> {
    end.notify(value)?;
    while wait_event(end)? != RegionEvent::Written {}
    Ok(())
}

/// Drives the card until nothing has arrived for a while, because the last acknowledgement may have been
/// lost.
pub(super) fn linger(end: &mut RegionEnd) -> Result<(), RdmaError> {
    while end.wait(Duration::from_ms(20))?.is_some() {}
    Ok(())
}

/// Values that a stream's sender sends: that the stream continues, or that it has ended.
const GOES_ON: u32 = 0;
const OVER: u32 = 1;

/// A stream of WRITEs. Some of them notify the receiver, so that it can distinguish a slow stream from one
/// that has stopped. The receiver answers the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) size_bytes: u32,
    pub(super) messages: u64,
    /// Number of messages outstanding. Each has its own range of both regions.
    pub(super) depth: u32,
}

impl Stream {
    /// Number of bytes of all these ranges.
    pub(super) fn bytes(&self) -> usize {
        self.depth as usize * self.size_bytes as usize
    }

    /// Number of bytes of the ranges that are written.
    pub(super) fn written(&self) -> usize {
        self.messages.min(self.depth.into()) as usize * self.size_bytes as usize
    }

    /// Sends the bytes of the sender's region. Returns the time in nanoseconds from the first post to the
    /// receiver's answer to the last message.
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
            match wait_event(end)? {
                RegionEvent::Notified(_) => answered = true,
                RegionEvent::Written => completed += 1,
            }
        }
        Ok(begin.elapsed().as_nanos() as u64)
    }

    /// The receiver's part: waits for the last message and answers it.
    pub(super) fn serve(end: &mut RegionEnd) -> Result<(), RdmaError> {
        while told(end)? != OVER {}
        answer(end, OVER)
    }

    /// The goodput of a stream that took this time, in bits per second.
    pub(super) fn goodput(&self, nanoseconds: u64) -> f64 {
        self.messages as f64 * f64::from(self.size_bytes) * 8e9 / nanoseconds as f64
    }
}
