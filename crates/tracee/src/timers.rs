//! POSIX timers of a process, as /proc shows them.

use armento_model::{Pid, Tid};

/// A timer of timer_create(2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The kernel's number, which differs from the C library's timer_t.
    pub id: i32,
    pub signal: i32,
    /// `sigev_value`.
    pub value: u64,
    /// Whether its expiration is signalled: not with SIGEV_NONE.
    pub signals: bool,
    /// SIGEV_THREAD_ID: the thread that receives the signal; 0: it has ended.
    pub thread: Option<Tid>,
    pub clock: i32,
}

/// Timers that signal their expiration. KERNEL: /proc/PID/timers, proc_pid_timers(5); CONFIG_CHECKPOINT_RESTORE. Empty if
/// there is no such file.
pub fn list(pid: Pid) -> Vec<Timer> {
    let mut all = all(pid);
    all.retain(|t| t.signals && t.signal != 0);
    all
}

/// All timers, also those that send no signal.
pub fn all(pid: Pid) -> Vec<Timer> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/timers")).unwrap_or_default())
}

/// Whether it has a timer on a CPU-time clock, including one that sends no signal.
pub fn of_cpu_time(pid: Pid) -> bool {
    counts(&std::fs::read_to_string(format!("/proc/{pid}/timers")).unwrap_or_default())
}

/// KERNEL: linux/posix-timers_types.h: a negative number is a CPU clock's, or a descriptor's when its low bits are 3.
pub fn is_cpu_clock(id: i32) -> bool {
    let named = [
        libc::CLOCK_PROCESS_CPUTIME_ID,
        libc::CLOCK_THREAD_CPUTIME_ID,
    ];
    named.contains(&id) || id < 0 && id & 3 != 3
}

/// Whether a call, or its continuation after a stop, is a sleep on a CPU clock. The arguments survive a stop, the call
/// number does not: a clock's number fits into 32 bits, unlike the addresses that are the first argument of other
/// sleeps.
pub fn sleeps_by_cpu_time(nr: i64, args: &[u64; 6]) -> bool {
    let clock = args[0];
    match nr {
        libc::SYS_clock_nanosleep => is_cpu_clock(clock as i32),
        libc::SYS_restart_syscall => {
            let fits = clock <= u32::MAX.into() || clock as i64 == i64::from(clock as i32);
            fits && is_cpu_clock(clock as i32)
        }
        _ => false,
    }
}

fn counts(text: &str) -> bool {
    let clocks = text.lines().filter_map(|l| l.strip_prefix("ClockID: "));
    let mut clocks = clocks.filter_map(|v| v.trim().parse().ok());
    clocks.any(is_cpu_clock)
}

fn parse(text: &str) -> Vec<Timer> {
    let mut all: Vec<Timer> = Vec::new();
    for line in text.lines() {
        let Some((key, v)) = line.split_once(": ") else {
            continue;
        };
        let number = |s: &str| s.trim().parse().unwrap_or(0);
        match (key, all.last_mut()) {
            ("ID", _) => all.push(Timer {
                id: number(v),
                signal: 0,
                value: 0,
                signals: true,
                thread: None,
                clock: 0,
            }),
            ("ClockID", Some(t)) => t.clock = number(v),
            ("signal", Some(t)) => {
                let (signal, value) = v.split_once('/').unwrap_or((v, ""));
                t.signal = number(signal);
                t.value = u64::from_str_radix(value.trim(), 16).unwrap_or(0);
            }
            ("notify", Some(t)) => {
                t.thread = v.split_once("/tid.").map(|(_, tid)| number(tid));
                t.signals = !v.starts_with("none/");
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_timer_list_is_parsed() {
        let text = "ID: 0\nsignal: 60/00007fff86e452a8\nnotify: signal/pid.2634\nClockID: 0\n\
                    ID: 3\nsignal: 32/0000000000000000\nnotify: signal/tid.2640\nClockID: 1\n\
                    ID: 4\nsignal: 14/0000000000000000\nnotify: none/pid.2634\nClockID: 7\n";
        let timer = |id, (signal, value), thread, clock| Timer {
            id,
            signal,
            value,
            signals: id != 4,
            thread,
            clock,
        };
        let want = [
            timer(0, (60, 0x7fff_86e4_52a8), None, 0),
            timer(3, (32, 0), Some(2640), 1),
            timer(4, (14, 0), None, 7),
        ];
        assert_eq!(parse(text), want);
        assert_eq!(parse(""), []);
        let sleeps = |nr, clock| sleeps_by_cpu_time(nr, &[clock, 0, 0, 0, 0, 0]);
        let (sleep, again) = (libc::SYS_clock_nanosleep, libc::SYS_restart_syscall);
        assert!(sleeps(sleep, 2) && sleeps(again, 0xffff_fe02) && sleeps(again, -510i64 as u64));
        assert!(!sleeps(sleep, 1) && !sleeps(again, 0x7ffc_996b_c720) && !sleeps(35, 2));
        assert!(!counts(text) && !counts("ClockID: -5\n"));
        assert!(counts("ID: 1\nClockID: 2\n") && counts("ClockID: -6\n"));
    }
}
