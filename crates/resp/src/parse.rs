//! Parses requests of RESP from bytes that arrive in pieces of any size.
//!
//! A request is an array of bulk strings, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`, or a line of words for users who type
//! by hand. No byte is examined twice, however small the pieces are, and no request makes the parser keep more
//! than [`REQUEST_BYTES_MAX`] and one piece.

use std::ops::Range;

use thiserror::Error;

/// The most bytes of all strings of a request together.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The most strings in a request.
pub const ARGUMENTS_MAX: usize = 1 << 16;
/// The longest typed line.
const LINE_BYTES_MAX: usize = 1 << 16;
/// The longest line that contains a number.
const NUMBER_BYTES_MAX: usize = 32;

/// Why bytes are no valid request. The connection must be closed, because the start of the next request is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// The number of strings is invalid or too large.
    #[error("Protocol error: invalid multibulk length")]
    ArrayLength,
    /// The length of a string is invalid or too large.
    #[error("Protocol error: invalid bulk length")]
    StringLength,
    /// A request contains something other than strings.
    #[error("Protocol error: expected '$'")]
    NotAString,
    /// A string is not followed by a line end.
    #[error("Protocol error: a string does not end where it said")]
    NoEnd,
    /// A line is too long.
    #[error("Protocol error: too big inline request")]
    LongLine,
    /// A quotation mark is not closed.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No part of the next request has been parsed.
    Begin,
    /// This many strings are still to come.
    Strings(usize),
    /// A string of this many bytes is to come; and the number of strings still to come, including it.
    String(usize, usize),
}

/// Parses the requests that a connection receives.
#[derive(Clone, Debug)]
pub struct Parser {
    buffer: Vec<u8>,
    /// Index of the first byte that is not parsed.
    at: usize,
    /// Index up to which there is no line end.
    searched: usize,
    state: State,
    /// Bytes of the strings of the current request so far.
    bytes: usize,
    /// Ranges of the strings of the request.
    arguments: Vec<Range<usize>>,
    is_complete: bool,
    /// Whether the complete request is to be returned again.
    is_held: bool,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            at: 0,
            searched: 0,
            state: State::Begin,
            bytes: 0,
            arguments: Vec::new(),
            is_complete: false,
            is_held: false,
        }
    }
}

impl Parser {
    /// Appends received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Number of received bytes that do not belong to a request that was found.
    pub fn unread(&self) -> usize {
        self.buffer.len() - self.at
    }

    /// Drops the previous request and parses the next one. Returns whether it is complete; [`Parser::arguments`]
    /// then returns its strings.
    ///
    /// # Errors
    /// The bytes are no valid request.
    pub fn advance(&mut self) -> Result<bool, ProtocolError> {
        if std::mem::take(&mut self.is_held) {
            return Ok(true);
        }
        if self.is_complete {
            self.is_complete = false;
            self.arguments.clear();
            self.bytes = 0;
        }
        loop {
            let found = match self.state {
                State::Begin => self.begin()?,
                State::Strings(0) => {
                    self.state = State::Begin;
                    self.is_complete = true;
                    return Ok(true);
                }
                State::Strings(count) => self.string_length(count)?,
                State::String(length, count) => self.string(length, count)?,
            };
            if self.is_complete {
                return Ok(true);
            }
            if !found {
                self.compact();
                return Ok(false);
            }
        }
    }

    /// Makes the next call of [`Parser::advance`] return the same request again.
    pub fn hold(&mut self) {
        self.is_held = self.is_complete;
    }

