//! Known differences from native, with their causes.
//!
//! A gap is run like any other guest. While it differs it is shown as `gap` and counted as skipped; once it is equal it
//! passes, and the report asks to remove it here. `--strict` accepts no gap. The other modes are compared with native,
//! so native can have no gap.

use crate::task::Mode;

#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub guest: &'static str,
    pub mode: Mode,
    /// What differs and what is missing, for a user who encounters it.
    pub reason: &'static str,
}

/// One entry for each guest and mode.
pub const GAPS: &[Gap] = &[
    Gap {
        guest: "copying",
        mode: Mode::Storm,
        reason: "what a process at home writes with process_vm_writev into one that moves or is away is lost: Armento does not see that call",
    },
    Gap {
        guest: "copying",
        mode: Mode::StormCall,
        reason: "what a process at home writes with process_vm_writev into one that moves or is away is lost: Armento does not see that call",
    },
    Gap {
        guest: "childfiles",
        mode: Mode::Storm,
        reason: "from home, /proc/PID of a child that is away is its deputy's: state t instead of T while it is stopped, S while it computes, no program in maps",
    },
    Gap {
        guest: "childfiles",
        mode: Mode::StormCall,
        reason: "a child's /proc/PID/status shows state t instead of T while our keeper holds its stop",
    },
    Gap {
        guest: "laterwrites",
        mode: Mode::Away,
        reason: "away, private file mappings show the file as it was when it was mapped or left home: what is written or cut off later is seen at home again",
    },
    Gap {
        guest: "laterwrites",
        mode: Mode::Storm,
        reason: "away, private file mappings show the file as it was when it was mapped or left home: what is written or cut off later is seen at home again",
    },
    Gap {
        guest: "laterwrites",
        mode: Mode::StormCall,
        reason: "away, private file mappings show the file as it was when it was mapped or left home: what is written or cut off later is seen at home again",
    },
    Gap {
        guest: "memfile",
        mode: Mode::Storm,
        reason: "/proc/PID/mem of a child that is away, opened by a process at home, which Armento does not notice: reading and writing returns EIO, or zeros while the child comes home",
    },
    Gap {
        guest: "memfile",
        mode: Mode::StormCall,
        reason: "/proc/PID/mem of a child that is away is that of its hollow deputy: reading and writing it from home returns EIO",
    },
    Gap {
        guest: "profiles",
        mode: Mode::Storm,
        reason: "a process at home reads its CPU clocks without what it used away, until it would read less than before",
    },
    Gap {
        guest: "profiles",
        mode: Mode::StormCall,
        reason: "a process at home reads its CPU clocks without what it used away, until it would read less than before",
    },
    Gap {
        guest: "statfiles",
        mode: Mode::Storm,
        reason: "utime and stime in /proc/self/stat, read at home, lack what was used away",
    },
    Gap {
        guest: "statfiles",
        mode: Mode::StormCall,
        reason: "utime and stime in /proc/self/stat, read at home, lack what was used away",
    },
    Gap {
        guest: "statfiles",
        mode: Mode::Spread,
        reason: "/proc/self/status of a program that is followed at home names its keeper as TracerPid",
    },
    Gap {
        guest: "quietfiles",
        mode: Mode::Storm,
        reason: "in one of twenty runs IN_CLOSE_NOWRITE is reported for a file that was mapped privately right before: home closes its description of it after the watch was made",
    },
    Gap {
        guest: "quietfiles",
        mode: Mode::StormCall,
        reason: "in one of six runs IN_CLOSE_NOWRITE is reported for a file that was mapped privately right before: its descriptor has not been identified yet",
    },
    Gap {
        guest: "usage",
        mode: Mode::Away,
        reason: "ru_maxrss and fault counts of a thread and of children that were away, from wait4 and RUSAGE_CHILDREN, are home's alone",
    },
    Gap {
        guest: "usage",
        mode: Mode::Storm,
        reason: "ru_maxrss and fault counts are home's and those of the node where the process is: what was used on others in between is missing",
    },
    Gap {
        guest: "usage",
        mode: Mode::StormCall,
        reason: "ru_maxrss and fault counts are home's and those of the node where the process is: what was used on others in between is missing",
    },
    Gap {
        guest: "timers",
        mode: Mode::StormCall,
        reason: "timer_getoverrun in a handler returns 0 on a loaded machine when the next signal is pending by the time its process is home: the kernel drops it when a timer is set",
    },
];

/// Why `guest` may differ in `mode`.
pub fn known_gap(guest: &str, mode: Mode) -> Option<&'static str> {
    let found = GAPS.iter().find(|g| g.guest == guest && g.mode == mode);
    found.map(|g| g.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_name_existing_guests_once_with_a_reason() {
        let mut seen = std::collections::BTreeSet::new();
        for gap in GAPS {
            let (guest, mode) = (gap.guest, gap.mode);
            assert!(
                crate::guests::find(guest, None).is_some(),
                "there is no guest {guest}"
            );
            assert_ne!(mode, Mode::Native, "{guest}: native is right by definition");
            assert!(seen.insert((guest, mode.word())), "{guest} {mode:?} twice");
            assert!(
                gap.reason.len() > 20,
                "{guest} {mode:?} has too short a reason"
            );
        }
        assert_eq!(known_gap("nobody-of-this-name", Mode::Home), None);
    }
}
