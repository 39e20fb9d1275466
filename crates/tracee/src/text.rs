//! A file of /proc as text.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Most files of /proc fit: status has 1.5 KB, stat 0.4.
const FIRST: usize = 4096;

/// Files of /proc report size 0: the standard library would call fstat and then begin with reads of 32 bytes, eight for
/// a status.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut all = vec![0; FIRST];
    let mut had = 0;
    loop {
        match file.read(&mut all[had..]) {
            Ok(0) => break,
            Ok(n) => had += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if had == all.len() {
            all.resize(had * 2, 0);
        }
    }
    all.truncate(had);
    // Names of programs and files need not be UTF-8; of such a line we only parse numbers.
    Ok(String::from_utf8(all)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_and_short_files_are_read_whole() {
        let maps = super::read("/proc/self/maps").expect("own maps");
        assert!(maps.ends_with('\n') && maps.contains("[stack]"));
        let comm = super::read("/proc/self/comm").expect("own name");
        assert_eq!(
            comm,
            std::fs::read_to_string("/proc/self/comm").expect("again")
        );
        assert!(super::read("/proc/self/no-such").is_err());
    }
}
