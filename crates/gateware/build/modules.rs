//! Finds the files that a module needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{package, read};

/// Whether `module` has a file in the list.
pub(crate) fn has_module(module: &str, files: &[PathBuf]) -> bool {
    files.iter().any(|path| path.file_stem().is_some_and(|stem| stem == module))
}

/// The `files` that `module` needs, in their order: its own file, and recursively those of the packages that
/// it imports and of the modules that it instantiates. A module or package is in the file of its name.
pub(crate) fn of_module(module: &str, files: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let by_name: BTreeMap<String, usize> =
        (0..).zip(files).map(|(index, path)| (stem(path), index)).collect();
    let top =
        by_name.get(module).ok_or_else(|| format!("no file of the list is that of the module {module}"))?;
    let (mut needed, mut next) = (vec![false; files.len()], vec![*top]);
    while let Some(index) = next.pop() {
        if !std::mem::replace(&mut needed[index], true) {
            let text = package::without_comments(&read(&files[index])?);
            let words = package::tokens(&text);
            for (word, follower) in words.iter().zip(&words[1..]) {
                // `name #(…)`, `name u_name (…)`, `name::…`
                let used = matches!(&**follower, "#" | ":")
                    || follower.starts_with("u_")
                    || follower.starts_with("i_");
                next.extend(by_name.get(word).filter(|_| used));
            }
        }
    }
    Ok(files.iter().zip(needed).filter(|(_, needed)| *needed).map(|(path, _)| path.clone()).collect())
}
