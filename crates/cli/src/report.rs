//! `weft report`: draws results as one HTML page.

use std::path::{Component, Path, PathBuf};

use clap::Args;
use weft_report::{DataTypes, OtherResults, Run, Transactions, drawings, page};
use weft_results::{ResultError, RunResult, write_whole};

use crate::failure::{Failure, Verdict};
use crate::output::{self, Staging};

/// The results, and the output.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArguments {
    /// Results of any kind that `--json` of weft bench, sim, check or rdt explain wrote
    #[arg(required = true, value_name = "FILE")]
    results: Vec<PathBuf>,
    /// HTML page to write
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Write each figure as an SVG file into this folder, too
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Title of the page
    #[arg(long, default_value = "Weft")]
    title: String,
}

impl ReportArguments {
    /// Reads all results, then writes the page.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        output::check_file(&self.out)?;
        let (mut types, mut transactions) = (DataTypes::default(), Transactions::default());
        let mut others = OtherResults::default();
        let (mut results, mut paths) = (Vec::new(), Vec::new());
        for path in &self.results {
            let text = std::fs::read_to_string(path)
                .map_err(|error| ResultError::Unreadable { path: path.clone(), reason: error.to_string() })?;
            if types.take(&text, path)? || transactions.take(&text, path)? {
                continue;
            }
            if RunResult::is_in(&text) {
                results.push(RunResult::from_json(&text, path)?);
                paths.push(path.clone());
            } else {
                others.take(&text, path)?;
            }
        }
        let names: Vec<_> = paths.iter().map(|path| name(path, &paths)).collect();
        let folders: Vec<_> = paths.iter().map(|path| folder(path, &self.out)).collect();
        let runs: Vec<_> = results
            .iter()
            .zip(&names)
            .zip(&folders)
            .map(|((result, name), folder)| Run { name, result, folder })
            .collect();
        let page = page(&self.title, &runs, &types, &transactions, &others);
        let mut written = format!("wrote {}\n", self.out.display());
        if let Some(folder) = &self.svg {
            let staging = Staging::new(folder)?;
            let drawings = drawings(&page);
            for drawing in &drawings {
                let path = staging.path().join(format!("{}.svg", drawing.name));
                write_whole(&path, drawing.svg.as_bytes())?;
            }
            staging.publish()?;
            written += &format!("wrote {} figures into {}\n", drawings.len(), folder.display());
        }
        write_whole(&self.out, page.as_bytes())?;
        output::print(&written)?;
        Ok(Verdict::Good)
    }
}

/// Name of a run: the stem of its file's name, or the path if two files have the same stem.
fn name(path: &Path, all: &[PathBuf]) -> String {
    let alike = all.iter().filter(|other| other.file_stem() == path.file_stem()).count();
    match path.file_stem() {
        Some(stem) if alike == 1 => stem.to_string_lossy().into_owned(),
        _ => path.display().to_string(),
    }
}

/// The path of the result's folder, relative to the page's folder.
fn folder(result: &Path, page: &Path) -> String {
    let whole = |path: &Path| {
        let folder = output::parent(path);
        folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
    };
    between(&whole(page), &whole(result))
}

/// The relative path from one absolute path to another.
fn between(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<Component<'_>>, Vec<_>) = (from.components().collect(), to.components().collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[common..].iter().map(|_| "..".into());
    let down = to[common..].iter().map(|component| component.as_os_str().to_string_lossy());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_between_folders() {
        for (from, to, expected) in
            [("/a/b", "/a/b", ""), ("/a", "/a/b/c", "b/c"), ("/a/b", "/a/c", "../c"), ("/a/b", "/", "../..")]
        {
            assert_eq!(between(Path::new(from), Path::new(to)), expected);
        }
    }

    #[test]
    fn runs_of_files_with_one_name_are_told_apart() {
        let paths = ["a/x.json", "b/x.json", "y.json"].map(PathBuf::from);
        let names: Vec<_> = paths.iter().map(|path| name(path, &paths)).collect();
        assert_eq!(names, ["a/x.json", "b/x.json", "y"]);
    }
}
