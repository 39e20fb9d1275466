//! Calls with an argument that depends on a command: fcntl, prctl, semctl, msgctl, and (in its own file) ioctl.
//! Commands that are not listed bring the process home.

use super::command::{Command, OUT_INT};
use super::{nr, sub_ioctl};
use crate::Arg::{self, In, InOut, Out, Path, Val};
use crate::Len::Const;

const FLOCK: u32 = 32;

/// KERNEL: include/uapi/linux/fcntl.h, asm-generic/fcntl.h. F_SETLEASE (1024) is absent: home may have the file open on
/// behalf of a mapping that was made away, and closes it when the process has come home.
const FCNTL: &[Command] = &[
    (0, Val),                  // F_DUPFD
    (1, Val),                  // F_GETFD
    (2, Val),                  // F_SETFD
    (3, Val),                  // F_GETFL
    (4, Val),                  // F_SETFL
    (5, InOut(Const(FLOCK))),  // F_GETLK
    (6, In(Const(FLOCK))),     // F_SETLK
    (7, In(Const(FLOCK))),     // F_SETLKW
    (8, Val),                  // F_SETOWN
    (9, Val),                  // F_GETOWN
    (10, Val),                 // F_SETSIG
    (11, Val),                 // F_GETSIG
    (15, In(Const(8))),        // F_SETOWN_EX
    (16, Out(Const(8))),       // F_GETOWN_EX
    (17, Out(Const(8))),       // F_GETOWNER_UIDS
    (36, InOut(Const(FLOCK))), // F_OFD_GETLK
    (37, In(Const(FLOCK))),    // F_OFD_SETLK
    (38, In(Const(FLOCK))),    // F_OFD_SETLKW
    (1025, Val),               // F_GETLEASE
    (1026, Val),               // F_NOTIFY
    (1027, Val),               // F_DUPFD_QUERY
    (1028, Val),               // F_CREATED_QUERY
    (1029, Val),               // F_CANCELLK
    (1030, Val),               // F_DUPFD_CLOEXEC
    (1031, Val),               // F_SETPIPE_SZ
    (1032, Val),               // F_GETPIPE_SZ
    (1033, Val),               // F_ADD_SEALS
    (1034, Val),               // F_GET_SEALS
    (1035, Out(Const(8))),     // F_GET_RW_HINT
    (1036, In(Const(8))),      // F_SET_RW_HINT
    (1037, Out(Const(8))),     // F_GET_FILE_RW_HINT
    (1038, In(Const(8))),      // F_SET_FILE_RW_HINT
];

/// KERNEL: include/uapi/linux/prctl.h. Options about memory, protection or the processor (dumpable, seccomp, MM, TSC,
/// speculation, shadow stacks, …) are omitted on purpose.
const PRCTL: &[Command] = &[
    (1, Val),             // PR_SET_PDEATHSIG
    (2, OUT_INT),         // PR_GET_PDEATHSIG
    (3, Val),             // PR_GET_DUMPABLE
    (7, Val),             // PR_GET_KEEPCAPS
    (8, Val),             // PR_SET_KEEPCAPS
    (13, Val),            // PR_GET_TIMING
    (14, Val),            // PR_SET_TIMING
    (15, Path),           // PR_SET_NAME: the host gives the body the same
    (16, Out(Const(16))), // PR_GET_NAME
    (21, Val),            // PR_GET_SECCOMP: in the body it would return the engine's filter
    (23, Val),            // PR_CAPBSET_READ
    (24, Val),            // PR_CAPBSET_DROP
    (27, Val),            // PR_GET_SECUREBITS
    (28, Val),            // PR_SET_SECUREBITS
    (29, Val),            // PR_SET_TIMERSLACK: sleeps are at home
    (30, Val),            // PR_GET_TIMERSLACK
    (31, Val),            // PR_TASK_PERF_EVENTS_DISABLE
    (32, Val),            // PR_TASK_PERF_EVENTS_ENABLE
    (36, Val),            // PR_SET_CHILD_SUBREAPER
    (37, OUT_INT),        // PR_GET_CHILD_SUBREAPER
    (38, Val),            // PR_SET_NO_NEW_PRIVS
    (39, Val),            // PR_GET_NO_NEW_PRIVS
    (41, Val),            // PR_SET_THP_DISABLE
    (42, Val),            // PR_GET_THP_DISABLE
    (47, Val),            // PR_CAP_AMBIENT
    (0x5961_6d61, Val),   // PR_SET_PTRACER
];

/// KERNEL: sizeof(struct semid64_ds), struct seminfo. GETALL (13) and SETALL (17) are omitted: their length is the
/// number of semaphores in the set, which only home has.
const SEMCTL: &[Command] = &[
    (0, Val),              // IPC_RMID
    (1, In(Const(104))),   // IPC_SET
    (2, Out(Const(104))),  // IPC_STAT
    (3, Out(Const(40))),   // IPC_INFO
    (11, Val),             // GETPID
    (12, Val),             // GETVAL
    (14, Val),             // GETNCNT
    (15, Val),             // GETZCNT
    (16, Val),             // SETVAL
    (18, Out(Const(104))), // SEM_STAT
    (19, Out(Const(40))),  // SEM_INFO
    (20, Out(Const(104))), // SEM_STAT_ANY
];

/// KERNEL: sizeof(struct msqid64_ds), struct msginfo.
const MSGCTL: &[Command] = &[
    (0, Val),              // IPC_RMID
    (1, In(Const(120))),   // IPC_SET
    (2, Out(Const(120))),  // IPC_STAT
    (3, Out(Const(32))),   // IPC_INFO
    (11, Out(Const(120))), // MSG_STAT
    (12, Out(Const(32))),  // MSG_INFO
    (13, Out(Const(120))), // MSG_STAT_ANY
];

/// The kind of the argument that depends on a command. `Err` is the reason why the process comes home; calls without
/// commands return `Ok(Val)`.
pub(crate) fn shape(call: u64, args: &[u64; 6]) -> Result<Arg, &'static str> {
    let (table, command, unknown) = match call {
        nr::IOCTL => (sub_ioctl::IOCTL, args[1], "ioctl command not in the table"),
        nr::FCNTL => (FCNTL, args[1], "fcntl command not in the table"),
        nr::PRCTL => (PRCTL, args[0], "prctl option not in the table"),
        nr::SEMCTL => (SEMCTL, args[2], "semctl command not in the table"),
        nr::MSGCTL => (MSGCTL, args[1], "msgctl command not in the table"),
        _ => return Ok(Val),
    };
    let command = command as u32;
    let at = table.binary_search_by_key(&command, |c| c.0);
    at.map(|i| table[i].1).map_err(|_| unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        for table in [sub_ioctl::IOCTL, FCNTL, PRCTL, SEMCTL, MSGCTL] {
            for pair in table.windows(2) {
                assert!(pair[0].0 < pair[1].0, "{:#x}", pair[1].0);
            }
        }
    }

    #[test]
    fn sizes_match_the_headers() {
        assert_eq!(size_of::<libc::flock>(), FLOCK as usize);
        assert_eq!(size_of::<libc::semid_ds>(), 104);
        assert_eq!(size_of::<libc::seminfo>(), 40);
        assert_eq!(size_of::<libc::msqid_ds>(), 120);
        assert_eq!(size_of::<libc::msginfo>(), 32);
        assert_eq!(size_of::<libc::termios2>(), 44);
        assert_eq!(size_of::<libc::winsize>(), 8);
        assert_eq!(size_of::<libc::ifreq>(), 40);
    }
}
