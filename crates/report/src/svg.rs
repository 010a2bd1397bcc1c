//! The figures of a page, each as a separate file.

/// A figure as a separate file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// Name for its file, without extension: the number and the title of the figure.
    pub name: String,
    /// The SVG document.
    pub svg: String,
}

/// All figures of a page that this crate has written.
pub fn drawings(page: &str) -> Vec<Drawing> {
    // Foreign text in the page is escaped and cannot open an element, so every figure element was written by
    // this crate.
    let figures = page.split("<figure>").skip(1).filter_map(|rest| {
        let figure = &rest[..rest.find("</figure>")?];
        let from = figure.find("<svg ")?;
        Some(&figure[from..figure.rfind("</svg>")? + "</svg>".len()])
    });
    figures.enumerate().map(|(at, figure)| drawing(at + 1, figure)).collect()
}

fn drawing(number: usize, figure: &str) -> Drawing {
    let label = figure.split_once("aria-label=\"").and_then(|(_, rest)| Some(rest.split_once('"')?.0));
    let plain: String = label
        .unwrap_or("figure")
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' })
        .collect();
    let words: Vec<_> = plain.split('-').filter(|word| !word.is_empty()).take(8).collect();
    let head = figure.find('>').map_or(figure.len(), |end| end + 1);
    let opened = figure[..head].replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    let style = include_str!("style.css");
    Drawing {
        name: format!("{number:02}-{}", words.join("-")),
        svg: format!("{opened}<style>\n{style}</style>{}\n", &figure[head..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_taken_out_whole() {
        let page = "<svg logo></svg><figure><svg viewBox=\"0 0 9 9\" aria-label=\"p50 &amp; x/s\"><path/></svg>\n\
                    </figure><p><figure>\n<svg viewBox=\"1\"></svg></figure><figure></figure>";
        let found = drawings(page);
        assert_eq!(
            found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
            ["01-p50-amp-x-s", "02-figure"]
        );
        let svg = &found[0].svg;
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 9 9\""));
        assert!(svg.contains("<style>") && svg.ends_with("<path/></svg>\n"));
    }
}
