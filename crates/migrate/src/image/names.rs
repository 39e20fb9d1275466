//! Names of private anonymous memory (prctl(2), PR_SET_VMA_ANON_NAME), which `/proc/PID/maps` shows as `[anon:NAME]`.
//! KERNEL: since 5.17, with CONFIG_ANON_VMA_NAME; mm/madvise.c.

use crate::Result;
use armento_tracee::call::Call;
use armento_tracee::inject::Hold;
use armento_tracee::maps::Vma;
use armento_tracee::pages::Run;
use armento_tracee::region::Code;
use serde::{Deserialize, Serialize};

/// KERNEL: linux/prctl.h.
const PR_SET_VMA: u64 = 0x5356_4d41;
const PR_SET_VMA_ANON_NAME: u64 = 0;
/// KERNEL: ANON_VMA_NAME_MAX_LEN, including the terminating NUL.
const NAME_MAX: usize = 80;
/// Names that travel; a process with more keeps the first ones.
const NAMES_MAX: usize = 4096;
/// Names of one batch of calls, and their offset in the scratch memory of the region.
const BATCH: usize = 256;
const AT: u64 = 0x8000;

/// Memory with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    run: Run,
    name: String,
}

impl Name {
    fn of(v: &Vma) -> Option<Name> {
        let name = v.name.strip_prefix("[anon:")?.strip_suffix(']')?;
        let run = (v.start, v.end);
        (!v.shared && v.ino == 0 && name.len() < NAME_MAX).then(|| Name {
            run,
            name: name.to_owned(),
        })
    }

    fn call(&self, name: u64) -> Call {
        let (start, end) = self.run;
        let args = [
            PR_SET_VMA,
            PR_SET_VMA_ANON_NAME,
            start,
            end - start,
            name,
            0,
        ];
        (libc::SYS_prctl, args)
    }
}

/// The named mappings among `all`.
pub fn of<'a>(all: impl Iterator<Item = &'a Vma>) -> Vec<Name> {
    all.filter_map(Name::of).take(NAMES_MAX).collect()
}

/// Whether names received from another node are valid.
pub fn sound(names: &[Name]) -> bool {
    let sane = |n: &Name| n.run.0 < n.run.1 && n.name.len() < NAME_MAX && !n.name.contains('\0');
    names.len() <= NAMES_MAX && names.iter().all(sane)
}

/// Names memory again. A kernel without this feature refuses, and only the name is missing.
pub fn give(h: &mut Hold, code: &Code, names: &[Name]) -> Result<()> {
    for part in names.chunks(BATCH) {
        let mut text = vec![0; part.len() * NAME_MAX];
        for (n, to) in part.iter().zip(text.chunks_mut(NAME_MAX)) {
            to[..n.name.len()].copy_from_slice(n.name.as_bytes());
        }
        let at = code.scratch(AT, &text);
        let calls = part.iter().zip((at..).step_by(NAME_MAX));
        let calls: Vec<Call> = calls.map(|(n, at)| n.call(at)).collect();
        h.batch(code, &calls)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_tracee::maps::parse_line;

    #[test]
    fn only_private_anonymous_memory_is_named() {
        let of_lines = |lines: &[&str]| {
            let all: Vec<Vma> = lines.iter().filter_map(|l| parse_line(l)).collect();
            of(all.iter())
        };
        let named = of_lines(&[
            "1000-3000 rw-p 00000000 00:00 0    [anon:a name]",
            "3000-4000 rw-p 00000000 00:00 0    [heap]",
            "4000-5000 rw-s 00000000 00:01 77   [anon_shmem:other]",
            "5000-6000 rw-p 00000000 fe:00 9    /tmp/[anon:x]",
        ]);
        let want = Name {
            run: (0x1000, 0x3000),
            name: "a name".into(),
        };
        assert_eq!(named, std::slice::from_ref(&want));
        assert!(sound(&named));
        let bad = |run, name: &str| Name {
            run,
            name: name.into(),
        };
        assert!(!sound(&[bad((2, 1), "x")]) && !sound(&[bad((1, 2), &"x".repeat(80))]));
        assert!(!sound(&vec![want; NAMES_MAX + 1]));
    }
}