    /// The strings of the complete request.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.arguments.iter().map(|range| &self.buffer[range.clone()])
    }

    /// Frees the memory of requests that are finished.
    fn compact(&mut self) {
        let keep = self.arguments.first().map_or(self.at, |first| first.start);
        if keep == self.buffer.len() {
            self.buffer.clear();
        } else if keep > self.buffer.len() / 2 {
            self.buffer.drain(..keep);
        } else {
            return;
        }
        self.at -= keep;
        self.searched = self.searched.saturating_sub(keep);
        for argument in &mut self.arguments {
            *argument = argument.start - keep..argument.end - keep;
        }
    }

    /// The next line without its line end, if it is complete; moves behind it.
    fn line(&mut self, most: usize) -> Result<Option<Range<usize>>, ()> {
        let from = self.searched.max(self.at);
        let Some(length) = self.buffer[from..].iter().position(|&byte| byte == b'\n') else {
            self.searched = self.buffer.len();
            return if self.buffer.len() - self.at > most { Err(()) } else { Ok(None) };
        };
        let end = from + length;
        let line = self.at..end - usize::from(end > self.at && self.buffer[end - 1] == b'\r');
        if line.len() > most {
            return Err(());
        }
        (self.at, self.searched) = (end + 1, end + 1);
        Ok(Some(line))
    }

    fn begin(&mut self) -> Result<bool, ProtocolError> {
        match self.buffer.get(self.at) {
            None => Ok(false),
            Some(b'*') => {
                let line = self.line(NUMBER_BYTES_MAX).map_err(|()| ProtocolError::ArrayLength)?;
                let Some(line) = line else { return Ok(false) };
                let count = number(&self.buffer[line.start + 1..line.end]);
                match count.ok_or(ProtocolError::ArrayLength)? {
                    // Redis ignores empty requests.
                    ..=0 => {}
                    count if count > ARGUMENTS_MAX as i64 => return Err(ProtocolError::ArrayLength),
                    count => self.state = State::Strings(count as usize),
                }
                Ok(true)
            }
            Some(_) => {
                let line = self.line(LINE_BYTES_MAX).map_err(|()| ProtocolError::LongLine)?;
                let Some(line) = line else { return Ok(false) };
                self.words(line)?;
                self.is_complete = !self.arguments.is_empty();
                Ok(true)
            }
        }
    }

    fn string_length(&mut self, count: usize) -> Result<bool, ProtocolError> {
        match self.buffer.get(self.at) {
            None => return Ok(false),
            Some(b'$') => {}
            Some(_) => return Err(ProtocolError::NotAString),
        }
        let line = self.line(NUMBER_BYTES_MAX).map_err(|()| ProtocolError::StringLength)?;
        let Some(line) = line else { return Ok(false) };
        let length = number(&self.buffer[line.start + 1..line.end]).ok_or(ProtocolError::StringLength)?;
        let length = usize::try_from(length).map_err(|_| ProtocolError::StringLength)?;
        if length > REQUEST_BYTES_MAX - self.bytes {
            return Err(ProtocolError::StringLength);
        }
        self.bytes += length;
        self.state = State::String(length, count);
        Ok(true)
    }

    fn string(&mut self, length: usize, count: usize) -> Result<bool, ProtocolError> {
        let end = self.at + length;
        match self.buffer.get(end..end + 2) {
            None => return Ok(false),
            Some(b"\r\n") => {}
            Some(_) => return Err(ProtocolError::NoEnd),
        }
        self.arguments.push(self.at..end);
        self.at = end + 2;
        self.state = State::Strings(count - 1);
        Ok(true)
    }

    /// Splits a line into words: separated by spaces, or between quotation marks, without escapes.
    fn words(&mut self, line: Range<usize>) -> Result<(), ProtocolError> {
        let mut at = line.start;
        while at < line.end {
            match self.buffer[at] {
                b' ' | b'\t' => at += 1,
                mark @ (b'"' | b'\'') => {
                    let rest = &self.buffer[at + 1..line.end];
                    let length = rest.iter().position(|&byte| byte == mark).ok_or(ProtocolError::Quotes)?;
                    let end = at + 1 + length;
                    if end + 1 < line.end && !matches!(self.buffer[end + 1], b' ' | b'\t') {
                        return Err(ProtocolError::Quotes);
                    }
                    self.arguments.push(at + 1..end);
                    at = end + 1;
                }
                _ => {
                    let rest = &self.buffer[at..line.end];
                    let length = rest.iter().position(|byte| matches!(byte, b' ' | b'\t'));
                    let end = at + length.unwrap_or(rest.len());
                    self.arguments.push(at..end);
                    at = end;
                }
            }
        }
        Ok(())
    }
}

