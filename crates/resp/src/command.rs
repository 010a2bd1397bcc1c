//! The list of commands, and the parsing of their arguments.

use crate::action::{Action, Condition, ExpireCondition, Expiry, TimeForm};
use crate::parse::number;
use crate::reply::Reply;

/// The description of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Number of words including the name; if negative, the least number.
    pub arity: i8,
    /// Whether it may change a key.
    pub writes: bool,
    /// Index of the first key, index of the last key (negative: from the end), and the step between keys; all 0 if
    /// there are no keys.
    pub keys: (i8, i8, i8),
}

const fn form(name: &'static str, arity: i8, writes: bool, keys: (i8, i8, i8)) -> Form {
    Form { name, arity, writes, keys }
}

const NONE: (i8, i8, i8) = (0, 0, 0);
const ONE: (i8, i8, i8) = (1, 1, 1);
const ALL: (i8, i8, i8) = (1, -1, 1);

/// All commands, sorted by name.
pub const COMMANDS: [Form; 69] = [
    form("append", 3, true, ONE),
    form("auth", -2, false, NONE),
    form("client", -2, false, NONE),
    form("cluster", -2, false, NONE),
    form("command", -1, false, NONE),
    form("config", -2, false, NONE),
    form("dbsize", 1, false, NONE),
    form("decr", 2, true, ONE),
    form("decrby", 3, true, ONE),
    form("del", -2, true, ALL),
    form("discard", 1, false, NONE),
    form("echo", 2, false, NONE),
    form("eval", -3, true, NONE),
    form("evalsha", -3, true, NONE),
    form("exec", 1, false, NONE),
    form("exists", -2, false, ALL),
    form("expire", -3, true, ONE),
    form("expireat", -3, true, ONE),
    form("expiretime", 2, false, ONE),
    form("flushall", -1, true, NONE),
    form("flushdb", -1, true, NONE),
    form("get", 2, false, ONE),
    form("getdel", 2, true, ONE),
    form("getex", -2, true, ONE),
    form("getrange", 4, false, ONE),
    form("getset", 3, true, ONE),
    form("hello", -1, false, NONE),
    form("incr", 2, true, ONE),
    form("incrby", 3, true, ONE),
    form("info", -1, false, NONE),
    form("keys", 2, false, NONE),
    form("latency", -2, false, NONE),
    form("lolwut", -1, false, NONE),
    form("memory", -2, false, NONE),
    form("mget", -2, false, ALL),
    form("mset", -3, true, (1, -1, 2)),
    form("multi", 1, false, NONE),
    form("object", -2, false, NONE),
    form("persist", 2, true, ONE),
    form("pexpire", -3, true, ONE),
    form("pexpireat", -3, true, ONE),
    form("pexpiretime", 2, false, ONE),
    form("ping", -1, false, NONE),
    form("psetex", 4, true, ONE),
    form("pttl", 2, false, ONE),
    form("quit", -1, false, NONE),
    form("readonly", 1, false, NONE),
    form("readwrite", 1, false, NONE),
    form("reset", 1, false, NONE),
    form("role", 1, false, NONE),
    form("scan", -2, false, NONE),
    form("script", -2, false, NONE),
    form("select", 2, false, NONE),
    form("set", -3, true, ONE),
    form("setex", 4, true, ONE),
    form("setnx", 3, true, ONE),
    form("setrange", 4, true, ONE),
    form("slowlog", -2, false, NONE),
    form("strlen", 2, false, ONE),
    form("substr", 4, false, ONE),
    form("time", 1, false, NONE),
    form("touch", -2, false, ALL),
    form("ttl", 2, false, ONE),
    form("type", 2, false, ONE),
    form("unlink", -2, true, ALL),
    form("unwatch", 1, false, NONE),
    form("wait", 3, false, NONE),
    form("waitaof", 4, false, NONE),
    form("watch", -2, false, ALL),
];

