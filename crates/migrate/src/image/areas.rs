//! Memory areas: what is mapped where, from the maps of a home process or of a body.

use super::area::{Area, Flags, Kind};
use super::files::{self, FILE_MAX, Names, Untouched};
use super::objects::{self, Aim};
use super::vdso::{self, Vdso};
use crate::{MigrateError, Result};
use armento_model::Stay;
use armento_tracee::maps::Vma;
use armento_tracee::pages::{Backing, Run};
use armento_tracee::region::BASE;
use armento_wire::talk::FileKey;
use std::cell::LazyCell;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Deref;

/// Areas of a process, with facts that the source needs.
#[derive(Default)]
pub struct Survey {
    pub areas: Vec<Area>,
    /// The files that it maps; of these, the ones examined just now.
    pub names: Names,
    pub files: HashMap<FileKey, File>,
    /// Files mapped shared that the user could write: leased, so that we notice a write.
    pub leased: Vec<FileKey>,
    /// Ranges of shared objects that are to be sent; set while all their processes are frozen.
    pub objects: Vec<Run>,
    /// The vDSO pages of the process's home.
    pub vdso: Option<Vdso>,
}

impl Survey {
    fn note_vdso(&mut self, v: &Vma) {
        self.vdso = Some(Vdso::note(self.vdso, v));
    }

    /// Reads the digest of its vDSO from `pid`, once: a kernel's vDSO never changes.
    pub fn digest_vdso(&mut self, pid: i32) -> Result<()> {
        self.vdso = self.vdso.map(|v| v.digested(pid)).transpose()?;
        Ok(())
    }

    /// Write-protecting a part of the stack splits its mapping in the kernel. Nothing else can touch the stack, since a
    /// guard gap lies between, so adjacent mappings are parts of it.
    fn mend_stack(&mut self) {
        let Some(mut i) = self.areas.iter().position(|a| a.kind == Kind::Stack) else {
            return;
        };
        let touch = |a: &Area, b: &Area| {
            let plain = |k: &Kind| matches!(k, Kind::Anon | Kind::Stack);
            a.end == b.start && a.prot == b.prot && plain(&a.kind) && plain(&b.kind)
        };
        while i > 0 && touch(&self.areas[i - 1], &self.areas[i]) {
            self.areas[i].start = self.areas[i - 1].start;
            self.areas.remove(i - 1);
            i -= 1;
        }
        while i + 1 < self.areas.len() && touch(&self.areas[i], &self.areas[i + 1]) {
            self.areas[i].end = self.areas[i + 1].end;
            self.areas.remove(i + 1);
        }
    }

    fn push(&mut self, v: &Vma, kind: Kind) {
        self.areas.push(Area {
            start: v.start,
            end: v.end,
            prot: v.prot,
            kind,
            flags: Flags::default(),
        });
    }
}

/// Whether it is our own region in deputies and bodies.
fn ours(v: &Vma) -> bool {
    v.start >= BASE && v.start < BASE + (1 << 40)
}

/// Refuses a process that maps memory which never travels: a shared mapping of a file that it may write. Checking this
/// before the process is stopped avoids a stop that would wake its sleeping calls.
pub fn may_travel(maps: &[Vma], aim: Aim) -> Result<()> {
    let written = |v: &&Vma| v.shared && v.prot & libc::PROT_WRITE != 0;
    let kept = |v: &&Vma| !v.is_vdso() && aim.object(v).is_none() && named(v);
    let found = travelling(maps).filter(written).find(kept);
    match found.or_else(|| aim.foreign_memfd(maps)) {
        Some(v) => Err(written_by_others(v)),
        None => Ok(()),
    }
}

fn written_by_others(v: &Vma) -> MigrateError {
    let why = format!("{} (mapped shared and writable)", v.name);
    MigrateError::Stays(Stay::SharedMemory, why)
}

