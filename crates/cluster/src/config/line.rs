//! Line numbers in a file, for error messages.

use toml::Spanned;

/// The number of the line in which an item begins.
pub(super) fn line_of<T>(text: &str, found: &Spanned<T>) -> usize {
    let before = text.as_bytes().get(..found.span().start).unwrap_or_default();
    before.iter().filter(|&&byte| byte == b'\n').count() + 1
}
