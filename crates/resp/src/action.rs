//! The effect of a command on one key, as a pure function: it computes the key's new content and the answer from
//! the key's old content.
//!
//! If a command's effect depends on the key's content, the server reads the key, applies the function, and writes
//! the result if the key has not changed meanwhile. If it has, the server applies the function again. So the
//! functions have no side effects.

use crate::parse::number;
use crate::record::{HEADER_BYTES_MAX, Record};
use crate::reply::Reply;

/// When a key expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key never expires.
    Never,
    /// At the time at which it expired before.
    Keep,
    /// At this time, in milliseconds since 1970.
    At(u64),
}

/// Condition for setting a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The value is set in any case.
    Always,
    /// The key has no value.
    Absent,
    /// The key has a value.
    Present,
}

/// Condition for setting a time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpireCondition {
    /// The time to live is set in any case.
    Always,
    /// The key has no time to live.
    IfNone,
    /// The key has a time to live.
    IfSome,
    /// The new expiry is later; no expiry counts as the latest.
    IfLater,
    /// The new expiry is earlier.
    IfEarlier,
}

/// How a command expresses a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeForm {
    /// In seconds; otherwise in milliseconds.
    pub seconds: bool,
    /// Since 1970; otherwise from now.
    pub absolute: bool,
}

/// The effect of a command on one key, and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Return the value.
    Get,
    /// Return whether there is a value.
    Exists,
    /// Return the type of the value.
    Type,
    /// Return the length of the value.
    Length,
    /// Return a part of the value, with indices as in `GETRANGE`.
    Range(i64, i64),
    /// Return when the key expires.
    TimeToLive(TimeForm),
    /// Set the value.
    Set {
        /// The new value of the key.
        value: Vec<u8>,
        /// When the key expires.
        expiry: Expiry,
        /// Condition for setting it.
        condition: Condition,
        /// Return the previous value.
        returns: bool,
        /// Return 1 if it was set, otherwise 0.
        counts: bool,
    },
    /// Overwrite a part of the value from an offset on.
    SetRange(u64, Vec<u8>),
    /// Append to the value.
    Append(Vec<u8>),
    /// Add to the number in the value.
    Add(i64),
    /// Remove the key. Return 1, or 0 if it is absent.
    Delete,
    /// Remove the key and return its value.
    GetDelete,
    /// Return the value, and set when the key expires, unless `None`.
    GetExpire(Option<Expiry>),
    /// Set when the key expires.
    Expire(u64, ExpireCondition),
    /// Remove the key's expiry.
    Persist,
    /// Remove the key if it has this value: return 1 or 0. Locks are released with this.
    DeleteIf(Vec<u8>),
    /// If the key has this value, set its expiry to this many milliseconds from now, or from its present expiry:
    /// return 1 or 0. Locks are extended with this.
    ExpireIf(Vec<u8>, u64, bool),
    /// Return the key's version, for a later transaction.
    Watch,
    /// Several actions in sequence, if the key has the watched version. An `Err` is an answer that is already
    /// known.
    Transaction(Vec<Result<Action, Reply>>, Option<u64>),
}

/// What an action depends on besides the record.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Time of the command, in milliseconds since 1970.
    pub now_ms: u64,
    /// The longest value of the store, in bytes.
    pub value_bytes_max: usize,
    /// The key's version; `None` if an earlier action in the same round has changed it.
    pub version: Option<u64>,
}

impl Action {
    /// Whether the action never changes a key.
    pub const fn reads(&self) -> bool {
        matches!(
            self,
            Self::Get | Self::Exists | Self::Type | Self::Length | Self::Range(..) | Self::TimeToLive(_)
        )
    }