/// Areas of a process at home. `known`: its files from an earlier examination, which are not examined again.
pub fn of_home(
    pid: i32,
    maps: &[Vma],
    known: Option<&Names>,
    untouched: &dyn Fn() -> Untouched,
    aim: Aim,
) -> Result<Survey> {
    if let Some(v) = aim.foreign_memfd(maps) {
        return Err(written_by_others(v));
    }
    // Computed once, and only if there is a file that is not known.
    let untouched = LazyCell::new(untouched);
    let mut s = Survey {
        names: known.cloned().unwrap_or_default(),
        ..Survey::default()
    };
    for v in travelling(maps) {
        if v.is_vdso() {
            s.note_vdso(v);
        } else if let Some(object) = aim.object(v) {
            s.push(v, Kind::Shared { object, off: v.off });
        } else if named(v) {
            let kind = home_file(pid, v, (maps, &untouched), &mut s, known.is_some())?;
            s.push(v, kind);
        } else if v.shared {
            return Err(MigrateError::Stays(
                Stay::SharedMemory,
                format!("{} at {:x}", v.name, v.start),
            ));
        } else {
            s.push(v, plain(v));
        }
    }
    s.mend_stack();
    s.digest_vdso(pid)?;
    Ok(s)
}

/// Areas of a hollow process; its files only by identity (see [`bare`]).
pub fn of_deputy(maps: &[Vma], names: &Names, aim: Aim) -> Vec<Area> {
    let mut s = Survey::default();
    for v in travelling(maps).filter(|v| !v.is_vdso()) {
        let kind = match aim.object(v) {
            Some(object) => Kind::Shared { object, off: v.off },
            None if named(v) => Kind::File {
                key: names.identity(v),
                off: v.off,
                shared: v.shared,
            },
            None => plain(v),
        };
        s.push(v, kind);
    }
    s.mend_stack();
    s.areas
}

/// `areas` with their files in any version: at home a mapping shows the file's current content.
pub fn bare(areas: &[Area]) -> Vec<Area> {
    let mut all = areas.to_vec();
    for a in &mut all {
        if let Kind::File { key, .. } = &mut a.kind {
            *key = files::bare(key);
        }
    }
    all
}

fn travelling(maps: &[Vma]) -> impl Iterator<Item = &Vma> {
    maps.iter().filter(|v| !v.is_vsyscall() && !ours(v))
}

fn named(v: &Vma) -> bool {
    v.is_file() || v.name.starts_with('/')
}

fn plain(v: &Vma) -> Kind {
    if v.is_stack() {
        Kind::Stack
    } else {
        Kind::Anon
    }
}

fn home_file(
    pid: i32,
    v: &Vma,
    (all, untouched): (&[Vma], &dyn Deref<Target = Untouched>),
    s: &mut Survey,
    again: bool,
) -> Result<Kind> {
    let stays = |stay, why: &str| Err(MigrateError::Stays(stay, format!("{} ({why})", v.name)));
    if v.shared && v.prot & libc::PROT_WRITE != 0 {
        return Err(written_by_others(v));
    }
    let key = match s.names.get(v) {
        Some(key) => key,
        None => {
            let (key, file) = files::find(pid, v, all, untouched)?;
            s.names.learn(v, key);
            s.files.insert(key, file);
            key
        }
    };
    // A known file was examined then.
    let file = s.files.get(&key);
    let writable = file.is_none_or(|f| !files::unwritable(pid, f));
    if v.shared && (file.is_some() || !again) && writable {
        let leased = file.and_then(|f| files::readable(f).ok());
        let Some(leased) = leased.filter(armento_leases::take) else {
            return stays(
                Stay::SharedMemory,
                "mapped shared from a file that may change",
            );
        };
        s.files.insert(key, leased);
        s.leased.push(key);
    }
    if key.size > FILE_MAX {
        return stays(Stay::NoRoom, "a mapped file too big to travel");
    }
    Ok(Kind::File {
        key,
        off: v.off,
        shared: v.shared,
    })
}

/// Name of the file (a memfd, or in the node's cache) that represents a file at a host; parsed by [`of_body`].
pub fn memfd_name(key: &FileKey, shared: bool) -> String {
    format!(
        "af-{:x}-{:x}-{:x}-{:x}-{}",
        key.dev,
        key.ino,
        key.size,
        key.ctime_ns as u64,
        u8::from(shared)
    )
}

fn parse_memfd(name: &str) -> Option<(FileKey, bool)> {
    let file = name.rsplit('/').next()?;
    let file = file.strip_prefix("memfd:").unwrap_or(file);
    let rest = file.strip_prefix("af-")?;
    let rest = rest.strip_suffix(" (deleted)").unwrap_or(rest);
    let n: Vec<u64> = rest
        .split('-')
        .filter_map(|p| u64::from_str_radix(p, 16).ok())
        .collect();
    let &[dev, ino, size, ctime, shared] = n.as_slice() else {
        return None;
    };
    Some((
        FileKey {
            dev,
            ino,
            size,
            ctime_ns: ctime as i64,
        },
        shared == 1,
    ))
}

