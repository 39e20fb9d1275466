//! System calls that std does not wrap.

use std::io;

fn set() -> libc::cpu_set_t {
    // SAFETY: a cpu_set_t is an array of integers; all zero is the empty set.
    unsafe { std::mem::zeroed() }
}

/// The processors this thread may run on.
pub fn affinity() -> io::Result<libc::cpu_set_t> {
    let mut cpus = set();
    // SAFETY: `cpus` is as large as said and lives through the call.
    let rc = unsafe { libc::sched_getaffinity(0, size_of_val(&cpus), &mut cpus) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(cpus)
}

pub fn set_affinity(cpus: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `cpus` is as large as said; only this thread's own processors change.
    let rc = unsafe { libc::sched_setaffinity(0, size_of_val(cpus), cpus) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The numbers in a set.
pub fn members(cpus: &libc::cpu_set_t) -> Vec<usize> {
    let max = 8 * size_of_val(cpus);
    // SAFETY: `i` is below the number of bits of the set.
    (0..max)
        .filter(|&i| unsafe { libc::CPU_ISSET(i, cpus) })
        .collect()
}

/// The set of one processor. Before: `cpu` is a member of some set.
pub fn only(cpu: usize) -> libc::cpu_set_t {
    let mut cpus = set();
    // SAFETY: a member's number is below the number of bits of a set.
    unsafe { libc::CPU_SET(cpu, &mut cpus) };
    cpus
}

/// CLOCK_MONOTONIC in nanoseconds, as the workloads read it.
pub fn now_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` lives through the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Sleeps until CLOCK_MONOTONIC is `at`, nanoseconds.
pub fn sleep_until(at: u64) {
    let t = libc::timespec {
        tv_sec: (at / 1_000_000_000) as libc::time_t,
        tv_nsec: (at % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `t` lives through the call, which writes nothing for a time that is absolute.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &t,
            std::ptr::null_mut(),
        )
    };
}

/// Gives the calling thread priority over all ordinary ones.
pub fn real_time() -> io::Result<()> {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: `least` lives through the call; only this thread changes.
    let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &least) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Before: `pid` is a child of this process that has not been waited for.
pub fn signal(pid: u32, signal: i32) -> io::Result<()> {
    // SAFETY: sends a signal; no memory is passed.
    let rc = unsafe { libc::kill(pid as libc::pid_t, signal) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

pub use libc::SIGUSR1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_processors() {
        assert_eq!(members(&only(3)), [3]);
        assert!(!members(&affinity().unwrap()).is_empty());
    }
}