/// Parses a decimal number as Redis writes it: no sign but `-`, no leading zeros, no other characters.
pub(crate) fn number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let sign = if digits.len() == text.len() { 1 } else { -1 };
    let add = |sum: i64, digit: &u8| sum.checked_mul(10)?.checked_add(sign * i64::from(digit - b'0'));
    if is_plain { digits.iter().try_fold(0, add) } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Requests = Vec<Vec<Vec<u8>>>;

    fn requests(pieces: &[&[u8]]) -> Result<Requests, ProtocolError> {
        let (mut parser, mut found) = (Parser::default(), Vec::new());
        for piece in pieces {
            parser.feed(piece);
            while parser.advance()? {
                found.push(parser.arguments().map(<[u8]>::to_vec).collect());
            }
        }
        Ok(found)
    }

    fn encode(requests: &Requests) -> Vec<u8> {
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend(format!("*{}\r\n", request.len()).bytes());
            for argument in request {
                bytes.extend(format!("${}\r\n", argument.len()).bytes());
                bytes.extend(argument);
                bytes.extend(b"\r\n");
            }
        }
        bytes
    }

    #[test]
    fn lines_are_requests_too() {
        let found = requests(&[b"PING\r\n\r\nset  'a b' \"c\"\nget"]).unwrap();
        let words: Vec<Vec<&[u8]>> = vec![vec![b"PING"], vec![b"set", b"a b", b"c"]];
        assert_eq!(found, words);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases: [(&[u8], ProtocolError); 9] = [
            (b"*x\r\n", ProtocolError::ArrayLength),
            (b"*70000\r\n", ProtocolError::ArrayLength),
            (b"*1\r\n+OK\r\n", ProtocolError::NotAString),
            (b"*1\r\n$-1\r\n", ProtocolError::StringLength),
            (b"*1\r\n$2000000\r\n", ProtocolError::StringLength),
            (b"*1\r\n$1\r\nab\r\n", ProtocolError::NoEnd),
            (b"set 'a\r\n", ProtocolError::Quotes),
            (b"set 'a'b\r\n", ProtocolError::Quotes),
            (b"*2\r\n$1048576\r\n", ProtocolError::StringLength),
        ];
        for (bytes, error) in &cases[..8] {
            assert_eq!(requests(&[bytes]), Err(*error), "{}", String::from_utf8_lossy(bytes));
        }
        let mut long = cases[8].0.to_vec();
        long.extend(vec![b'x'; 1 << 20]);
        long.extend(b"\r\n$1\r\n");
        assert_eq!(requests(&[&long]), Err(cases[8].1), "all strings together count");
        assert_eq!(requests(&[&vec![b'x'; 70_000]]), Err(ProtocolError::LongLine));
        assert_eq!(requests(&[b"*0\r\n*-1\r\n"]), Ok(vec![]));
    }

    #[test]
    fn numbers_are_written_in_one_way_and_fit_64_bits() {
        for text in
            ["", "-", "-0", "+1", "01", "-01", "1 ", "1a", "9223372036854775808", "-9223372036854775809"]
        {
            assert_eq!(number(text.as_bytes()), None, "{text:?}");
        }
        for value in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(number(value.to_string().as_bytes()), Some(value));
        }
    }

    proptest! {
        #[test]
        fn numbers_are_read(value: i64) {
            prop_assert_eq!(number(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn pieces_do_not_matter(
            requests_made in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..5), 0..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let bytes = encode(&requests_made);
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let (mut pieces, mut from) = (Vec::new(), 0);
            for cut in cuts.into_iter().chain([bytes.len()]) {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(requests(&pieces).unwrap(), requests_made);
        }

        #[test]
        fn no_bytes_are_fatal_and_pieces_change_nothing(
            bytes in prop::collection::vec(prop::sample::select(b"*$-0123\r\n '\"aG".to_vec()), 0..60)
        ) {
            let whole = requests(&[&bytes]);
            let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
            let piecewise = requests(&pieces);
            prop_assert_eq!(whole.is_err(), piecewise.is_err());
            if whole.is_ok() {
                prop_assert_eq!(whole, piecewise);
            }
        }
    }
}
