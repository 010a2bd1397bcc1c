//! The list of the gateware's source files.

use std::path::{Path, PathBuf};

use crate::{read, rerun_if_changed};

/// The files in a list, one a line, each relative to the list. `+incdir+` lines and comments are skipped.
pub(crate) fn list(list: &Path) -> Result<Vec<PathBuf>, String> {
    rerun_if_changed(list);
    let folder = list.parent().unwrap_or(Path::new("."));
    let text = read(list)?;
    let names = text.lines().map(str::trim);
    let files =
        names.filter(|line| !line.is_empty() && !line.starts_with(['#', '+']) && !line.starts_with("//"));
    files
        .map(|name| {
            let path = folder.join(name);
            rerun_if_changed(&path);
            if path.is_file() {
                Ok(path)
            } else {
                Err(format!("{} lists {name}, which is not there", list.display()))
            }
        })
        .collect()
}
