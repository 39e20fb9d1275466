//! Registrations for membarrier(2): without them the calls of a process's threads return EPERM.

use crate::Result;
use armento_tracee::call::Call;
use armento_tracee::inject::Hold;
use armento_tracee::region::Code;

/// KERNEL: linux/membarrier.h: returns the registrations, since 6.3.
const GET_REGISTRATIONS: u32 = 1 << 9;
/// The global command itself needs no registration: it affects only processes that are registered by this command.
const REGISTER_GLOBAL: u32 = 1 << 2;
/// Commands, each with the one that registers for it: expedited among the process's own threads, the same for code, and
/// for rseq. An unregistered one returns EPERM.
const PRIVATE: [(u32, u32); 3] = [(1 << 3, 1 << 4), (1 << 5, 1 << 6), (1 << 7, 1 << 8)];

fn call(command: u32) -> Call {
    (libc::SYS_membarrier, [command.into(), 0, 0, 0, 0, 0])
}

/// The registrations of a held process, as GET_REGISTRATIONS returns them: the bits of the commands that register. On
/// an older kernel each command is issued: one that is refused is not registered. That does not show the global
/// registration, which then counts as registered.
pub fn read(h: &mut Hold, code: &Code) -> Result<u32> {
    let known = PRIVATE.map(|(_, register)| register);
    let all = known.iter().fold(REGISTER_GLOBAL, |a, b| a | b);
    let (told, _) = h.call(code, libc::SYS_membarrier, call(GET_REGISTRATIONS).1)?;
    if told >= 0 {
        return Ok(told as u32 & all);
    }
    let made = h.batch(code, &PRIVATE.map(|(command, _)| call(command)))?;
    let registered = PRIVATE.iter().zip(made).filter(|(_, r)| *r == 0);
    Ok(registered.fold(REGISTER_GLOBAL, |a, ((_, register), _)| a | register))
}

/// Calls that register a process again.
pub fn set_calls(registered: u32) -> Vec<Call> {
    let private = PRIVATE.into_iter().map(|(_, register)| register);
    let all = [REGISTER_GLOBAL].into_iter().chain(private);
    all.filter(|c| registered & c != 0).map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_register_are_made() {
        let numbers = |registered| -> Vec<u64> {
            let calls = set_calls(registered);
            calls.into_iter().map(|(_, args)| args[0]).collect()
        };
        assert_eq!(numbers(u32::MAX), [1 << 2, 1 << 4, 1 << 6, 1 << 8]);
        assert_eq!(numbers(1 << 4 | 1 << 3), [1 << 4]);
        assert!(numbers(0).is_empty());
    }
}
