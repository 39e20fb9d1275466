//! Checks of a received image, done before it is used.
//!
//! Its numbers become arguments of calls and offsets in our memory. A source is another node: what it sends is checked
//! here once, so that later code need not check it.

use super::names;
use super::{Area, Head, Kind, Layout, Mm, State, ThreadState};
use armento_model::HomePid;
use armento_tracee::PAGE;
use armento_tracee::pages::Run;
use armento_tracee::region::BASE;
use armento_wire::WireError;

type Checked = Result<(), WireError>;

/// KERNEL: with five-level page tables a program's memory ends here.
const USER_END: u64 = 1 << 56;
/// Our own region in deputies and bodies.
const OURS: Run = (BASE, BASE + (1 << 40));
/// Twice the default of vm.max_map_count (65,530).
const AREAS_MAX: usize = 1 << 17;
/// KERNEL: PID_MAX_LIMIT is 2^22, but each thread sends its state: a frame holds fewer than this.
const THREADS_MAX: usize = 1 << 16;
/// struct user_regs_struct.
const REGS: usize = 27;
/// 11 KiB with tile registers; the format has room for more.
const XSTATE_MAX: usize = 64 << 10;
/// KERNEL: _NSIG.
const SIGNALS: usize = 64;
/// KERNEL: AT_VECTOR_SIZE is some 50 words; our scratch memory for it (`mm.rs`) ends at three pages.
const AUXV_MAX: usize = 0x3000;
/// KERNEL: RLIM_NLIMITS.
const LIMITS_MAX: usize = 16;
/// Two pages of code today.
const VDSO_MAX: usize = 64 << 10;
/// A command line is only displayed.
const COMMAND_MAX: usize = 1 << 20;

impl Head {
    pub fn check(&self) -> Checked {
        let few = self.tids.len() <= THREADS_MAX && self.command.len() <= COMMAND_MAX;
        areas(&self.areas)?;
        mm(&self.mm)?;
        let sane = self.processor.xsave.is_sane();
        good(few && sane && self.pid > HomePid::default(), "offer")
    }
}

impl Layout {
    pub fn check(&self) -> Checked {
        areas(&self.areas)?;
        good(self.dropped.iter().chain(&self.later).all(run), "layout")
    }
}

impl State {
    pub fn check(&self) -> Checked {
        mm(&self.mm)?;
        good(
            (1..=THREADS_MAX).contains(&self.threads.len())
                && self.threads.iter().all(thread)
                && self.actions.len() == SIGNALS
                && self.zeros.iter().all(run)
                && self.guards.iter().all(run)
                && names::sound(&self.names)
                && self.limits.len() <= LIMITS_MAX
                && self.vdso.len() <= VDSO_MAX,
            "state",
        )
    }
}

fn good(yes: bool, what: &'static str) -> Checked {
    if yes {
        Ok(())
    } else {
        Err(WireError::Garbled(what))
    }
}

fn thread(t: &ThreadState) -> bool {
    t.regs.len() == REGS && t.xstate.len() <= XSTATE_MAX
}

fn mm(m: &Mm) -> Checked {
    let vdso = m.vdso.is_none_or(|v| run(&v.run()) && v.check().is_ok());
    good(m.auxv.len() <= AUXV_MAX && vdso, "memory map")
}

/// Whether it is whole pages of a program's memory.
fn run(r: &Run) -> bool {
    let whole = |at: u64| at.is_multiple_of(PAGE);
    let beside = r.1 <= OURS.0 || r.0 >= OURS.1;
    whole(r.0) && whole(r.1) && r.0 <= r.1 && r.1 <= USER_END && beside
}

/// Sorted and disjoint, and none in our region.
fn areas(all: &[Area]) -> Checked {
    let apart = all.windows(2).all(|w| w[0].end <= w[1].start);
    good(
        all.len() <= AREAS_MAX && apart && all.iter().all(area),
        "list of memory areas",
    )
}

