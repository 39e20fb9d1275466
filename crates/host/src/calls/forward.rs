//! Sends a guest's call home, and takes what comes back.
//!
//! From: `serve.rs`. Next: `wire/src/call.rs`, then `keeper/src/serve.rs`.

use crate::calls::dispatch::come_home;
use crate::calls::{cmdline, cpu_time, partial_io, timers};
use crate::home::messages::CALL_SHORT;
use crate::state::shared::{BodyMem, Cell, Fix, Shared, Waiting, lock};
use crate::threads::stops;
use armento_abi::{Packed, Plan, Refuse, sends};
use armento_migrate::image::thread::ERESTARTNOHAND;
use armento_migrate::stop::without_effect;
use armento_model::Stay;
use armento_tracee::inject::bit;
use armento_tracee::notify::Notice;
use armento_tracee::region::DATA;
use armento_tracee::{status, sys};
use armento_wire::call::{AGAIN, Call, Reply};
use armento_wire::talk::ToHome;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The kernel's own "issue it again" range: ERESTARTSYS … ERESTART_RESTARTBLOCK.
pub fn is_restart(ret: i64) -> bool {
    (-516..=-512).contains(&ret)
}

pub fn send(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    if partial_io::go_on(sh, cell, n) {
        return;
    }
    let mut mem = BodyMem(cell);
    let wait_mask = match armento_abi::read_mask(n.nr as u64, &n.args, &mut mem) {
        Ok(m) => m,
        Err(errno) => {
            sh.listener.reply(n.id, -i64::from(errno));
            return;
        }
    };
    if let Some(mask) = wait_mask
        && open_signal(cell, mask)
    {
        // One that only this call lets in waits already: the call ends before it begins.
        let (cell, id) = (cell.clone(), n.id);
        let mut st = lock(&cell.st);
        st.wait_mask = wait_mask;
        st.again = Some(n.nr);
        drop(st);
        sh.hand
            .post(move |zoo| stops::restart(zoo, &cell, id, ERESTARTNOHAND));
        return;
    }
    if let Some(path) = opens_proc(cell, n) {
        if armento_abi::proc_self_needs_home(&path, cell.pid as u32) {
            let why = "it reads its own /proc files";
            return come_home(sh, cell, n.id, Stay::UnsupportedCall, why);
        }
        if armento_abi::whose_words(&path).is_some() {
            cmdline::tell(sh);
        }
    }
    if opens_what_is_away(sh, cell, n) {
        let why = "it opens a file in /dev/shm";
        return come_home(sh, cell, n.id, Stay::SharedMemory, why);
    }
    match armento_abi::pack(n.nr as u64, &n.args, &mut mem, DATA as usize) {
        Ok(plan) => {
            let mask = if i64::from(n.nr) == libc::SYS_ioctl {
                tty_mask(cell)
            } else {
                0
            };
            let fix = partial_io::fix(n).unwrap_or_else(|| timers::fix(n));
            post(sh, cell, n, plan, wait_mask, mask, fix);
        }
        Err(Refuse::Errno(e)) => {
            sh.listener.reply(n.id, -i64::from(e));
        }
        Err(Refuse::ComeHome(why)) => come_home(sh, cell, n.id, Stay::UnsupportedCall, why),
    }
}

/// A signal waits at the body that `mask` lets in.
fn open_signal(cell: &Cell, mask: u64) -> bool {
    status::read(cell.here).is_ok_and(|s| (s.sig_pending | s.shared_pending) & !mask != 0)
}

/// Terminals ask whether the caller blocks or ignores SIGTTOU and SIGTTIN before they stop it.
fn tty_mask(cell: &Cell) -> u64 {
    let jobs = bit(libc::SIGTTOU) | bit(libc::SIGTTIN);
    status::read(cell.here).map_or(0, |s| (s.blocked | s.ignored) & jobs)
}

