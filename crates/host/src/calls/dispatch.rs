//! The listener: every call of a guest that is not native arrives here.
//!
//! From: `migrate/src/target.rs` (the body runs). Next: `forward.rs` (the call goes home).
//!
//! Nothing here waits for the tracer thread: it may itself wait for a call of a guest that this thread lets through.

use super::come_home::{come_home, come_home_about};
use super::names::Looked;
use super::post::park;
use super::posted_calls::Served;
use super::{
    both_sides, cpu_time, devices, direct, exec, fork, forward, mmap, names, posted_calls,
    readahead_calls, sockets, timers,
};
use crate::inject::Origin;
use crate::state::{Ask, GuestThread, Host, Then, Waiting};
use crate::sync::lock;
use crate::threads;
use armento_abi::{CpuClock, Verdict, cpu_clock};
use armento_model::{HomePid, Stay};
use armento_tracee::notify::Notice;
use armento_wire::talk::ToHome;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// AUDIT_ARCH_X86_64.
const ARCH: u32 = 0xc000_003e;
/// Bit of x32 numbers.
const X32: i32 = 0x4000_0000;

/// Serves until the last guest is gone.
pub fn serve(host: &Arc<Host>) {
    loop {
        match host.listener.receive() {
            Ok(Some(n)) => notice(host, &n, false),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

/// A call that has waited until all that was posted before it was made.
pub fn settled(host: &Arc<Host>, n: &Notice) {
    notice(host, n, true);
}

/// A call that is taken up again.
pub fn again(host: &Arc<Host>, n: &Notice) {
    notice(host, n, false);
}

fn notice(host: &Arc<Host>, n: &Notice, settled: bool) {
    match host.injected.origin(n.tid as i32, n.nr.into(), &n.args) {
        Origin::Ours if n.arch == ARCH => {
            host.listener.let_through(n.id);
            return;
        }
        Origin::Ours | Origin::Forged => {
            return threads::end_tampered(host, n.tid as i32, "it made a call in our name");
        }
        Origin::Guest => {}
    }
    let Some(thread) = host.threads.here(n.tid as i32) else {
        // No known guest: its call is not answered, and it waits until it is killed.
        return;
    };
    if thread.proc.frozen() {
        return park(host, &thread, n.id);
    }
    if n.arch != ARCH || n.nr & X32 != 0 {
        return come_home(
            host,
            &thread,
            n.id,
            Stay::ThirtyTwoBit,
            "a call of another architecture",
        );
    }
    let verdict = armento_abi::place_of(n.nr as u64, &n.args);
    // Until it is answered or sent: home is told that calls on a connection wait when none is on its way (`sockets.rs`).
    let taken_up = thread.proc.taking_up.read();
    let _taken_up = taken_up.unwrap_or_else(|e| e.into_inner());
    if !matches!(verdict, Verdict::Body)
        && (sockets::served(host, &thread, n, settled, again)
            || direct::served(host, &thread, n, settled, again)
            || devices::served(host, &thread, n)
            || readahead_calls::served(host, &thread, n))
    {
        return;
    }
    let ask = match verdict {
        Verdict::Body => false,
        _ => match posted_calls::served(host, &thread, n) {
            Served::Yes => return,
            Served::No { ask } => ask,
        },
    };
    let ask_names = match verdict {
        Verdict::Home => match names::looked_up(host, &thread, n) {
            Looked::Yes => return,
            Looked::No { ask } => ask,
        },
        _ => false,
    };
    let ask = Ask {
        facts: ask,
        names: ask_names,
    };
    match i64::from(n.nr) {
        // At home, where other processes see it; then at the body as well.
        libc::SYS_prctl if n.args[0] as i32 == libc::PR_SET_NAME => {
            return forward::send_then(host, &thread, n, Then::RunHere);
        }
        libc::SYS_setrlimit | libc::SYS_prlimit64 => return both_sides::limit(host, &thread, n),
        libc::SYS_signalfd | libc::SYS_signalfd4 => {
            return come_home(
                host,
                &thread,
                n.id,
                Stay::UnsupportedCall,
                "it makes a descriptor that signals are read from",
            );
        }
        _ => {}
    }
    match verdict {
        Verdict::Body => {
            host.listener.let_through(n.id);
        }
        Verdict::Host => special(host, &thread, n),
        Verdict::Home => forward::send_asking(host, &thread, n, ask),
        Verdict::ComeHome(why) => {
            come_home_about(host, &thread, n.id, (reason(n.nr), why), about(n))
        }
    }
}

/// The reason to come home, by call.
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

/// Another process whose memory, registers or CPU time a call wants.
fn about(n: &Notice) -> Option<HomePid> {
    match (i64::from(n.nr), n.args[0] as u32) {
        (libc::SYS_process_vm_readv | libc::SYS_process_vm_writev, pid) => {
            Some(HomePid::of_program(pid as i32))
        }
        (libc::SYS_clock_nanosleep, clock) => match cpu_clock(clock as i32, 0, 0)? {
            CpuClock::Process(pid) => Some(pid).filter(|p| *p != 0).map(HomePid::of_program),
            CpuClock::Thread(_) => None,
        },
        (libc::SYS_ptrace, libc::PTRACE_ATTACH | libc::PTRACE_SEIZE) => {
            Some(HomePid::of_program(n.args[1] as i32))
        }
        _ => None,
    }
}

fn special(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    match i64::from(n.nr) {
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
            fork::begin(host, thread, n)
        }
        libc::SYS_execve | libc::SYS_execveat => exec::exec(host, thread, n),
        libc::SYS_exit_group => exit(host, thread, n),
        libc::SYS_mmap => mmap::begin(host, thread, n),
        libc::SYS_mincore => mmap::mincore(host, thread, n),
        libc::SYS_restart_syscall if lock(&thread.call).at_deputy => {
            both_sides::restart(host, thread, n)
        }
        libc::SYS_futex => threads::futex_wait_begins(host, thread, n),
        libc::SYS_restart_syscall => {
            host.listener.let_through(n.id);
        }
        libc::SYS_clock_gettime | libc::SYS_clock_getres => cpu_time::clock(host, thread, n),
        libc::SYS_getrusage | libc::SYS_times => cpu_time::usage(host, thread, n),
        libc::SYS_setitimer => timers::set_itimer(host, thread, n),
        libc::SYS_rt_sigaction => both_sides::sigchld(host, thread, n),
        libc::SYS_rt_sigtimedwait => sigwait(host, thread, n),
        _ => come_home(
            host,
            thread,
            n.id,
            Stay::UnsupportedCall,
            "a call the host does not serve",
        ),
    }
}

fn sigwait(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    let traced = lock(&thread.call).sigwait.is_some();
    if traced {
        host.listener.let_through(n.id);
        return;
    }
    let (thread, id, info) = (thread.clone(), n.id, n.args[1]);
    host.tracer
        .post(move |guests| threads::trace_sigwait(guests, &thread, id, info));
}

fn exit(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    lock(&thread.call).waiting = Some(Waiting::Special);
    thread.proc.exiting.store(true, Ordering::Release);
    host.home.send(&ToHome::Exit {
        pid: thread.pid,
        code: n.args[0] as i32,
        away: thread.proc.cpu_away(),
    });
}
