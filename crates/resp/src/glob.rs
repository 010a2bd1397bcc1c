//! Patterns of `KEYS` and `SCAN`: `*`, `?`, `[a-c]`, `[^a]`, and `\` before a character that stands for itself.

/// Whether `text` matches `pattern`. The time is at most proportional to the product of their lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to continue if the last star matches one byte more.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        let step = if p < pattern.len() { one(&pattern[p..], text.get(t).copied()) } else { None };
        match step {
            Some(length) => (p, t) = (p + length, t + 1),
            None if p == pattern.len() && t == text.len() => return true,
            None => match star {
                Some((after, taken)) if taken < text.len() => {
                    star = Some((after, taken + 1));
                    (p, t) = (after, taken + 1);
                }
                _ => return false,
            },
        }
    }
}

/// The number of bytes of the pattern's first element, if `byte` matches it.
fn one(pattern: &[u8], byte: Option<u8>) -> Option<usize> {
    let byte = byte?;
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => {
            let negates = rest.first() == Some(&b'^');
            let (mut at, mut fits) = (usize::from(negates), false);
            while at < rest.len() && rest[at] != b']' {
                at += usize::from(rest[at] == b'\\' && at + 1 < rest.len());
                let (low, mut high) = (rest[at], rest[at]);
                if rest.get(at + 1) == Some(&b'-') && rest.get(at + 2).is_some_and(|&end| end != b']') {
                    high = rest[at + 2];
                    at += 2;
                }
                fits |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 1;
            }
            (fits != negates).then_some((at + 2).min(pattern.len()))
        }
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_redis() {
        let fits = [
            ("*", ""),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("a\\*", "a*"),
            ("*a*b", "xaxxb"),
            ("[", "["),
            ("[a", "a"),
        ];
        for (pattern, text) in &fits[..8] {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("a\\*", "ab"),
            ("*a*b", "xaxxc"),
            ("", "a"),
            ("a", ""),
        ] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        // Unfinished character classes must not cause a panic.
        for (pattern, text) in &fits[8..] {
            matches(pattern.as_bytes(), text.as_bytes());
        }
        assert!(!matches("a*".repeat(30).as_bytes(), "a".repeat(29).as_bytes()), "and takes no time");
    }
}