/// setrlimit and prlimit64 of the process itself: home decides, the body follows. CPU time is counted
/// where it is used up, so a limit on it brings the process home.
pub fn limit(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    let old_call = i64::from(n.nr) == libc::SYS_setrlimit;
    let (pid, resource, new) = if old_call {
        (0, n.args[0], n.args[1])
    } else {
        (n.args[0], n.args[1], n.args[2])
    };
    let own = pid == 0 || pid as i32 == cell.pid;
    let mut raw = [0u8; 16];
    if !own || new == 0 || !matches!(sys::vm_read(cell.here, new, &mut raw), Ok(16)) {
        return send(sh, cell, n);
    }
    if resource as u32 == libc::RLIMIT_CPU {
        return come_home(sh, cell, n.id, Stay::UnsupportedCall, "a limit of CPU time");
    }
    let word = |i: usize| u64::from_le_bytes(raw[i..i + 8].try_into().unwrap_or_default());
    let fix = Fix::Limit(resource as u32, word(0), word(8));
    send_fixed(sh, cell, n, fix);
}

/// Remembers what waits, then sends it.
pub fn post(
    sh: &Shared,
    cell: &Cell,
    n: &Notice,
    plan: Plan,
    wait_mask: Option<u64>,
    mask: u64,
    fix: Fix,
) {
    let seq = sh.number();
    let packed = plan.packed.clone();
    let mut st = lock(&cell.st);
    let again = st.again.take() == Some(n.nr);
    st.slept &= again;
    let flags = if again { AGAIN } else { 0 };
    let mask = match cell.proc.signalfds.load(Ordering::Relaxed) {
        0 => mask,
        _ => status::read(cell.here).map_or(mask, |s| s.blocked),
    };
    st.wait_mask = wait_mask;
    st.seq = seq;
    st.sent = Some(Instant::now());
    st.waiting = Some(Waiting::Call {
        id: n.id,
        seq,
        plan: Box::new(plan),
        fix,
    });
    cell.proc.forwarded.fetch_add(1, Ordering::Relaxed);
    sh.send_call(&Call {
        tid: cell.tid,
        seq,
        flags,
        mask,
        packed,
    });
    // Sent under the lock: a nudge about this call must not overtake it.
    let queued = cell.proc.signals.load(Ordering::SeqCst);
    let new = std::mem::replace(&mut st.signals, queued) != queued;
    if new && waits(cell, wait_mask) {
        // It was queued before anybody could see that this call is under way.
        sh.tell(&ToHome::Nudge { tid: cell.tid, seq });
    }
}

/// A signal waits at the body that its thread would take.
pub fn waits(cell: &Cell, mask: Option<u64>) -> bool {
    status::read(cell.here).is_ok_and(|s| {
        let shut = mask.unwrap_or(s.blocked) | without_effect(&s);
        (s.sig_pending | s.shared_pending) & !shut != 0
    })
}

/// Sends a call home as it is, and does something with its result.
pub fn send_fixed(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice, fix: Fix) {
    match armento_abi::pack(n.nr as u64, &n.args, &mut BodyMem(cell), DATA as usize) {
        Ok(plan) => post(sh, cell, n, plan, None, 0, fix),
        Err(Refuse::Errno(e)) => {
            sh.listener.reply(n.id, -i64::from(e));
        }
        Err(Refuse::ComeHome(why)) => come_home(sh, cell, n.id, Stay::UnsupportedCall, why),
    }
}

/// Continues in the deputy what a stop interrupted there.
pub fn restart(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    // The kernel wants no arguments; home needs those of the call that goes on, for its results.
    let packed = Packed {
        nr: n.nr as u16,
        args: n.args,
        ..Packed::default()
    };
    post(
        sh,
        cell,
        n,
        Plan {
            packed,
            dests: Vec::new(),
        },
        None,
        0,
        Fix::None,
    );
}