    /// Applies the action to the record and returns the answer.
    pub fn apply(&self, record: &mut Option<Record>, context: &Context) -> Reply {
        match self {
            Self::Get | Self::Exists | Self::Type | Self::Length | Self::Range(..) | Self::TimeToLive(_) => {
                let held = record.as_ref().map(|record| (&record.value[..], record.expires_ms));
                self.read(held, context.now_ms)
            }
            Self::Set { value, expiry, condition, returns, counts } => {
                let old = record.as_ref().map(|record| record.value.clone());
                let holds = match condition {
                    Condition::Always => true,
                    Condition::Absent => old.is_none(),
                    Condition::Present => old.is_some(),
                };
                if holds {
                    let expires_ms = match expiry {
                        Expiry::Never => None,
                        Expiry::Keep => record.as_ref().and_then(|record| record.expires_ms),
                        Expiry::At(at) => Some(*at),
                    };
                    *record = Some(Record { value: value.clone(), expires_ms });
                }
                match (returns, counts) {
                    (true, _) => Reply::optional(old),
                    (_, true) => Reply::Number(holds.into()),
                    _ if holds => Reply::OK,
                    _ => Reply::Nil,
                }
            }
            Self::SetRange(from, part) => change(record, context, |value| {
                let end = usize::try_from(*from).unwrap_or(usize::MAX).saturating_add(part.len());
                if end > context.value_bytes_max {
                    return Err(too_long(end, context));
                }
                if !part.is_empty() {
                    value.resize(value.len().max(end), 0);
                    value[end - part.len()..end].copy_from_slice(part);
                }
                Ok(value.len() as i64)
            }),
            Self::Append(part) => change(record, context, |value| {
                value.extend_from_slice(part);
                Ok(value.len() as i64)
            }),
            Self::Add(by) => change(record, context, |value| {
                let before = if value.is_empty() { Some(0) } else { number(value) };
                let before =
                    before.ok_or_else(|| Reply::error("ERR value is not an integer or out of range"))?;
                let overflow = || Reply::error("ERR increment or decrement would overflow");
                let sum = before.checked_add(*by).ok_or_else(overflow)?;
                *value = sum.to_string().into_bytes();
                Ok(sum)
            }),
            Self::Delete => Reply::Number(record.take().is_some().into()),
            Self::GetDelete => Reply::optional(record.take().map(|record| record.value)),
            Self::GetExpire(expiry) => {
                let Some(held) = record else { return Reply::Nil };
                let value = held.value.clone();
                match expiry {
                    None | Some(Expiry::Keep) => {}
                    Some(Expiry::Never) => held.expires_ms = None,
                    Some(Expiry::At(at)) => expire(record, *at, context.now_ms),
                }
                Reply::Bytes(value)
            }
            Self::Expire(at, condition) => {
                let Some(held) = record else { return Reply::Number(0) };
                let holds = match (condition, held.expires_ms) {
                    (ExpireCondition::Always, _) => true,
                    (ExpireCondition::IfNone, before) => before.is_none(),
                    (ExpireCondition::IfSome, before) => before.is_some(),
                    (ExpireCondition::IfLater, before) => before.is_some_and(|before| *at > before),
                    (ExpireCondition::IfEarlier, before) => before.is_none_or(|before| *at < before),
                };
                if holds {
                    expire(record, *at, context.now_ms);
                }
                Reply::Number(holds.into())
            }
            Self::Persist => {
                let had = record.as_mut().and_then(|record| record.expires_ms.take());
                Reply::Number(had.is_some().into())
            }
            Self::DeleteIf(value) => {
                let is_it = record.as_ref().is_some_and(|record| record.value == *value);
                if is_it {
                    *record = None;
                }
                Reply::Number(is_it.into())
            }
            Self::ExpireIf(value, after_ms, adds) => {
                let left = record
                    .as_ref()
                    .filter(|record| record.value == *value)
                    .map(|record| record.expires_ms.map(|at| at.saturating_sub(context.now_ms)));
                let after_ms = match left {
                    None => return Reply::Number(0),
                    // A lock without an expiry cannot be extended.
                    Some(None) if *adds => return Reply::Number(0),
                    Some(Some(left)) if *adds => after_ms.saturating_add(left),
                    Some(_) => *after_ms,
                };
                expire(record, context.now_ms.saturating_add(after_ms), context.now_ms);
                Reply::Number(1)
            }
            Self::Watch => Reply::OK,
            Self::Transaction(steps, watched) => {
                if watched.is_some() && *watched != context.version {
                    return Reply::NilArray;
                }
                let mut step = |step: &Result<Action, Reply>| match step {
                    Ok(action) => action.apply(record, context),
                    Err(reply) => reply.clone(),
                };
                Reply::Array(steps.iter().map(&mut step).collect())
            }
        }
    }