/// Areas of a body. `foreign`: home's vDSO, if this kernel has another; else its digest is not known yet.
pub fn of_body(maps: &[Vma], foreign: Option<Vdso>) -> Result<Survey> {
    let mut s = Survey::default();
    let apart = foreign.map(|v| vdso::without(maps, v.run()));
    for v in travelling(apart.as_deref().unwrap_or(maps)) {
        if v.is_vdso() {
            s.note_vdso(v);
        } else if let Some((key, shared)) = parse_memfd(&v.name) {
            s.push(
                v,
                Kind::File {
                    key,
                    off: v.off,
                    shared,
                },
            );
        } else if let Some(object) = objects::object_of(&v.name) {
            s.push(v, Kind::Shared { object, off: v.off });
        } else if v.is_file() || v.shared {
            return Err(MigrateError::Stays(Stay::SharedMemory, v.name.clone()));
        } else {
            s.push(v, plain(v));
        }
    }
    s.vdso = foreign.or(s.vdso);
    s.mend_stack();
    Ok(s)
}

/// One step from an old layout to a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Unmap(Run),
    Map(Area),
    Protect(Run, i32),
    /// From the first flags to the second.
    Advise(Run, Flags, Flags),
}

/// Steps that turn mappings `old` into `new` and keep the pages of mappings that are in both.
pub fn steps(old: &[Area], new: &[Area]) -> Vec<Step> {
    let mut cuts: Vec<u64> = old
        .iter()
        .chain(new)
        .flat_map(|a| [a.start, a.end])
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    let find = |list: &[Area], at: u64| {
        let i = list.partition_point(|a| a.end <= at);
        list.get(i).filter(|a| a.start <= at).cloned()
    };
    let mut out: Vec<Step> = Vec::new();
    for w in cuts.windows(2) {
        let run = (w[0], w[1]);
        match (find(old, run.0), find(new, run.0)) {
            (None, None) => {}
            (Some(_), None) => join(&mut out, Step::Unmap(run)),
            (Some(o), Some(n)) if same_kind(&o, &n) => {
                if o.prot != n.prot {
                    join(&mut out, Step::Protect(run, n.prot));
                }
                if o.flags != n.flags {
                    out.push(Step::Advise(run, o.flags, n.flags));
                }
            }
            (_, Some(n)) => join(&mut out, Step::Map(cut(&n, run))),
        }
    }
    // Unmap first: a new mapping may need the space (stack gaps).
    out.sort_by_key(|s| !matches!(s, Step::Unmap(_)));
    out
}

/// Whether one mapping can become the other and keep its pages. One that grew automatically cannot: mapped in two parts
/// it would be two mappings to the kernel, which limits a stack by the size of the mapping that grows.
fn same_kind(o: &Area, n: &Area) -> bool {
    let whole = (o.start, o.end) == (n.start, n.end);
    let plain = o.backing() == Backing::Memory;
    same_backing(o, n) && (!plain || o.flags.mapped_as(n.flags) && (whole || !o.grows()))
}

fn same_backing(o: &Area, n: &Area) -> bool {
    match (&o.kind, &n.kind) {
        (Kind::File { key: a, off: x, .. }, Kind::File { key: b, off: y, .. }) => {
            a == b && o.start.wrapping_sub(*x) == n.start.wrapping_sub(*y)
        }
        (Kind::Shared { object: a, off: x }, Kind::Shared { object: b, off: y }) => {
            a == b && o.start.wrapping_sub(*x) == n.start.wrapping_sub(*y)
        }
        (a, b) => a == b,
    }
}

/// What both layouts, each in order, map with the same kind, taken from `a`.
pub fn in_both(a: &[Area], b: &[Area]) -> Vec<Area> {
    let mut out = Vec::new();
    for x in a {
        let first = b.partition_point(|y| y.end <= x.start);
        let touching = b[first..].iter().take_while(|y| y.start < x.end);
        for y in touching.filter(|y| same_kind(x, y)) {
            out.push(cut(x, (x.start.max(y.start), x.end.min(y.end))));
        }
    }
    out
}

