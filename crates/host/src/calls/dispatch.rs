//! The listener: every call of a guest that is not native arrives here.
//!
//! From: `migrate/src/target.rs` (the body runs). Next: `forward.rs` (the call goes home).
//!
//! Nothing here waits for the hand: it may itself wait for a call of a guest that this thread lets through.

use crate::calls::{cpu_time, fork, forward, mmap, readahead, timers};
use crate::inject::allowed_calls;
use crate::inject::allowed_calls::Passes;
use crate::state::shared::{Cell, Fix, Shared, Waiting, lock};
use crate::threads::futex_waits;
use armento_abi::{CpuClock, Verdict, cpu_clock};
use armento_model::{Pid, Stay};
use armento_tracee::notify::Notice;
use armento_wire::talk::ToHome;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// AUDIT_ARCH_X86_64.
const ARCH: u32 = 0xc000_003e;
/// Bit of x32 numbers.
const X32: i32 = 0x4000_0000;

/// Serves until the last guest is gone.
pub fn run(sh: &Arc<Shared>) {
    loop {
        match sh.listener.receive() {
            Ok(Some(n)) => notice(sh, &n),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

fn notice(sh: &Arc<Shared>, n: &Notice) {
    match sh.open.passes(n.tid as i32, n.nr.into(), &n.args) {
        Passes::Ours if n.arch == ARCH => {
            sh.listener.let_through(n.id);
            return;
        }
        Passes::Ours | Passes::Forged => {
            return allowed_calls::meddled(sh, n.tid as i32, "it made a call in our name");
        }
        Passes::Its => {}
    }
    let Some(cell) = sh.cell(n.tid as i32) else {
        // No thread of ours: nothing of it may happen. It stays where it is until it is killed.
        return;
    };
    if cell.proc.frozen() {
        return forward::park(sh, &cell, n.id);
    }
    if n.arch != ARCH || n.nr & X32 != 0 {
        return come_home(
            sh,
            &cell,
            n.id,
            Stay::ThirtyTwoBit,
            "a call of another architecture",
        );
    }
    let verdict = armento_abi::place_of(n.nr as u64, &n.args);
    if !matches!(verdict, Verdict::Body) && readahead::served(sh, &cell, n) {
        return;
    }
    match i64::from(n.nr) {
        // Where others see it; then at the body as well.
        libc::SYS_prctl if n.args[0] as i32 == libc::PR_SET_NAME => {
            return forward::send_fixed(sh, &cell, n, Fix::Through);
        }
        libc::SYS_setrlimit | libc::SYS_prlimit64 => return forward::limit(sh, &cell, n),
        libc::SYS_signalfd | libc::SYS_signalfd4 => {
            return come_home(
                sh,
                &cell,
                n.id,
                Stay::UnsupportedCall,
                "it makes a descriptor that signals are read from",
            );
        }
        _ => {}
    }
    match verdict {
        Verdict::Body => {
            sh.listener.let_through(n.id);
        }
        Verdict::Host => special(sh, &cell, n),
        Verdict::Home => forward::send(sh, &cell, n),
        Verdict::ComeHome(why) => come_home_about(sh, &cell, n.id, (reason(n.nr), why), about(n)),
    }
}

/// The closed list of reasons, by call.
fn reason(nr: i32) -> Stay {
    match i64::from(nr) {
        libc::SYS_io_uring_setup | libc::SYS_io_uring_enter | libc::SYS_io_uring_register => {
            Stay::IoUring
        }
        libc::SYS_seccomp => Stay::OwnFilter,
        libc::SYS_mseal => Stay::SealedMapping,
        libc::SYS_shmat | libc::SYS_shmget | libc::SYS_mmap => Stay::SharedMemory,
        _ => Stay::UnsupportedCall,
    }
}

pub fn come_home(sh: &Arc<Shared>, cell: &Arc<Cell>, id: u64, stay: Stay, why: &str) {
    come_home_about(sh, cell, id, (stay, why), None);
}

fn come_home_about(
    sh: &Arc<Shared>,
    cell: &Arc<Cell>,
    id: u64,
    (stay, why): (Stay, &str),
    about: Option<Pid>,
) {
    lock(&cell.st).waiting = Some(Waiting::Parked { id });
    sh.tell(&ToHome::ComeHome {
        pid: cell.pid,
        tid: cell.tid,
        stay,
        why: why.to_owned(),
        about,
    });
}

/// Another process whose memory, registers or CPU time a call wants.
fn about(n: &Notice) -> Option<Pid> {
    match (i64::from(n.nr), n.args[0] as u32) {
        (libc::SYS_process_vm_readv | libc::SYS_process_vm_writev, pid) => Some(pid as Pid),
        (libc::SYS_clock_nanosleep, clock) => match cpu_clock(clock as i32, 0, 0)? {
            CpuClock::Process(pid) => Some(pid).filter(|p| *p != 0),
            CpuClock::Thread(_) => None,
        },
        (libc::SYS_ptrace, libc::PTRACE_ATTACH | libc::PTRACE_SEIZE) => Some(n.args[1] as Pid),
        _ => None,
    }
}

/// Calls that are looked at, and may then wait in the body's own kernel.
pub fn waits_here(nr: i64) -> bool {
    matches!(nr, libc::SYS_restart_syscall | libc::SYS_futex)
}

fn special(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    match i64::from(n.nr) {
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
            fork::begin(sh, cell, n)
        }
        libc::SYS_execve | libc::SYS_execveat => forward::exec(sh, cell, n),
        libc::SYS_exit_group => exit(sh, cell, n),
        libc::SYS_mmap => mmap::begin(sh, cell, n),
        libc::SYS_mincore => mmap::look(sh, cell, n),
        libc::SYS_restart_syscall if lock(&cell.st).at_deputy => forward::restart(sh, cell, n),
        libc::SYS_futex => futex_waits::begin(sh, cell, n),
        libc::SYS_restart_syscall => {
            sh.listener.let_through(n.id);
        }
        libc::SYS_clock_gettime | libc::SYS_clock_getres => cpu_time::clock(sh, cell, n),
        libc::SYS_getrusage | libc::SYS_times => cpu_time::usage(sh, cell, n),
        libc::SYS_setitimer => timers::set_itimer(sh, cell, n),
        libc::SYS_rt_sigaction => forward::sigchld(sh, cell, n),
        libc::SYS_rt_sigtimedwait => sigwait(sh, cell, n),
        _ => come_home(
            sh,
            cell,
            n.id,
            Stay::UnsupportedCall,
            "a call the host does not serve",
        ),
    }
}

fn sigwait(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    let led = lock(&cell.st).sigwait.is_some();
    if led {
        sh.listener.let_through(n.id);
        return;
    }
    let (cell, id, info) = (cell.clone(), n.id, n.args[1]);
    sh.hand
        .post(move |zoo| crate::threads::sigtimedwait::lead_wait(zoo, &cell, id, info));
}

fn exit(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    lock(&cell.st).waiting = Some(Waiting::Special);
    cell.proc.exiting.store(true, Ordering::Release);
    sh.tell(&ToHome::Exit {
        pid: cell.pid,
        code: n.args[0] as i32,
        away: cpu_time::away(&cell.proc),
    });
}