    /// The answer of an action that only reads.
    pub fn read(&self, held: Option<(&[u8], Option<u64>)>, now_ms: u64) -> Reply {
        let Some((value, expires_ms)) = held else {
            return match self {
                Self::Get => Reply::Nil,
                Self::Type => Reply::Word("none"),
                Self::TimeToLive(_) => Reply::Number(-2),
                Self::Range(..) => Reply::bytes(""),
                _ => Reply::Number(0),
            };
        };
        match self {
            Self::Exists => Reply::Number(1),
            Self::Type => Reply::Word("string"),
            Self::Length => Reply::Number(value.len() as i64),
            Self::Range(first, last) => Reply::bytes(range(value, *first, *last)),
            Self::TimeToLive(form) => {
                let Some(at) = expires_ms else { return Reply::Number(-1) };
                let ms = if form.absolute { at } else { at.saturating_sub(now_ms) };
                // Rounded as in Redis.
                let rounding = if form.absolute { 0 } else { 500 };
                Reply::Number(if form.seconds { (ms + rounding) / 1_000 } else { ms } as i64)
            }
            _ => Reply::bytes(value),
        }
    }
}

/// Sets when a key expires; removes it if that time has come.
fn expire(record: &mut Option<Record>, at_ms: u64, now_ms: u64) {
    if at_ms <= now_ms {
        *record = None;
    } else if let Some(record) = record {
        record.expires_ms = Some(at_ms);
    }
}

/// Changes a value, which is empty if there is none; if the change fails, the record stays as it was.
fn change(
    record: &mut Option<Record>,
    context: &Context,
    change: impl FnOnce(&mut Vec<u8>) -> Result<i64, Reply>,
) -> Reply {
    let before = record.clone();
    let held = record.get_or_insert_with(|| Record { value: Vec::new(), expires_ms: None });
    let result = change(&mut held.value);
    let length = held.value.len();
    let result = match result {
        Ok(_) if length + HEADER_BYTES_MAX > context.value_bytes_max => Err(too_long(length, context)),
        Ok(number) => Ok(number),
        Err(reply) => Err(reply),
    };
    match result {
        Ok(number) => {
            // `SETRANGE` with an empty string does not create a key.
            if before.is_none() && length == 0 {
                *record = None;
            }
            Reply::Number(number)
        }
        Err(reply) => {
            *record = before;
            reply
        }
    }
}

fn too_long(length: usize, context: &Context) -> Reply {
    let most = context.value_bytes_max.saturating_sub(HEADER_BYTES_MAX);
    Reply::error(format!("ERR the value would have {length} bytes; this cluster takes at most {most}"))
}