/// The deputy executes it natively; the keeper says `Execed`, or the error comes back as a reply.
pub fn exec(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    let mut mem = BodyMem(cell);
    match armento_abi::pack(n.nr as u64, &n.args, &mut mem, DATA as usize) {
        Ok(plan) => {
            // Counted before the look: a signal that comes between is seen by one of the two.
            let heard = cell.proc.heard.load(Ordering::SeqCst);
            let st = status::read(cell.here).unwrap_or_default();
            let waits = (st.sig_pending | st.shared_pending) & st.blocked != 0;
            // A child by vfork has its parent's memory until it execs, and cannot move.
            if waits && cell.proc.live.load(Ordering::Acquire) {
                // The new image is to have them, and they would end with this body.
                let why = "an exec while blocked signals wait";
                return come_home(sh, cell, n.id, Stay::UnsupportedCall, why);
            }
            if cell.proc.cpu_timer.load(Ordering::Acquire) {
                // The new image is to have it, which only the kernel that runs it can do.
                let why = "an exec with a timer of CPU time";
                return come_home(sh, cell, n.id, Stay::UnsupportedCall, why);
            }
            sh.tell(&ToHome::Ignored {
                pid: cell.pid,
                tid: cell.tid,
                ignored: st.ignored,
                heard,
                away: cpu_time::away(&cell.proc),
                thread_away: cpu_time::thread_away(cell),
            });
            post(sh, cell, n, plan, None, st.blocked, Fix::None);
        }
        Err(Refuse::Errno(e)) => {
            sh.listener.reply(n.id, -i64::from(e));
        }
        Err(Refuse::ComeHome(why)) => come_home(sh, cell, n.id, Stay::UnsupportedCall, why),
    }
}

/// SIGCHLD's disposition decides about zombies, which are at home: set it there too, then here.
pub fn sigchld(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    let mut act = [0u8; 32];
    if n.args[1] == 0 || !matches!(sys::vm_read(cell.here, n.args[1], &mut act), Ok(32)) {
        sh.listener.let_through(n.id);
        return;
    }
    let word = |i: usize| u64::from_le_bytes(act[i..i + 8].try_into().unwrap_or_default());
    let flags = word(8) & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    // A handler as such, though it never runs there: default would throw away a SIGCHLD that waits.
    let data: Vec<u8> = [word(0), flags, 0, 0]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let packed = Packed {
        nr: n.nr as u16,
        args: [n.args[0], 0, 0, 8, 0, 0],
        data,
        arg_ptrs: 0b10,
        ..Packed::default()
    };
    post(
        sh,
        cell,
        n,
        Plan {
            packed,
            dests: Vec::new(),
        },
        None,
        0,
        Fix::Through,
    );
}

/// A notification that arrived during a freeze: its thread stops, and the call is issued again elsewhere.
pub fn park(sh: &Arc<Shared>, cell: &Arc<Cell>, id: u64) {
    lock(&cell.st).waiting = Some(Waiting::Parked { id });
    let cell = cell.clone();
    sh.hand.post(move |zoo| stops::unpark(zoo, &cell));
}

