//! The calling process, where the root has its recorded number and so is another one: it waits, and passes on.

use super::sys;
use armento_model::Pid;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{self, Signal, WaitOptions, getpgrp, kill_process, waitpid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::os::fd::OwnedFd;

/// Signals that are passed to the root when a process sends them to the caller. Those of the terminal reach its group.
const PASSED: &[i32] = &[
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGWINCH,
];

/// The controlling terminal, where the caller's group is in its foreground.
pub struct Terminal {
    group: process::Pid,
    foreground: Option<OwnedFd>,
}

impl Terminal {
    pub fn of_caller() -> Terminal {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = open("/dev/tty", flags, Mode::empty()).ok();
        let group = getpgrp();
        let ours = |t: &OwnedFd| tcgetpgrp(t).is_ok_and(|front| front == group);
        Terminal {
            group,
            foreground: terminal.filter(ours),
        }
    }

    pub fn group(&self) -> Pid {
        self.group.as_raw_nonzero().get()
    }

    pub fn give_to_own_group(&self) {
        self.give(getpgrp());
    }

    /// KERNEL: tcsetpgrp(3) of a process in the background sends SIGTTOU, unless it is blocked.
    fn give(&self, group: process::Pid) {
        if let Some(terminal) = &self.foreground {
            sys::block(&[libc::SIGTTOU]);
            let _ = tcsetpgrp(terminal, group);
            sys::unblock(libc::SIGTTOU);
        }
    }
}

/// How the root ended.
pub struct Ended {
    code: Option<i32>,
    signal: Option<i32>,
}

impl Ended {
    /// The calling process ends in the same way.
    pub fn end(self) -> ! {
        match self.signal {
            Some(signal) => sys::die_of(signal),
            None => sys::exit(self.code.unwrap_or(127)),
        }
    }
}

/// Waits for the end of the root. When it stops, the caller stops, so that the shell sees it.
pub fn stand_for(root: Pid, terminal: Terminal) -> Ended {
    let lost = Ended {
        code: None,
        signal: None,
    };
    let Some(child) = process::Pid::from_raw(root) else {
        return lost;
    };
    let signals = [PASSED, &[libc::SIGCHLD]].concat();
    sys::block(&signals);
    loop {
        // Before the wait for signals: it may have ended before they were blocked.
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        match waitpid(Some(child), options) {
            Ok(Some((_, status))) if status.stopped() => stop(child, &terminal),
            Ok(Some((_, status))) => {
                terminal.give(terminal.group);
                return Ended {
                    code: status.exit_status(),
                    signal: status.terminating_signal(),
                };
            }
            Ok(None) => {}
            Err(_) => return lost,
        }
        if let Ok((signal, true)) = sys::next_signal(&signals)
            && let Some(signal) = Signal::from_named_raw(signal)
            && signal != Signal::CHILD
        {
            let _ = kill_process(child, signal);
        }
    }
}

/// Stops as the root did; goes on when the shell says so.
fn stop(child: process::Pid, terminal: &Terminal) {
    terminal.give(terminal.group);
    let _ = kill_process(process::getpid(), Signal::STOP);
    let group = process::getpgid(Some(child));
    if let Ok(group) = group
        && group != terminal.group
    {
        let front = terminal.foreground.as_ref().map(tcgetpgrp);
        if matches!(front, Some(Ok(front)) if front == terminal.group) {
            terminal.give(group);
        }
        let _ = process::kill_process_group(group, Signal::CONT);
    } else {
        let _ = kill_process(child, Signal::CONT);
    }
}