fn cut(a: &Area, run: Run) -> Area {
    let kind = match &a.kind {
        Kind::File { key, off, shared } => Kind::File {
            key: *key,
            off: off + (run.0 - a.start),
            shared: *shared,
        },
        Kind::Shared { object, off } => Kind::Shared {
            object: *object,
            off: off + (run.0 - a.start),
        },
        k => k.clone(),
    };
    Area {
        start: run.0,
        end: run.1,
        prot: a.prot,
        kind,
        flags: a.flags,
    }
}

/// Appends a step, merging it with the last one if they touch and are of the same kind.
fn join(out: &mut Vec<Step>, step: Step) {
    match (out.last_mut(), &step) {
        (Some(Step::Unmap(a)), Step::Unmap(b)) if a.1 == b.0 => a.1 = b.1,
        (Some(Step::Protect(a, p)), Step::Protect(b, q)) if a.1 == b.0 && p == q => a.1 = b.1,
        (Some(Step::Map(a)), Step::Map(b))
            if a.end == b.start && a.prot == b.prot && a.flags == b.flags && same_backing(a, b) =>
        {
            a.end = b.end
        }
        _ => out.push(step),
    }
}

#[cfg(test)]
mod tests {
    use super::super::area::{GROWS, NO_RESERVE};
    use super::*;

    fn anon(start: u64, end: u64, prot: i32) -> Area {
        Area {
            start,
            end,
            prot,
            kind: Kind::Anon,
            flags: Flags::default(),
        }
    }

    #[test]
    fn layout_changes_take_few_steps() {
        let check = |old: &[Area], new: &[Area], want: &[Step]| assert_eq!(steps(old, new), want);
        check(&[], &[anon(1, 3, 3)], &[Step::Map(anon(1, 3, 3))]);
        check(
            &[anon(1, 3, 3)],
            &[anon(1, 5, 3)],
            &[Step::Map(anon(3, 5, 3))],
        );
        check(
            &[anon(1, 9, 3)],
            &[anon(1, 2, 3), anon(4, 9, 1)],
            &[Step::Unmap((2, 4)), Step::Protect((4, 9), 1)],
        );
        check(&[anon(1, 3, 3)], &[], &[Step::Unmap((1, 3))]);
        let flagged = |start, end, flags| Area {
            flags,
            ..anon(start, end, 3)
        };
        check(
            &[anon(1, 3, 3)],
            &[flagged(1, 3, NO_RESERVE)],
            &[Step::Map(flagged(1, 3, NO_RESERVE))],
        );
        // A mapping that grew is mapped as one; one that did not is left unchanged.
        check(
            &[flagged(5, 9, GROWS), flagged(20, 21, GROWS)],
            &[flagged(3, 9, GROWS), flagged(20, 21, GROWS)],
            &[Step::Map(flagged(3, 9, GROWS))],
        );
        let key = FileKey {
            dev: 1,
            ino: 2,
            size: 3,
            ctime_ns: 4,
        };
        let file = |start, end, off| Area {
            start,
            end,
            prot: 1,
            kind: Kind::File {
                key,
                off,
                shared: false,
            },
            flags: Flags::default(),
        };
        check(
            &[file(10, 20, 0)],
            &[file(12, 20, 2)],
            &[Step::Unmap((10, 12))],
        );
        check(
            &[file(10, 20, 0)],
            &[file(10, 20, 4)],
            &[Step::Map(file(10, 20, 4))],
        );
        check(
            &[anon(1, 3, 3)],
            &[file(1, 3, 0)],
            &[Step::Map(file(1, 3, 0))],
        );
    }

    #[test]
    fn intersection_holds_only_common_mappings() {
        let file = Area {
            start: 30,
            end: 40,
            prot: 1,
            kind: Kind::File {
                key: FileKey {
                    dev: 1,
                    ino: 2,
                    size: 3,
                    ctime_ns: 4,
                },
                off: 0,
                shared: false,
            },
            flags: Flags::default(),
        };
        let a = [anon(0, 10, 3), anon(20, 40, 3)];
        let b = [anon(5, 25, 1), file];
        assert_eq!(in_both(&a, &b), [anon(5, 10, 3), anon(20, 25, 3)]);
    }

    #[test]
    fn memfd_names_encode_the_file_key() {
        let key = FileKey {
            dev: 0xfe00,
            ino: 77,
            size: 1 << 20,
            ctime_ns: -5,
        };
        let name = format!("/memfd:{} (deleted)", memfd_name(&key, true));
        assert_eq!(parse_memfd(&name), Some((key, true)));
        assert_eq!(parse_memfd("/memfd:other (deleted)"), None);
    }
}