/// The command with this name, in upper or lower case.
///
/// # Errors
/// There is no such command, or the number of its words is wrong. The texts are those of Redis.
pub fn find(words: &[&[u8]]) -> Result<&'static Form, Reply> {
    let mut name = [0; 16];
    let word = words.first().copied().unwrap_or_default();
    let known = name.get_mut(..word.len()).and_then(|name| {
        name.copy_from_slice(word);
        name.make_ascii_lowercase();
        let place = COMMANDS.binary_search_by(|form| form.name.as_bytes().cmp(name));
        place.ok().map(|place| &COMMANDS[place])
    });
    let Some(known) = known else {
        let word = String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
        let lists = ["hset", "hget", "lpush", "rpush", "sadd", "zadd", "xadd", "publish", "subscribe"];
        let hint = if lists.contains(&word.to_ascii_lowercase().as_str()) {
            "; this door has strings only, and no channels"
        } else {
            ""
        };
        return Err(Reply::error(format!("ERR unknown command '{word}'{hint}")));
    };
    let count = words.len() as i64;
    let arity = i64::from(known.arity);
    if if arity >= 0 { count != arity } else { count < -arity } {
        return Err(wrong_number(known.name));
    }
    Ok(known)
}

/// The error for a command with too few or too many words.
pub fn wrong_number(name: &str) -> Reply {
    Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
}

/// The error for words that are no valid arguments.
pub fn syntax() -> Reply {
    Reply::error("ERR syntax error")
}

/// How the answers for several keys are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// There is only one answer.
    One,
    /// An array of all answers.
    All,
    /// The sum of all answers.
    Sum,
    /// The first error, or `OK`.
    Ok,
}

/// A key and the action on it.
pub type Part<'a> = (&'a [u8], Action);

/// The actions of a command on its keys.
#[derive(Debug, PartialEq, Eq)]
pub enum Parts<'a> {
    /// One action, whose answer is that of the command.
    One(Part<'a>),
    /// Several actions, and how their answers are combined.
    Several(Vec<Part<'a>>, Combine),
}

/// The actions of a command on its keys; `None` if the command concerns no keys.
///
/// # Errors
/// An invalid argument. The texts are those of Redis.
pub fn of_keys<'a>(form: &Form, words: &[&'a [u8]], now_ms: u64) -> Result<Option<Parts<'a>>, Reply> {
    let each = |action: Action, combine| {
        let parts = words[1..].iter().map(|&key| (key, action.clone()));
        Ok(Some(Parts::Several(parts.collect(), combine)))
    };
    let one = |action: Action| Ok(Some(Parts::One((words[1], action))));
    let value = |at: usize| words[at].to_vec();
    let time = |seconds, absolute| TimeForm { seconds, absolute };
    let plain = |value: Vec<u8>, expiry| Action::Set {
        value,
        expiry,
        condition: Condition::Always,
        returns: false,
        counts: false,
    };
    match form.name {
        "get" => one(Action::Get),
        "strlen" => one(Action::Length),
        "type" => one(Action::Type),
        "ttl" => one(Action::TimeToLive(time(true, false))),
        "pttl" => one(Action::TimeToLive(time(false, false))),
        "expiretime" => one(Action::TimeToLive(time(true, true))),
        "pexpiretime" => one(Action::TimeToLive(time(false, true))),
        "getrange" | "substr" => one(Action::Range(integer(words[2])?, integer(words[3])?)),
        "set" => one(set(words, now_ms)?),
        "setnx" => one(Action::Set {
            value: value(2),
            expiry: Expiry::Never,
            condition: Condition::Absent,
            returns: false,
            counts: true,
        }),
        "setex" | "psetex" => {
            let seconds = form.name == "setex";
            one(plain(value(3), Expiry::At(moment(form.name, words[2], time(seconds, false), now_ms)?)))
        }
        "getset" => one(Action::Set {
            value: value(2),
            expiry: Expiry::Never,
            condition: Condition::Always,
            returns: true,
            counts: false,
        }),
        "getdel" => one(Action::GetDelete),
        "getex" => one(Action::GetExpire(get_expire(words, now_ms)?)),
        "append" => one(Action::Append(value(2))),
        "setrange" => {
            let from = u64::try_from(integer(words[2])?);
            one(Action::SetRange(from.map_err(|_| Reply::error("ERR offset is out of range"))?, value(3)))
        }
        "incr" => one(Action::Add(1)),
        "decr" => one(Action::Add(-1)),
        "incrby" => one(Action::Add(integer(words[2])?)),
        "decrby" => {
            let by = integer(words[2])?.checked_neg();
            one(Action::Add(by.ok_or_else(|| Reply::error("ERR decrement would overflow"))?))
        }
        "expire" | "pexpire" | "expireat" | "pexpireat" => {
            let seconds = !form.name.starts_with('p');
            let at = past_or_future(form.name, words[2], time(seconds, form.name.ends_with("at")), now_ms)?;
            one(Action::Expire(at, expire_condition(&words[3..])?))
        }
        "persist" => one(Action::Persist),
        "exists" | "touch" => each(Action::Exists, Combine::Sum),
        "del" | "unlink" => each(Action::Delete, Combine::Sum),
        "mget" => each(Action::Get, Combine::All),
        "mset" => {
            if words.len().is_multiple_of(2) {
                return Err(wrong_number(form.name));
            }
            let pairs = words[1..].chunks_exact(2);
            let parts = pairs.map(|pair| (pair[0], plain(pair[1].to_vec(), Expiry::Never)));
            Ok(Some(Parts::Several(parts.collect(), Combine::Ok)))
        }
        "watch" => each(Action::Watch, Combine::Ok),
        _ => Ok(None),
    }
}

