//! What open files hold, as of the moment when the processes stand still.
//!
//! From: `save.rs`. Next: `write.rs`. A file that is read while its program runs on may have lines that the program, begun
//! again, writes once more.

use super::refuse::refused;
use armento_checkpoint::format::FormatError;
use armento_checkpoint::home::Home;
use armento_client::api::Refusal;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

/// Files are copied while the processes stand still up to so many bytes in all: from the page cache some tens of milliseconds.
/// Of others only their length is noted then: what is appended later is left out, what is written over is not.
const STILL_MAX: u64 = 64 << 20;

/// Of each file, by its key in the checkpoint.
pub type Contents = Vec<(u32, Box<dyn Read + Send>)>;

/// Before: the processes stand still.
pub fn hold(home: &Home) -> Result<Contents, Refusal> {
    let mut left = STILL_MAX;
    let all = home.kept_files().into_iter();
    all.map(|(key, path)| {
        let held = hold_one(&path, &mut left);
        let held = held.map_err(|e| FormatError::io("read", &path, e));
        let held = held.map_err(|e| {
            let what = format!("{e}; the processes go on, no file was written");
            refused("not-written", what, "may its user read it?")
        })?;
        Ok((key, held))
    })
    .collect()
}

fn hold_one(path: &Path, left: &mut u64) -> io::Result<Box<dyn Read + Send>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut file = file.take(size);
    if size > *left {
        return Ok(Box::new(file));
    }
    *left -= size;
    let mut bytes = Vec::with_capacity(size as usize);
    file.read_to_end(&mut bytes)?;
    Ok(Box::new(Cursor::new(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_appended_later_is_left_out() {
        let path = std::env::temp_dir().join(format!("armento-held-{}", std::process::id()));
        std::fs::write(&path, b"first").expect("a file");
        let mut none = 0;
        let mut some = STILL_MAX;
        let held = [&mut none, &mut some].map(|left| hold_one(&path, left).expect("held"));
        let mut more = File::options().append(true).open(&path).expect("a file");
        more.write_all(b" second").expect("written");
        for mut reader in held {
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("read");
            assert_eq!(text, "first");
        }
        assert_eq!(some, STILL_MAX - 5);
        let _ = std::fs::remove_file(&path);
    }
}
