//! The arguments of fork, vfork, clone and clone3. Pure but for what clone3 reads from the guest.

use crate::inject::STACK_SIZE;
use armento_model::Tid;
use armento_tracee::notify::Notice;
use armento_tracee::region::USER_END;
use armento_tracee::sys;

/// What the program asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneArgs {
    pub flags: u64,
    pub exit_signal: i32,
    pub stack: u64,
    pub tls: u64,
    pub ptid: u64,
    pub ctid: u64,
}

/// Namespaces and the like, which only home can make.
const NEW_THINGS: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_PIDFD
    | libc::CLONE_PARENT
    | libc::CLONE_PTRACE;
/// CLONE_CLEAR_SIGHAND, CLONE_INTO_CGROUP: of clone3 only, and only at home.
const NEW_THINGS_HIGH: u64 = 3 << 32;

/// What the call asks for; `None` for a clone3 that cannot be read or that sets the tid.
pub fn requested(n: &Notice, here: Tid) -> Option<CloneArgs> {
    let a = n.args;
    Some(match i64::from(n.nr) {
        libc::SYS_fork => CloneArgs {
            exit_signal: libc::SIGCHLD,
            ..CloneArgs::default()
        },
        libc::SYS_vfork => CloneArgs {
            flags: (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
            exit_signal: libc::SIGCHLD,
            ..CloneArgs::default()
        },
        libc::SYS_clone => CloneArgs {
            flags: a[0] & !0xff & 0xffff_ffff,
            exit_signal: (a[0] & 0xff) as i32,
            stack: a[1],
            ptid: a[2],
            ctid: a[3],
            tls: a[4],
        },
        _ => {
            let mut b = [0u8; 64];
            if a[1] < 64 || !matches!(sys::vm_read(here, a[0], &mut b), Ok(64)) {
                return None;
            }
            let w =
                |i: usize| u64::from_le_bytes(b[i * 8..i * 8 + 8].try_into().unwrap_or_default());
            let set_tid = a[1] >= 80 && {
                let mut t = [0u8; 8];
                matches!(sys::vm_read(here, a[0] + 72, &mut t), Ok(8)) && u64::from_le_bytes(t) != 0
            };
            if set_tid {
                return None;
            }
            // KERNEL: clone3_stack_valid: both or none, and a range of the user's.
            if (w(5) == 0) != (w(6) == 0) {
                return None;
            }
            let stack = w(5).checked_add(w(6))?;
            CloneArgs {
                flags: w(0),
                exit_signal: w(4) as i32,
                stack,
                tls: w(7),
                ptid: w(3),
                ctid: w(2),
            }
        }
    })
}

/// What the kernel refuses is refused at home, by itself: a deputy's child is made without the flags that are refused.
///
/// KERNEL: copy_process and clone3_args_valid in kernel/fork.c.
pub fn refused(w: &CloneArgs) -> bool {
    w.has(libc::CLONE_THREAD) && (!w.has(libc::CLONE_SIGHAND) || w.exit_signal != 0)
        || w.has(libc::CLONE_SIGHAND) && !w.has(libc::CLONE_VM)
        || !(0..=64).contains(&w.exit_signal)
        // Taken by clone(2), but impossible with an injected clone3: a stack that ends where none can be.
        || w.stack != 0 && !(STACK_SIZE..USER_END).contains(&w.stack)
}

impl CloneArgs {
    /// Any of these flags.
    pub fn has(&self, flags: i32) -> bool {
        self.flags & flags as u64 != 0
    }

    /// Only home can make such a child.
    pub fn only_at_home(&self) -> bool {
        let vm_only = self.has(libc::CLONE_VM) && !self.has(libc::CLONE_THREAD | libc::CLONE_VFORK);
        // Its caller waits for the end of a thread, which is waited for here only of processes (`VforkParent`).
        let waits_for_thread = self.has(libc::CLONE_THREAD) && self.has(libc::CLONE_VFORK);
        let new = self.flags & NEW_THINGS as u64 != 0 || self.flags & NEW_THINGS_HIGH != 0;
        new || vm_only || waits_for_thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_children_are_made_at_home() {
        let check = |flags: i32, home| {
            let args = CloneArgs {
                flags: flags as u64,
                ..CloneArgs::default()
            };
            assert_eq!(args.only_at_home(), home, "{flags:#x}");
        };
        let thread = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
        check(0, false);
        check(thread, false);
        check(libc::CLONE_VM | libc::CLONE_VFORK, false);
        check(libc::CLONE_VFORK, false);
        check(libc::CLONE_VM, true);
        check(libc::CLONE_NEWPID, true);
        check(thread | libc::CLONE_VFORK, true);
    }
}
