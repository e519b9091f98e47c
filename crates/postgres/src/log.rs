//! The log file of the server. It never deletes the newest part and keeps at most one older file.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::data_dir::DataDir;
use crate::error::Error;

/// If the log is larger than this, the next start renames it.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The maximum part of a log that an error shows.
const TAIL_LINES_MAX: usize = 12;
const TAIL_BYTES_MAX: u64 = 16 * 1024;

/// Opens the log for appending. Also returns the offset at which this run begins.
pub(crate) fn open(folder: &DataDir) -> Result<(File, u64), Error> {
    let path = &folder.log;
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX) {
        fs::rename(path, &folder.old_log).map_err(Error::io("rename", path))?;
    }
    let file = File::options().create(true).append(true).open(path);
    let file = file.map_err(Error::io("open", path))?;
    let begin = file.metadata().map_err(Error::io("look at", path))?.len();
    Ok((file, begin))
}

/// The last lines of the log from the offset `begin` on.
pub(crate) fn tail(path: &Path, begin: u64) -> String {
    let text = read_end(path, begin).unwrap_or_else(|error| format!("(not readable: {error})"));
    last_lines(&text)
}

/// The last lines of a text.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(TAIL_LINES_MAX);
    lines.get(skipped..).unwrap_or_default().join("\n")
}

fn read_end(path: &Path, begin: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let begin = begin.max(length.saturating_sub(TAIL_BYTES_MAX));
    file.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_contains_lines_of_this_run_only() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("log");
        let old = "old\n";
        let new: String = (1..=40).map(|number| format!("line {number}\n")).collect();
        fs::write(&path, format!("{old}{new}")).unwrap();
        let tail = tail(&path, 4);
        assert!(
            tail.starts_with("line 29\n") && tail.ends_with("line 40"),
            "{tail}"
        );
        fs::write(&path, "old\nnew").unwrap();
        assert_eq!(super::tail(&path, 4), "new");
    }

    #[test]
    fn a_log_over_the_limit_is_renamed() {
        let root = tempfile::tempdir().unwrap();
        let folder = DataDir::open(root.path()).unwrap();
        File::create(&folder.log)
            .unwrap()
            .set_len(LOG_BYTES_MAX + 1)
            .unwrap();
        let (_file, begin) = open(&folder).unwrap();
        assert_eq!(
            (begin, fs::metadata(&folder.old_log).unwrap().len()),
            (0, LOG_BYTES_MAX + 1)
        );
    }
}
