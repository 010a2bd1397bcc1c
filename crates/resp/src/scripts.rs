//! The scripts of common lock libraries, recognised by their SHA-1. There is no Lua interpreter: unknown scripts
//! are refused.

use sha1::{Digest, Sha1};

use crate::action::Action;
use crate::parse::number;
use crate::reply::Reply;

/// The effect of a known script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Removes KEYS[1] if it holds ARGV[1].
    Release,
    /// If KEYS[1] holds ARGV[1]: sets its expiry to ARGV[2] milliseconds from now if ARGV[3] is "0", or otherwise
    /// delays its expiry by that time.
    Extend,
    /// If KEYS[1] holds ARGV[1]: sets its expiry to ARGV[2] milliseconds from now.
    Reacquire,
}

/// Known scripts, by the SHA-1 of their text without white space and with single quotation marks.
const KNOWN: [(&str, Script); 5] = [
    // The scripts of `Lock` in redis-py.
    ("1179e693b29fda653472cdbc3d5eb3ba1316ffd4", Script::Release),
    ("f74f76b5b5a8290bbcc17f740b44fdbe5a56ff72", Script::Extend),
    ("44f9927bdcb1e8eac2b677d9aff29ef04afdca7a", Script::Reacquire),
    // The script in the documentation of `SET`, and the similar one with `pexpire`.
    ("588c09aae54753afd325984e748a4e18801f6735", Script::Release),
    ("54dbf8d5b825beba1c79c099bd30cabbb42c44b9", Script::Reacquire),
];

/// The SHA-1 of a text in hexadecimal, as clients write it.
pub fn sha1_of(text: &[u8]) -> String {
    Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The known script with this text; white space and the kind of quotation marks do not matter.
pub fn find(text: &[u8]) -> Option<Script> {
    let mut bare: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    bare.iter_mut().filter(|byte| **byte == b'"').for_each(|byte| *byte = b'\'');
    while bare.last() == Some(&b';') {
        bare.pop();
    }
    let sha1 = sha1_of(&bare);
    KNOWN.iter().find(|(known, _)| *known == sha1).map(|(_, script)| *script)
}

impl Script {
    /// The action of the script on its key.
    ///
    /// # Errors
    /// The arguments do not fit the script.
    pub fn action(self, arguments: &[&[u8]]) -> Result<Action, Reply> {
        let wrong = || Reply::error("ERR the script takes other arguments");
        let token = arguments.first().ok_or_else(wrong)?.to_vec();
        if self == Self::Release {
            return Ok(Action::DeleteIf(token));
        }
        let after = arguments.get(1).and_then(|text| number(text)).and_then(|ms| u64::try_from(ms).ok());
        let after = after.ok_or_else(wrong)?;
        let adds = self == Self::Extend && *arguments.get(2).ok_or_else(wrong)? == b"0";
        Ok(Action::ExpireIf(token, after, adds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_known_however_it_is_set() {
        let text = "if redis.call(\"get\",KEYS[1]) == ARGV[1] then\n\treturn redis.call(\"del\",KEYS[1])\nelse return 0 end";
        assert_eq!(find(text.as_bytes()), Some(Script::Release));
        assert_eq!(find(text.replace('"', "'").as_bytes()), Some(Script::Release));
        assert_eq!(find(text.replace("del", "get").as_bytes()), None);
        // FIPS 180, the message "abc".
        assert_eq!(sha1_of(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }

    #[test]
    fn arguments_are_checked() {
        assert_eq!(Script::Release.action(&[b"me"]), Ok(Action::DeleteIf(b"me".to_vec())));
        assert!(Script::Release.action(&[]).is_err() && Script::Extend.action(&[b"me", b"5"]).is_err());
        let extend = |how: &[u8]| Script::Extend.action(&[b"me", b"5", how]);
        assert_eq!(extend(b"0"), Ok(Action::ExpireIf(b"me".to_vec(), 5, true)));
        assert_eq!(extend(b"1"), Ok(Action::ExpireIf(b"me".to_vec(), 5, false)));
        assert!(Script::Reacquire.action(&[b"me", b"-5"]).is_err());
    }
}
