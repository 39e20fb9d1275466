//! Why a process at home cannot leave, as far as it can be seen from outside.
//!
//! From: `out.rs`. Next: nothing: the reasons are `armento_model::Stay`.

use super::permission;
use crate::deputy::slots_for;
use crate::observers::{not_awaited, not_counted, not_observed};
use crate::state::Keep;
use crate::sys as ksys;
use armento_migrate::image::flags::Noted;
use armento_migrate::image::objects::Aim;
use armento_migrate::image::{areas, breakpoints};
use armento_migrate::stop_threads::delicate;
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::maps::{self, Vma};
use armento_tracee::{status, sys, text, timers, trace};
use armento_wire::FRAME_MAX;

/// What travels of a thread beside its extended state: registers, masks, what it registered with the kernel.
const THREAD_BYTES: usize = 1024;

/// Reasons to stay that can be seen from outside, but those of [`noted`]; otherwise the memory in use, KiB.
pub fn may_leave(keep: &Keep, pid: Pid, aim: Aim) -> Result<u64> {
    let st = status::read(pid).map_err(|_| MigrateError::Ended)?;
    let stays = |s: Stay, why: &str| Err(MigrateError::Stays(s, why.to_owned()));
    if st.state == 'Z' || st.state == 'X' {
        return Err(MigrateError::Ended);
    }
    if st.tracer != 0 && st.tracer != std::process::id() as i32 {
        return stays(Stay::Traced, "it is traced already");
    }
    if let Ok(me) = status::read(std::process::id() as i32)
        && me.nspid.len() != st.nspid.len()
    {
        return stays(Stay::ForeignPidNamespace, "it has another pid namespace");
    }
    // What follows is shown only to a process that may trace it.
    permission::ensure(keep, pid)?;
    if st.ppid > 0 && sys::same_mm(pid, st.ppid).unwrap_or(false) {
        return stays(Stay::Busy, "it is a vfork child that has not exec'd yet");
    }
    for child in status::children(pid) {
        if sys::same_mm(pid, child).unwrap_or(false) {
            return stays(Stay::Busy, "it waits for a vfork child");
        }
    }
    still_may_leave(pid)?;
    // Before any of them is stopped: that takes as long as there are many.
    few_enough(status::threads(pid).map_or(0, |t| t.len()))?;
    delicate(pid)?;
    let maps = maps::read(pid).map_err(|_| MigrateError::Ended)?;
    areas::may_travel(&maps, aim)?;
    not_observed(keep, pid)?;
    not_counted(keep, pid)?;
    not_awaited(keep, pid)?;
    Ok(st.rss_kib)
}

/// Those reasons that a program can give itself with a call of its own while its memory is copied: they are looked for
/// once more when it stands still.
pub fn still_may_leave(pid: Pid) -> Result<()> {
    let st = status::read(pid).map_err(|_| MigrateError::Ended)?;
    let stays = |s: Stay, why: &str| Err(MigrateError::Stays(s, why.to_owned()));
    // A thread can have a filter that the first one has not; our own calls in it would be filtered, too.
    let filtered = |tid: Pid| status::read(tid).is_ok_and(|t| t.seccomp != 0);
    if st.seccomp != 0 || status::threads(pid).is_ok_and(|all| all.into_iter().any(filtered)) {
        return stays(Stay::OwnFilter, "it runs under a seccomp filter");
    }
    if ksys::cpu_limited(pid) {
        return stays(Stay::UnsupportedCall, "it has a limit of CPU time");
    }
    if st.pinned_kib > 0 {
        return stays(Stay::KernelState, "a device uses its memory (VmPin)");
    }
    uncounted(pid)?;
    own_clocks(pid)?;
    // Fails for a process that cannot be looked into, whose mappings cannot be read either.
    open_files(pid)
}

/// What is known of its mappings now. To look takes as long as there is memory.
pub fn noted(pid: Pid) -> Result<Noted> {
    let noted = Noted::now(pid)?;
    // Its deputy could not give them up, and a body would have them unsealed.
    if let Some(v) = &noted.sealed {
        return Err(MigrateError::Stays(Stay::SealedMapping, named(v)));
    }
    carried(&noted, false)?;
    if noted.probed || noted.patched.iter().any(|v| breakpoints::set_in(pid, v)) {
        let why = "somebody set breakpoints in its program (uprobes, a debugger)";
        return Err(MigrateError::Stays(Stay::KernelState, why.into()));
    }
    Ok(noted)
}

/// A move carries the flags of all its mappings. `ours`: writes are watched for that move.
pub fn carried(noted: &Noted, ours: bool) -> Result<()> {
    if let Some(v) = &noted.unwritable {
        let why = format!("{} (mapped shared, and cannot be written)", v.name);
        return Err(MigrateError::Stays(Stay::SharedMemory, why));
    }
    let watched = noted.watched.as_ref().filter(|_| !ours);
    match noted.uncarried.as_ref().or(watched) {
        None => Ok(()),
        Some((v, flags)) => Err(uncarried(v, flags)),
    }
}