/// The bytes from index `first` to `last`; negative indices count from the end.
fn range(value: &[u8], first: i64, last: i64) -> &[u8] {
    let place = |at: i64| if at < 0 { (at + value.len() as i64).max(0) } else { at } as usize;
    if first < 0 && last < 0 && first > last {
        return &[];
    }
    let (first, end) = (place(first), place(last).saturating_add(1).min(value.len()));
    value.get(first..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn context() -> Context {
        Context { now_ms: NOW, value_bytes_max: 40, version: Some(7) }
    }

    fn held(value: &str) -> Option<Record> {
        Some(Record { value: value.into(), expires_ms: None })
    }

    fn set(value: &str, condition: Condition) -> Action {
        Action::Set { value: value.into(), expiry: Expiry::Never, condition, returns: false, counts: false }
    }

    #[test]
    fn conditions_and_answers_of_set() {
        let mut record = None;
        assert_eq!(set("a", Condition::Present).apply(&mut record, &context()), Reply::Nil);
        assert_eq!(set("a", Condition::Absent).apply(&mut record, &context()), Reply::OK);
        assert_eq!(set("b", Condition::Absent).apply(&mut record, &context()), Reply::Nil);
        assert_eq!(record, held("a"));
    }

    #[test]
    fn numbers_are_checked_and_nothing_is_half_done() {
        let mut record = held("9223372036854775807");
        let overflow = Action::Add(1).apply(&mut record, &context());
        assert!(matches!(overflow, Reply::Error(text) if text.contains("overflow")));
        assert_eq!(record, held("9223372036854775807"));
        for text in ["", " 1", "1 ", "01", "-0", "+1", "x"] {
            let (mut record, before) = (held(text), held(text));
            let reply = Action::Add(1).apply(&mut record, &context());
            assert_eq!(matches!(reply, Reply::Error(_)), !text.is_empty(), "{text:?}");
            assert_eq!(record == before, !text.is_empty());
        }
        let mut record = None;
        assert_eq!(Action::Add(-5).apply(&mut record, &context()), Reply::Number(-5));
        assert_eq!(record, held("-5"));
    }

    #[test]
    fn values_stay_within_what_the_store_takes() {
        let mut record = held("x");
        let long = Action::Append(vec![b'y'; 31]).apply(&mut record, &context());
        assert!(matches!(long, Reply::Error(text) if text.contains("at most 31")));
        assert_eq!(record, held("x"));
        for from in [40, u64::MAX] {
            let far = Action::SetRange(from, vec![1]).apply(&mut record, &context());
            assert!(matches!(far, Reply::Error(_)));
        }
        assert_eq!(Action::SetRange(2, b"z".to_vec()).apply(&mut record, &context()), Reply::Number(3));
        assert_eq!(record, held("x\0z"));
    }

    #[test]
    fn ranges_count_from_both_ends() {
        let of = |first, last| Action::Range(first, last).apply(&mut held("This is a string"), &context());
        assert_eq!(of(0, 3), Reply::bytes("This"));
        assert_eq!(of(-3, -1), Reply::bytes("ing"));
        assert_eq!(of(0, -1), Reply::bytes("This is a string"));
        assert_eq!(of(10, 100), Reply::bytes("string"));
        assert_eq!(of(5, 3), Reply::bytes(""));
        assert_eq!(of(-1, -5), Reply::bytes(""));
    }

    #[test]
    fn times_to_live() {
        let mut record = held("x");
        let expire = |at, condition| Action::Expire(at, condition);
        let zero = Reply::Number(0);
        assert_eq!(expire(NOW + 9, ExpireCondition::IfSome).apply(&mut record, &context()), zero);
        assert_eq!(expire(NOW + 9, ExpireCondition::IfLater).apply(&mut record, &context()), zero);
        assert_eq!(
            expire(NOW + 1_500, ExpireCondition::IfNone).apply(&mut record, &context()),
            Reply::Number(1)
        );
        let left = |seconds| Action::TimeToLive(TimeForm { seconds, absolute: false });
        assert_eq!(left(false).apply(&mut record, &context()), Reply::Number(1_500));
        assert_eq!(left(true).apply(&mut record, &context()), Reply::Number(2));
        assert_eq!(Action::Persist.apply(&mut record, &context()), Reply::Number(1));
        assert_eq!(left(true).apply(&mut record, &context()), Reply::Number(-1));
        assert_eq!(expire(NOW, ExpireCondition::Always).apply(&mut record, &context()), Reply::Number(1));
        assert_eq!((record.clone(), left(true).apply(&mut record, &context())), (None, Reply::Number(-2)));
    }

    #[test]
    fn a_lock_is_released_and_extended_by_its_holder_only() {
        let mut record = Some(Record { value: b"me".to_vec(), expires_ms: Some(NOW + 100) });
        let extend = |who: &[u8], adds| Action::ExpireIf(who.to_vec(), 50, adds);
        assert_eq!(extend(b"you", true).apply(&mut record, &context()), Reply::Number(0));
        assert_eq!(extend(b"me", true).apply(&mut record, &context()), Reply::Number(1));
        assert_eq!(record.as_ref().unwrap().expires_ms, Some(NOW + 150));
        assert_eq!(extend(b"me", false).apply(&mut record, &context()), Reply::Number(1));
        assert_eq!(record.as_ref().unwrap().expires_ms, Some(NOW + 50));
        assert_eq!(Action::DeleteIf(b"you".to_vec()).apply(&mut record, &context()), Reply::Number(0));
        assert_eq!(Action::DeleteIf(b"me".to_vec()).apply(&mut record, &context()), Reply::Number(1));
        assert_eq!(record, None);
    }

    #[test]
    fn a_transaction_sees_itself_and_minds_what_is_watched() {
        let steps = vec![Ok(Action::Add(2)), Err(Reply::Word("PONG")), Ok(Action::Get)];
        let mut record = held("1");
        let missed = Action::Transaction(steps.clone(), Some(6)).apply(&mut record, &context());
        assert_eq!((missed, &record), (Reply::NilArray, &held("1")));
        let done = Action::Transaction(steps, Some(7)).apply(&mut record, &context());
        let replies = vec![Reply::Number(3), Reply::Word("PONG"), Reply::bytes("3")];
        assert_eq!((done, record), (Reply::Array(replies), held("3")));
    }
}
