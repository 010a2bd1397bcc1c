//! Ends that answer each other, and give up when nothing happens.

use weft_net::{Heard, RegionEnd, RegionEndError};
use weft_time::Duration;

use crate::RdmaError;

/// Longest time without news.
const STALL: Duration = Duration::from_secs(10);
/// Longest wait for a packet between two looks.
const LOOK: Duration = Duration::from_us(20);

impl From<RegionEndError> for RdmaError {
    fn from(error: RegionEndError) -> Self {
        match error {
            RegionEndError::Bind(error) => Self::Bind(error),
            RegionEndError::Io(error) => Self::Io(error),
            error => Self::Failed(error.to_string()),
        }
    }
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