fn named(v: &Vma) -> String {
    let what = format!("{:x}-{:x} {}", v.start, v.end, v.name);
    what.trim_end().to_owned()
}

/// KERNEL: proc_pid_smaps(5), VmFlags.
fn uncarried(v: &Vma, flags: &str) -> MigrateError {
    let has = |words: &[&str]| flags.split(' ').any(|f| words.contains(&f));
    let (stay, what) = match () {
        () if has(&["pf", "io", "mm"]) => (Stay::DeviceMapping, "pages of a device".into()),
        () if has(&["ht"]) => (
            Stay::KernelState,
            "huge pages of a pool (MAP_HUGETLB)".into(),
        ),
        () if has(&[maps::PROTECTION_KEY]) => (
            Stay::KernelState,
            "memory with a protection key (pkey_mprotect)".into(),
        ),
        () if has(&["um", "uw", "ui"]) => (
            Stay::KernelState,
            "pages that another process serves (userfaultfd)".into(),
        ),
        () => (
            Stay::KernelState,
            format!("a mapping with the flags {flags}"),
        ),
    };
    MigrateError::Stays(stay, format!("it has {what}: {}", named(v)))
}

/// Its clocks are counted from another start, or its children's will be.
fn own_clocks(pid: Pid) -> Result<()> {
    let of = |whose: &str, kind: &str| std::fs::read_link(format!("/proc/{whose}/ns/{kind}"));
    let ours = of("self", "time").ok();
    for kind in ["time", "time_for_children"] {
        // A kernel without them has one for all.
        let its = of(&pid.to_string(), kind).ok();
        if its.is_some() && its != ours {
            let why = "it, or what it starts, has a time namespace of its own";
            return Err(MigrateError::Stays(Stay::KernelState, why.into()));
        }
    }
    Ok(())
}

/// A timer of CPU time counts where it was made: at home only. (What setitimer makes travels.)
fn uncounted(pid: Pid) -> Result<()> {
    match timers::of_cpu_time(pid) {
        true => {
            let why = "it has a timer of CPU time (timer_create)".into();
            Err(MigrateError::Stays(Stay::UnsupportedCall, why))
        }
        false => Ok(()),
    }
}

/// The state of all threads travels in one message, also of those that it makes away.
fn few_enough(threads: usize) -> Result<()> {
    let most = FRAME_MAX / (trace::xstate_len() + THREAD_BYTES) - slots_for(0);
    if threads <= most {
        return Ok(());
    }
    let why = format!("it has {threads}, at most {most} can be moved");
    Err(MigrateError::Stays(Stay::TooManyThreads, why))
}

/// Descriptors that tie a process to home.
fn open_files(pid: Pid) -> Result<()> {
    let Ok(dir) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Err(MigrateError::Stays(
            Stay::NotDumpable,
            "its descriptors cannot be seen".into(),
        ));
    };
    for e in dir.flatten() {
        let Ok(to) = std::fs::read_link(e.path()) else {
            continue;
        };
        let to = to.to_string_lossy();
        let stay = match &*to {
            "anon_inode:[io_uring]" => Stay::IoUring,
            "anon_inode:[userfaultfd]" | "anon_inode:[perf_event]" => Stay::UnsupportedCall,
            p if p.starts_with("/proc/")
                && armento_abi::proc_self_needs_home(p.as_bytes(), pid as u32) =>
            {
                Stay::ProcSelfOpen
            }
            _ => continue,
        };
        return Err(MigrateError::Stays(stay, format!("it has {to} open")));
    }
    Ok(())
}

/// Signals that it reads from descriptors, as a mask. KERNEL: signalfd_show_fdinfo.
pub fn signalfd_mask(pid: Pid) -> u64 {
    let dir = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
    let one = |e: std::fs::DirEntry| {
        let to = std::fs::read_link(e.path()).ok()?;
        if to.as_os_str() != "anon_inode:[signalfd]" {
            return None;
        }
        let number = e.file_name().into_string().ok()?;
        let text = text::read(format!("/proc/{pid}/fdinfo/{number}")).ok()?;
        let mask = text.lines().find_map(|l| l.strip_prefix("sigmask:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    dir.flatten()
        .flatten()
        .filter_map(one)
        .fold(0, |a, m| a | m)
}

/// Whether it has a file open with O_DIRECT. Devices write into pinned pages behind the page tables, so that its
/// writes cannot be tracked while it runs: it is copied while it stands still.
pub fn direct_io(pid: Pid) -> bool {
    let Ok(dir) = std::fs::read_dir(format!("/proc/{pid}/fdinfo")) else {
        return true;
    };
    dir.flatten().any(|e| {
        let info = armento_tracee::text::read(e.path()).unwrap_or_default();
        let flags = info.lines().find_map(|l| l.strip_prefix("flags:"));
        let flags = flags.and_then(|f| i32::from_str_radix(f.trim(), 8).ok());
        flags.is_some_and(|f| f & libc::O_DIRECT != 0)
    })
}