/// A reply came. `part`: of a call that was interrupted.
pub fn reply(sh: &Arc<Shared>, r: &Reply<'_>, part: bool) {
    let Some(cell) = sh.cell_of(r.tid) else {
        return;
    };
    let mut st = lock(&cell.st);
    let (id, plan, fix) = match st.waiting.take() {
        Some(Waiting::Call { id, seq, plan, fix }) if seq == r.seq => (id, plan, fix),
        other => {
            st.waiting = other;
            return;
        }
    };
    let took = st.sent.take().map(|t| t.elapsed());
    if let Some(short) = took.filter(|t| *t < CALL_SHORT) {
        st.asked_ns += short.as_nanos() as u64;
    }
    let turned_back = is_restart(r.ret) && r.outs.is_empty();
    let ret = if turned_back {
        r.ret
    } else {
        armento_abi::unpack(&plan, r.ret, r.outs, &mut BodyMem(&cell))
    };
    let mut ret = ret;
    if let Fix::Whole(w) = fix {
        drop(st);
        let asked = sends::packed_payload(&plan.packed);
        match partial_io::reply(sh, (&cell, id), w, asked, (part, ret)) {
            Some(all) => ret = all,
            None => return,
        }
        st = lock(&cell.st);
    }
    if is_restart(ret) {
        // A continuation that was turned back before it was made still waits there.
        let continued = i64::from(plan.packed.nr) == libc::SYS_restart_syscall;
        st.at_deputy = ret == -516 || st.at_deputy && continued;
        st.again = Some(match &fix {
            Fix::Whole(w) => w.nr,
            _ => plan.packed.nr.into(),
        });
        // Turned back before it was made, it says another.
        st.slept |= ret == ERESTARTNOHAND;
        drop(st);
        sh.hand.post(move |zoo| stops::restart(zoo, &cell, id, ret));
        return;
    }
    let slept = std::mem::take(&mut st.slept);
    st.wait_mask = None;
    st.at_deputy = false;
    drop(st);
    let mut ret = if slept {
        armento_abi::begun_again(plan.packed.nr.into(), ret)
    } else {
        ret
    };
    match fix {
        Fix::None | Fix::Whole(_) => {}
        Fix::Overrun(timer) if ret >= 0 => ret = timers::overrun(&cell.proc, timer),
        Fix::TimerGone(timer) if ret == 0 => {
            let pid = cell.pid;
            sh.hand.run(move |zoo| timers::set(zoo, pid, timer));
        }
        Fix::Overrun(_) | Fix::TimerGone(_) => {}
        Fix::Rusage(at) if ret == 0 => cpu_time::add_rusage(&cell, at, false),
        Fix::ThreadRusage(at) if ret == 0 => cpu_time::add_rusage(&cell, at, true),
        Fix::Times(at) if ret >= 0 => cpu_time::add_times(&cell, at),
        Fix::Limit(res, soft, hard) if ret == 0 => {
            crate::sys::set_limit(cell.here, res, soft, hard)
        }
        Fix::Rusage(_) | Fix::ThreadRusage(_) | Fix::Times(_) | Fix::Limit(..) => {}
        Fix::Through => {
            sh.listener.let_through(id);
            return;
        }
    }
    sh.listener.reply(id, ret);
}

/// In /dev/shm a process may find what is here with its tree's bodies. Who opens that at home waits until they are
/// there; a deputy cannot wait for itself.
fn opens_what_is_away(sh: &Shared, cell: &Cell, n: &Notice) -> bool {
    const SHM: &[u8] = b"/dev/shm/";
    let at = match i64::from(n.nr) {
        libc::SYS_open | libc::SYS_creat | libc::SYS_truncate => n.args[0],
        libc::SYS_openat | libc::SYS_openat2 => n.args[1],
        _ => return false,
    };
    let mut b = [0u8; SHM.len()];
    lock(&sh.objects).values().any(|o| o.lasts)
        && matches!(sys::vm_read(cell.here, at, &mut b), Ok(n) if n == b.len())
        && b == SHM
}

/// The path of a file in /proc that a call is about.
fn opens_proc(cell: &Cell, n: &Notice) -> Option<Vec<u8>> {
    let at = match i64::from(n.nr) {
        libc::SYS_open | libc::SYS_creat | libc::SYS_stat | libc::SYS_access => n.args[0],
        libc::SYS_openat | libc::SYS_openat2 => n.args[1],
        _ => return None,
    };
    let mut b = [0u8; 64];
    let got = sys::vm_read(cell.here, at, &mut b[..6]).unwrap_or(0);
    if got != 6 || &b[..6] != b"/proc/" {
        return None;
    }
    let room = (4096 - (at & 4095)).min(64) as usize;
    let got = sys::vm_read(cell.here, at, &mut b[..room]).unwrap_or(0);
    Some(b[..got].split(|c| *c == 0).next()?.to_vec())
}
