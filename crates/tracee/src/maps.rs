//! Memory maps of a process. KERNEL: proc_pid_maps(5).

use crate::text;
use serde::{Deserialize, Serialize};
use std::io;

/// One line of /proc/PID/maps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vma {
    pub start: u64,
    pub end: u64,
    /// PROT_READ | PROT_WRITE | PROT_EXEC.
    pub prot: i32,
    pub shared: bool,
    pub off: u64,
    pub dev: u64,
    pub ino: u64,
    pub name: String,
}

/// A device as [`Vma::dev`] has it.
pub fn dev(major: u64, minor: u64) -> u64 {
    major << 32 | minor
}

impl Vma {
    pub fn len(&self) -> u64 {
        self.end - self.start
    }
    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }
    pub fn is_file(&self) -> bool {
        self.ino != 0
    }
    pub fn is_stack(&self) -> bool {
        self.name == "[stack]"
    }
    /// vdso, vvar, vvar_vclock: mappings that the kernel made.
    pub fn is_vdso(&self) -> bool {
        self.name == "[vdso]" || self.name.starts_with("[vvar")
    }
    pub fn is_vsyscall(&self) -> bool {
        self.name == "[vsyscall]"
    }
}

pub fn read(pid: i32) -> io::Result<Vec<Vma>> {
    let text = text::read(format!("/proc/{pid}/maps"))?;
    Ok(text.lines().filter_map(parse_line).collect())
}

pub fn parse_line(line: &str) -> Option<Vma> {
    let mut it = line.splitn(6, ' ');
    let (a, b) = it.next()?.split_once('-')?;
    let hex = |s: &str| u64::from_str_radix(s, 16).ok();
    let perms = it.next()?.as_bytes();
    let off = hex(it.next()?)?;
    let (maj, min) = it.next()?.split_once(':')?;
    let ino = it.next()?.parse().ok()?;
    let name = it.next().unwrap_or("").trim_start().to_owned();
    let bit = |i: usize, c: u8, v: i32| if perms.get(i) == Some(&c) { v } else { 0 };
    let (start, end) = (hex(a)?, hex(b)?);
    (start <= end).then_some(())?;
    Some(Vma {
        start,
        end,
        prot: bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4),
        shared: perms.get(3) == Some(&b's'),
        off,
        dev: dev(hex(maj)?, hex(min)?),
        ino,
        name,
    })
}

/// Pseudo flag of a mapping with a protection key of its own. KERNEL: pkeys(7); smaps has a field for it.
pub const PROTECTION_KEY: &str = "pkey";
/// Pseudo flag of a private mapping of program text that has modified pages.
pub const OWN_TEXT: &str = "own-text";

/// Each mapping and its VmFlags, two letters a flag, with [`PROTECTION_KEY`] and [`OWN_TEXT`]. Slow for big processes:
/// the kernel walks their pages (19 ms a GiB of 4 KiB pages).
pub fn flags(pid: i32) -> io::Result<Vec<(Vma, String)>> {
    let smaps = text::read(format!("/proc/{pid}/smaps"))?;
    Ok(parse_flags(&smaps))
}

/// Parses the text of smaps as [`flags`] does.
pub fn parse_flags(smaps: &str) -> Vec<(Vma, String)> {
    let whole = |(v, flags, more): (Vma, &str, More)| {
        let words = more.words(&v);
        (v, format!("{} {words}", flags.trim()).trim_end().to_owned())
    };
    flagged(smaps).map(whole).collect()
}

/// The first mapping sealed by mseal(2). Mappings that the kernel made, which some kernels seal in every process, do
/// not count. KERNEL: proc_pid_smaps(5): VmFlags `sl`, since 6.10.
pub fn sealed(all: &[(Vma, String)]) -> Option<&Vma> {
    let programs = |v: &Vma| !v.is_vdso() && !v.is_vsyscall();
    let sealed = |flags: &str| flags.split_whitespace().any(|f| f == "sl");
    let first = all.iter().find(|(v, flags)| programs(v) && sealed(flags));
    first.map(|(v, _)| v)
}

/// Other facts of a mapping in smaps.
#[derive(Default)]
struct More {
    key: bool,
    /// It has pages of its own.
    own: bool,
}

impl More {
    fn note(&mut self, line: &str) {
        if let Some(k) = line.strip_prefix("ProtectionKey:") {
            self.key = k.trim() != "0";
        } else if let Some(kib) = line.strip_prefix("Anonymous:") {
            self.own = kib.trim() != "0 kB";
        }
    }

    fn words(&self, v: &Vma) -> String {
        let text = v.prot == libc::PROT_READ | libc::PROT_EXEC && !v.shared && v.is_file();
        let key = self.key.then_some(PROTECTION_KEY);
        let own = (self.own && text).then_some(OWN_TEXT);
        let both: Vec<&str> = key.into_iter().chain(own).collect();
        both.join(" ")
    }
}

/// The mappings in a text of smaps, each with the rest of its VmFlags line.
fn flagged(smaps: &str) -> impl Iterator<Item = (Vma, &str, More)> {
    let (mut at, mut more) = (None, More::default());
    smaps.lines().filter_map(move |line| {
        more.note(line);
        // Most lines are fields, with a colon after the name.
        match line.strip_prefix("VmFlags:") {
            Some(flags) => {
                let more = std::mem::take(&mut more);
                at.take().map(|v| (v, flags, more))
            }
            None => {
                let name = line.split(' ').next().unwrap_or_default();
                if !name.ends_with(':') {
                    at = parse_line(line);
                }
                None
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_kind() {
        let v =
            parse_line("7ffc1000-7ffc3000 rw-p 00000000 00:00 0                          [stack]")
                .expect("a line");
        assert!(v.is_stack() && !v.is_file() && v.prot == 3 && v.len() == 0x2000);
        let v = parse_line("400000-401000 r-xs 00001000 fe:10 77 /a b (deleted)").expect("a line");
        assert!(
            v.shared
                && v.prot == 5
                && v.off == 0x1000
                && v.name == "/a b (deleted)"
                && v.dev == 0xfe << 32 | 0x10
        );
        assert_eq!(parse_line("Size: 4 kB"), None);
        assert_eq!(parse_line("2000-1000 rw-p 00000000 00:00 0"), None);
    }

    #[test]
    fn sealed_mappings_are_found() {
        let smaps = |flags: &str| {
            format!(
                "7f0000001000-7f0000002000 r--p 00000000 00:00 0 [vdso]\nVmFlags: rd sl\n\
                 7f0000003000-7f0000004000 r--p 00001000 fe:10 77 /a b\nSize: 4 kB\nVmFlags: {flags}\n\
                 7f0000005000-7f0000006000 rw-p 00000000 00:00 0\nVmFlags: rd wr\n"
            )
        };
        let all = |text: &str| -> Vec<(Vma, String)> { parse_flags(text) };
        assert!(sealed(&all(&smaps("rd mr sd"))).is_none());
        let list = all(&smaps("rd mr sl sd"));
        let v = sealed(&list).expect("the second");
        assert_eq!((v.start, v.name.as_str()), (0x7f00_0000_3000, "/a b"));
        assert!(sealed(&flags(std::process::id() as i32).expect("own")).is_none());
    }

    #[test]
    fn own_maps_hold_own_code() {
        let all = read(std::process::id() as i32).expect("own maps");
        let here = own_maps_hold_own_code as fn() as usize as u64;
        assert!(
            all.iter()
                .any(|v| v.start <= here && here < v.end && v.prot & 4 != 0)
        );
    }
}
