//! Answers to clients, in both versions of the protocol.

/// The version of the protocol that a client has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, the default.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// An answer to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A simple string, such as `OK`.
    Word(&'static str),
    /// An error: its code and a text.
    Error(String),
    /// An integer.
    Number(i64),
    /// A string of any bytes.
    Bytes(Vec<u8>),
    /// A text to be displayed as it is.
    Text(String),
    /// A null value.
    Nil,
    /// A null array.
    NilArray,
    /// An array of answers.
    Array(Vec<Reply>),
    /// Pairs of name and value.
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    /// The answer of most commands that write.
    pub const OK: Self = Self::Word("OK");

    /// A binary string as answer.
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bytes(bytes.as_ref().to_vec())
    }

    /// An error as answer; the text begins with its code.
    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// A string, or a null value.
    pub fn optional(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Self::Nil, Self::Bytes)
    }

    /// Appends the encoded answer.
    pub fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        match self {
            Self::Word(word) => write_line(b'+', word.as_bytes(), out),
            // Line ends within the text would end the answer.
            Self::Error(text) => write_line(b'-', text.replace(['\r', '\n'], " ").as_bytes(), out),
            Self::Number(number) => write_number(b':', *number, out),
            Self::Bytes(bytes) => write_bytes(bytes, out),
            Self::Text(text) if protocol == Protocol::Resp3 => {
                write_number(b'=', text.len() as i64 + 4, out);
                out.extend_from_slice(b"txt:");
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Self::Text(text) => write_bytes(text.as_bytes(), out),
            Self::Nil | Self::NilArray if protocol == Protocol::Resp3 => out.extend_from_slice(b"_\r\n"),
            Self::Nil => out.extend_from_slice(b"$-1\r\n"),
            Self::NilArray => out.extend_from_slice(b"*-1\r\n"),
            Self::Array(replies) => {
                write_number(b'*', replies.len() as i64, out);
                replies.iter().for_each(|reply| reply.write(protocol, out));
            }
            Self::Map(pairs) => {
                let (mark, count) = if protocol == Protocol::Resp3 { (b'%', 1) } else { (b'*', 2) };
                write_number(mark, (pairs.len() * count) as i64, out);
                for (name, value) in pairs {
                    name.write(protocol, out);
                    value.write(protocol, out);
                }
            }
        }
    }
}

fn write_line(mark: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(mark);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn write_number(mark: u8, number: i64, out: &mut Vec<u8>) {
    out.push(mark);
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), number.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// Appends the encoding of a string.
pub(crate) fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_number(b'$', bytes.len() as i64, out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, protocol: Protocol) -> String {
        let mut out = Vec::new();
        reply.write(protocol, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn both_versions_say_the_same_in_their_ways() {
        let pair = (Reply::bytes("a"), Reply::Number(i64::MIN));
        let cases = [
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (Reply::error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (Reply::bytes(""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (Reply::Nil, "$-1\r\n", "_\r\n"),
            (Reply::NilArray, "*-1\r\n", "_\r\n"),
            (Reply::Text("x".into()), "$1\r\nx\r\n", "=5\r\ntxt:x\r\n"),
            (Reply::Array(vec![Reply::Number(0), Reply::Nil]), "*2\r\n:0\r\n$-1\r\n", "*2\r\n:0\r\n_\r\n"),
            (
                Reply::Map(vec![pair]),
                "*2\r\n$1\r\na\r\n:-9223372036854775808\r\n",
                "%1\r\n$1\r\na\r\n:-9223372036854775808\r\n",
            ),
        ];
        for (reply, second, third) in cases {
            assert_eq!(written(&reply, Protocol::Resp2), second);
            assert_eq!(written(&reply, Protocol::Resp3), third);
        }
    }
}
