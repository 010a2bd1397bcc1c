//! HTML and SVG text in which all foreign text is escaped: everything that is not written in the source of
//! this crate goes through [`Markup::text`] or an attribute.

use std::borrow::Cow;

/// HTML or SVG text that is being built.
#[derive(Debug, Default)]
pub(super) struct Markup(String);

/// Attributes of an element, in the order in which they are written.
pub(super) type Attributes<'a> = &'a [(&'static str, Cow<'a, str>)];

/// A number as a coordinate, rounded to a tenth of a unit, which is finer than any screen.
pub(super) fn coordinate(number: f64) -> Cow<'static, str> {
    let text = format!("{number:.1}");
    Cow::Owned(text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned))
}

impl Markup {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // Characters that HTML forbids, even as references.
                '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\x7f'..='\u{9f}' => {
                    self.0.push('\u{fffd}')
                }
                other => self.0.push(other),
            }
        }
        self
    }

    pub(super) fn open(&mut self, name: &'static str, attributes: Attributes<'_>) -> &mut Self {
        self.0.push('<');
        self.0.push_str(name);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            self.text(value);
            self.0.push('"');
        }
        self.0.push('>');
        self
    }

    pub(super) fn close(&mut self, name: &'static str) -> &mut Self {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
        self
    }

    /// An element that contains only text.
    pub(super) fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        text: &str,
    ) -> &mut Self {
        self.open(name, attributes).text(text).close(name)
    }

    /// An element that shows `title` when the pointer rests on it.
    pub(super) fn titled(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        title: &str,
    ) -> &mut Self {
        self.open(name, attributes).element("title", &[], title).close(name)
    }

    pub(super) fn line_break(&mut self) -> &mut Self {
        self.0.push('\n');
        self
    }

    pub(super) fn append(&mut self, other: Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut markup = Markup::new();
        markup.element("p", &[("class", "\"><script>".into())], "a < b & c");
        assert_eq!(markup.finish(), "<p class=\"&quot;&gt;&lt;script&gt;\">a &lt; b &amp; c</p>");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(coordinate(3.0), "3");
        assert_eq!(coordinate(3.12), "3.1");
        assert_eq!(coordinate(-0.25), "-0.2");
    }

    proptest! {
        #[test]
        fn no_text_can_open_an_element_or_leave_an_attribute(text in any::<String>()) {
            let mut markup = Markup::new();
            markup.text(&text);
            let escaped = markup.finish();
            prop_assert!(!escaped.contains(['<', '>', '"', '\'', '\0']));
        }
    }
}