/// A whole number.
pub fn integer(word: &[u8]) -> Result<i64, Reply> {
    number(word).ok_or_else(|| Reply::error("ERR value is not an integer or out of range"))
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

/// Parses a time, which may be in the past.
fn past_or_future(name: &str, word: &[u8], form: TimeForm, now_ms: u64) -> Result<u64, Reply> {
    let wrong = || Reply::error(format!("ERR invalid expire time in '{name}' command"));
    let ms = integer(word)?.checked_mul(if form.seconds { 1_000 } else { 1 }).ok_or_else(wrong)?;
    let at = if form.absolute { Some(ms) } else { ms.checked_add(now_ms as i64) };
    Ok(at.ok_or_else(wrong)?.max(0) as u64)
}

/// Parses the time of an expiry, which must be a positive number.
fn moment(name: &str, word: &[u8], form: TimeForm, now_ms: u64) -> Result<u64, Reply> {
    if integer(word)? <= 0 {
        return Err(Reply::error(format!("ERR invalid expire time in '{name}' command")));
    }
    past_or_future(name, word, form, now_ms)
}

/// The form of the time that follows this word.
fn announced(word: &[u8]) -> Option<TimeForm> {
    let forms = [("EX", true, false), ("PX", false, false), ("EXAT", true, true), ("PXAT", false, true)];
    let found = forms.iter().find(|(name, ..)| is(word, name));
    found.map(|&(_, seconds, absolute)| TimeForm { seconds, absolute })
}

fn set(words: &[&[u8]], now_ms: u64) -> Result<Action, Reply> {
    let (mut expiry, mut condition, mut returns) = (None, Condition::Always, false);
    let mut rest = words[3..].iter();
    while let Some(word) = rest.next() {
        let has_condition = condition != Condition::Always;
        if is(word, "NX") && !has_condition {
            condition = Condition::Absent;
        } else if is(word, "XX") && !has_condition {
            condition = Condition::Present;
        } else if is(word, "GET") {
            returns = true;
        } else if is(word, "KEEPTTL") && expiry.is_none() {
            expiry = Some(Expiry::Keep);
        } else if let Some(form) = announced(word).filter(|_| expiry.is_none()) {
            let time = rest.next().ok_or_else(syntax)?;
            expiry = Some(Expiry::At(moment("set", time, form, now_ms)?));
        } else {
            return Err(syntax());
        }
    }
    let expiry = expiry.unwrap_or(Expiry::Never);
    Ok(Action::Set { value: words[2].to_vec(), expiry, condition, returns, counts: false })
}

fn get_expire(words: &[&[u8]], now_ms: u64) -> Result<Option<Expiry>, Reply> {
    match &words[2..] {
        [] => Ok(None),
        [word] if is(word, "PERSIST") => Ok(Some(Expiry::Never)),
        [word, time] => {
            let form = announced(word).ok_or_else(syntax)?;
            Ok(Some(Expiry::At(moment("getex", time, form, now_ms)?)))
        }
        _ => Err(syntax()),
    }
}

fn expire_condition(words: &[&[u8]]) -> Result<ExpireCondition, Reply> {
    let names = [
        ("NX", ExpireCondition::IfNone),
        ("XX", ExpireCondition::IfSome),
        ("GT", ExpireCondition::IfLater),
        ("LT", ExpireCondition::IfEarlier),
    ];
    match words {
        [] => Ok(ExpireCondition::Always),
        [word] => {
            names.iter().find(|(name, _)| is(word, name)).map(|(_, condition)| *condition).ok_or_else(|| {
                Reply::error(format!("ERR Unsupported option {}", String::from_utf8_lossy(word)))
            })
        }
        _ => Err(Reply::error("ERR one condition is the most that this door takes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    fn parts(line: &str) -> Result<Parts<'_>, Reply> {
        let words = words(line);
        Ok(of_keys(find(&words)?, &words, 1_000)?.expect("a command of keys"))
    }

    #[test]
    fn every_command_is_found() {
        for form in &COMMANDS {
            let count = usize::from(form.arity.unsigned_abs());
            let words = [vec![form.name.as_bytes()], vec![&b"1"[..]; count - 1]].concat();
            assert_eq!(find(&words), Ok(form));
        }
    }

    #[test]
    fn options_of_set() {
        let action = |line| match parts(line) {
            Ok(Parts::One((_, action))) => Ok(action),
            Ok(Parts::Several(..)) => panic!("one key"),
            Err(reply) => Err(reply),
        };
        let Ok(Action::Set { expiry, condition, returns, .. }) = action("SET k v nx Px 50 GET") else {
            panic!()
        };
        assert_eq!((expiry, condition, returns), (Expiry::At(1_050), Condition::Absent, true));
        for line in ["set k v NX XX", "set k v EX", "set k v EX 5 PX 5", "set k v KEEPTTL EX 5", "set k v W"]
        {
            assert_eq!(action(line), Err(syntax()), "{line}");
        }
        for line in
            ["set k v EX 0", "setex k -1 v", "psetex k 9223372036854775807 v", "set k v EX 9223372036854775"]
        {
            let error = action(line).unwrap_err();
            assert!(matches!(error, Reply::Error(text) if text.contains("invalid expire time")), "{line}");
        }
    }

    #[test]
    fn words_are_counted() {
        for line in ["get", "get a b", "mset a", "mset a 1 b", "del", "append a"] {
            let error = parts(line).unwrap_err();
            assert!(matches!(error, Reply::Error(text) if text.contains("wrong number")), "{line}");
        }
        let error = parts("lpush a b").unwrap_err();
        assert!(matches!(error, Reply::Error(text) if text.contains("strings only")));
        assert!(find(&words(&"x".repeat(200))).is_err());
    }

    #[test]
    fn several_keys() {
        let Parts::Several(parts, combine) = parts("mset a 1 b 2").unwrap() else { panic!() };
        assert_eq!((parts.len(), parts[1].0, combine), (2, &b"b"[..], Combine::Ok));
    }
}