fn area(a: &Area) -> bool {
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let off = match a.kind {
        Kind::File { off, .. } | Kind::Shared { off, .. } => off,
        Kind::Anon | Kind::Stack => 0,
    };
    // KERNEL: a file ends at 2^63 - 1.
    let end = off.checked_add(a.end.saturating_sub(a.start));
    let inside = off.is_multiple_of(PAGE) && end.is_some_and(|e| e <= i64::MAX as u64);
    run(&a.run()) && a.start < a.end && a.prot & !rights == 0 && inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::area::Flags;
    use crate::image::vdso::Vdso;

    fn plain(start: u64, end: u64) -> Area {
        Area {
            start,
            end,
            prot: 3,
            kind: Kind::Anon,
            flags: Flags::default(),
        }
    }

    #[test]
    fn areas_must_be_sorted_and_in_program_memory() {
        let check = |list: &[(u64, u64)], sound: bool| {
            let all: Vec<Area> = list.iter().map(|r| plain(r.0, r.1)).collect();
            assert_eq!(areas(&all).is_ok(), sound, "{list:x?}");
        };
        check(&[], true);
        check(&[(0x1000, 0x2000), (0x2000, 0x4000)], true);
        check(&[(0x1000, 0x3000), (0x2000, 0x4000)], false);
        check(&[(0x4000, 0x5000), (0x1000, 0x2000)], false);
        check(&[(0x1000, 0x1000)], false);
        check(&[(0x2000, 0x1000)], false);
        check(&[(0x1001, 0x2000)], false);
        check(&[(0x1000, !0xfff)], false);
        check(&[(BASE - 0x1000, BASE)], true);
        check(&[(BASE - 0x1000, BASE + 0x1000)], false);
        check(&[(BASE + 0x1000, BASE + 0x2000)], false);
        check(&[(0x1000, OURS.1 + 0x1000)], false);
    }

    #[test]
    fn rights_and_offsets_are_bounded() {
        let check = |a: Area, sound: bool| assert_eq!(area(&a), sound, "{a:x?}");
        let of = |off| Area {
            kind: Kind::Shared {
                object: Default::default(),
                off,
            },
            ..plain(0x1000, 0x3000)
        };
        check(of(0x1000), true);
        check(of(1), false);
        check(of(!0xfff), false);
        check(of(i64::MAX as u64 & !0xfff), false);
        let mut a = plain(0x1000, 0x2000);
        a.prot = 8;
        check(a, false);
    }

    #[test]
    fn states_must_fit_their_buffers() {
        let whole = || ThreadState {
            regs: vec![0; REGS],
            ..ThreadState::default()
        };
        let check = |change: fn(&mut State), sound: bool| {
            let mut s = State {
                threads: vec![whole()],
                actions: vec![[0; 4]; SIGNALS],
                mm: Mm::default(),
                zeros: vec![],
                pending: vec![],
                overruns: vec![],
                itimers: Default::default(),
                signalfds: 0,
                limits: vec![],
                persona: 0,
                membarrier: 0,
                guards: Vec::new(),
                names: Vec::new(),
                cpu: Default::default(),
                vdso: vec![],
            };
            change(&mut s);
            assert_eq!(s.check().is_ok(), sound);
        };
        check(|_| {}, true);
        check(|s| s.threads.clear(), false);
        check(|s| s.threads[0].regs.truncate(26), false);
        check(|s| s.threads[0].xstate = vec![0; XSTATE_MAX + 1], false);
        check(|s| s.actions.push([0; 4]), false);
        check(|s| s.mm.auxv = vec![0; AUXV_MAX + 1], false);
        check(|s| s.mm.vdso = Some(Vdso::default()), false);
        check(|s| s.vdso = vec![0; VDSO_MAX + 1], false);
        check(|s| s.zeros.push((0x2000, 0x1000)), false);
        check(|s| s.limits = vec![(0, 0, 0); LIMITS_MAX + 1], false);
    }
}
