//! A directory that was just opened, with its entries. Pure.
//!
//! They are struct linux_dirent64 as home's kernel gave them: inode u64, offset i64, length u16, type u8, name. KERNEL: getdents(2).

/// Place of the offset of the next entry, and of the entry's length.
const OFFSET: usize = 8;
const LENGTH: usize = 16;
/// An entry with an empty name.
const LEAST: usize = 19;

pub struct Listing {
    bytes: Vec<u8>,
    /// The directory has no more entries.
    end: bool,
    /// So many of the bytes were listed.
    at: usize,
    /// Offset of the description behind them, as lseek(2) takes it.
    pub pos: u64,
    /// The position that home was sent last.
    pub sent_pos: u64,
    /// struct stat of the directory at its open, and the number of the frame that brought it.
    pub stat: (u64, Vec<u8>),
    /// What the known names said of it then ([`Names::unchanged`](super::names::Names::unchanged)).
    pub unchanged: Option<u64>,
}

impl Listing {
    pub fn new(bytes: Vec<u8>, end: bool, stat: (u64, Vec<u8>)) -> Listing {
        Listing {
            bytes,
            end,
            at: 0,
            pos: 0,
            sent_pos: 0,
            stat,
            unchanged: None,
        }
    }

    /// Device and inode. KERNEL: struct stat of x86-64 starts with st_dev and st_ino.
    pub fn id(&self) -> Option<(u64, u64)> {
        let word = |at: usize| {
            let word = self.stat.1.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_ne_bytes(word))
        };
        Some((word(0)?, word(8)?))
    }

    /// The next entries, whole ones, as many as there is room for; none at the directory's end. `None`: home has more, or the
    /// kernel an error.
    pub fn next(&self, room: usize) -> Option<&[u8]> {
        let left = self.bytes.get(self.at..)?;
        if left.is_empty() {
            return self.end.then_some(left);
        }
        let mut len = 0;
        while let Some((entry, _)) = entry(&left[len..]).filter(|(e, _)| len + e <= room) {
            len += entry;
        }
        // KERNEL: EINVAL when the first does not fit.
        (len > 0).then(|| &left[..len])
    }

    /// The program has got that many bytes of entries.
    pub fn listed(&mut self, len: usize) {
        let until = self.at + len;
        while let Some((len, offset)) = self.bytes.get(self.at..until).and_then(entry) {
            self.at += len;
            self.pos = offset;
        }
    }
}

/// Length of the first entry, and the offset behind it.
fn entry(bytes: &[u8]) -> Option<(usize, u64)> {
    let offset = bytes.get(OFFSET..OFFSET + 8)?.try_into().ok()?;
    let len = bytes.get(LENGTH..LENGTH + 2)?.try_into().ok()?;
    let len = usize::from(u16::from_ne_bytes(len));
    (len >= LEAST && len <= bytes.len()).then_some((len, u64::from_ne_bytes(offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(offsets: &[u64]) -> Vec<u8> {
        let one = |offset: &u64| {
            let mut e = vec![0u8; 24];
            e[OFFSET..OFFSET + 8].copy_from_slice(&offset.to_ne_bytes());
            e[LENGTH] = 24;
            e
        };
        offsets.iter().flat_map(one).collect()
    }

    #[test]
    fn whole_entries_are_listed_and_the_offset_follows() {
        let mut l = Listing::new(entries(&[7, 3, 9]), true, (1, Vec::new()));
        assert_eq!(l.next(23), None, "the kernel has the error");
        assert_eq!(l.next(60).map(<[u8]>::len), Some(48));
        l.listed(48);
        assert_eq!(l.pos, 3);
        assert_eq!(l.next(60).map(<[u8]>::len), Some(24));
        l.listed(24);
        assert_eq!((l.pos, l.next(60)), (9, Some([].as_slice())));
    }

    #[test]
    fn a_longer_directory_goes_on_at_home() {
        let mut l = Listing::new(entries(&[5]), false, (1, Vec::new()));
        l.listed(24);
        assert_eq!((l.pos, l.next(60)), (5, None));
        let none = Listing::new(Vec::new(), false, (1, Vec::new()));
        assert_eq!(none.next(60), None);
    }

    #[test]
    fn what_is_no_entry_is_not_listed() {
        let mut odd = entries(&[5, 6]);
        odd[24 + LENGTH] = 0;
        let mut l = Listing::new(odd, true, (1, Vec::new()));
        assert_eq!(l.next(60).map(<[u8]>::len), Some(24));
        l.listed(24);
        assert_eq!(l.next(60), None);
    }
}
