//! Programs that use only what the processors of all nodes have (`--portable`).
//!
//! A feature cannot be hidden from a program that asks the processor itself: few processors fault CPUID. But
//! most that is chosen by features is chosen by glibc, and glibc can be told.

use armento_client::api::CpuSet;
use armento_migrate::image::Processor;
use armento_model::Pid;
use armento_sense::{cpu_set, xsave};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::fs;
use std::sync::OnceLock;

/// Where glibc is told. GLIBC: manual, "Tunables".
pub const VARIABLE: &CStr = c"GLIBC_TUNABLES";
const HWCAPS: &str = "glibc.cpu.hwcaps=";

/// What `--portable` starts with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portable {
    /// What all nodes have.
    pub common: CpuSet,
    /// Of [`VARIABLE`].
    pub tunables: String,
}

impl Portable {
    /// `hwcaps`: features taken away, as glibc has them. `given`: tunables that the user has set; they are kept.
    pub fn new(common: CpuSet, hwcaps: &str, given: Option<&str>) -> Portable {
        let (mut off, mut others) = (Vec::new(), Vec::new());
        for tunable in given
            .unwrap_or_default()
            .split(':')
            .filter(|t| !t.is_empty())
        {
            match tunable.strip_prefix(HWCAPS) {
                // GLIBC: said twice, only one of them counts.
                Some(list) => off.extend(list.split(',')),
                None => others.push(tunable.to_owned()),
            }
        }
        for name in hwcaps.split(',').filter(|n| !n.is_empty()) {
            if !off.contains(&name) {
                off.push(name);
            }
        }
        if !off.is_empty() {
            others.push(format!("{HWCAPS}{}", off.join(",")));
        }
        Portable {
            common,
            tunables: others.join(":"),
        }
    }

    /// Whether this process uses only what all nodes have: the environment with which its parent exec'd it tells.
    pub fn has(&self, pid: Pid) -> bool {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| self.was_told(&all))
    }

    /// Whether a program with this environment was told. One that its parent gave another was not.
    fn was_told(&self, environment: &[u8]) -> bool {
        let name = [VARIABLE.to_bytes(), b"="].concat();
        let mut all = environment.split(|b| *b == 0);
        let found = all.find_map(|entry| entry.strip_prefix(name.as_slice()));
        found.unwrap_or_default() == self.tunables.as_bytes()
    }
}

/// What a node must have that takes a process from here; `common`: if it uses only that.
pub fn required(common: Option<&CpuSet>) -> Processor {
    static HOME: OnceLock<CpuSet> = OnceLock::new();
    Processor {
        needs: common.unwrap_or_else(|| HOME.get_or_init(cpu_set)).clone(),
        xsave: xsave().clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_tunables_are_kept() {
        let check = |hwcaps: &str, given: Option<&str>, want: &str| {
            let p = Portable::new(CpuSet::default(), hwcaps, given);
            assert_eq!(p.tunables, want, "{hwcaps} {given:?}");
        };
        check("-AVX2,-ERMS", None, "glibc.cpu.hwcaps=-AVX2,-ERMS");
        check("", None, "");
        check("", Some("glibc.malloc.perturb=5"), "glibc.malloc.perturb=5");
        check(
            "-AVX2,-ERMS",
            Some("glibc.cpu.hwcaps=-ERMS,Prefer_FSRM:glibc.malloc.perturb=5"),
            "glibc.malloc.perturb=5:glibc.cpu.hwcaps=-ERMS,Prefer_FSRM,-AVX2",
        );
    }

    #[test]
    fn environment_tells_whether_a_program_is_portable() {
        let p = Portable::new(CpuSet::default(), "-AVX2", None);
        assert!(p.was_told(b"A=1\0GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2\0B=\0"));
        assert!(!p.was_told(b"A=1\0GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX\0"));
        assert!(!p.was_told(b"A=1\0"));
        assert!(!p.was_told(b""));
        // All nodes have the same: there was nothing to tell.
        let p = Portable::new(CpuSet::default(), "", None);
        assert!(p.was_told(b"A=1\0") && p.was_told(b""));
    }
}
