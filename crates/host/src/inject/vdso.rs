//! The vDSO of a body: this kernel's at home's address, or home's image redirected to this kernel's.
//!
//! From: `host/src/moves/build.rs`. Next: `migrate/src/image/vdso.rs`, which explains how and why.

use armento_migrate::image::vdso::{ELSEWHERE, Vdso, redirected};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{Stay, Tid};
use armento_tracee::inject::{Allowlist, Hold, Outside, ok};
use armento_tracee::region::Code;
use armento_tracee::sys::SigInfo;
use armento_tracee::{maps, sys, trace};
use std::sync::Arc;

/// ARCH_MAP_VDSO_64. KERNEL: arch_prctl, CONFIG_CHECKPOINT_RESTORE.
const MAP_VDSO: u64 = 0x2003;

/// A vDSO that is not this kernel's.
#[derive(Clone)]
pub struct ForeignVdso {
    /// As the process has it from home.
    pub home: Vdso,
    /// Home's image; empty until it has come.
    pub image: Arc<[u8]>,
    /// Where this kernel's is mapped instead.
    at: u64,
}

/// Maps the vDSO of an empty body. Returns what is foreign about it; its image is to come.
pub fn map_vdso(h: &mut Hold, code: &Code, home: Option<Vdso>) -> Result<Option<ForeignVdso>> {
    let Some(home) = home else { return Ok(None) };
    let here = h.tid;
    let native = home.is_ours();
    let first = if native { home.first } else { ELSEWHERE };
    let args = [MAP_VDSO, first, 0, 0, 0, 0];
    let mapped = h.call(code, libc::SYS_arch_prctl, args)?.0;
    ok("map the vDSO", here, mapped)?;
    let all = maps::read(here).map_err(|_| MigrateError::Ended)?;
    let there = all.iter().filter(|v| v.is_vdso());
    let there = there.fold(None, |it, v| Some(Vdso::note(it, v)));
    // For the kernel the address is a hint.
    let there = there.filter(|v| v.first == first).ok_or_else(|| {
        let why = "the kernel mapped the vDSO at another address".into();
        MigrateError::Stays(Stay::TargetFailed, why)
    })?;
    if native {
        return Ok(None);
    }
    let plain = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let len = home.end - home.first;
    let none = libc::PROT_NONE as u64;
    let args = [home.first, len, none, plain as u64, u64::MAX, 0];
    let reserved = h.call(code, libc::SYS_mmap, args)?.0;
    ok("reserve the place of home's vDSO", here, reserved)?;
    Ok(Some(ForeignVdso {
        home,
        image: Arc::new([]),
        at: there.code,
    }))
}

impl ForeignVdso {
    /// Home's image has come: from now on its functions work.
    pub fn install(&mut self, h: &mut Hold, code: &Code, image: Vec<u8>) -> Result<()> {
        let (at, len) = (self.home.code, self.home.end - self.home.code);
        if image.len() as u64 != len {
            let why = format!("home's vDSO came with {} bytes, not {len}", image.len());
            return Err(MigrateError::Stays(Stay::TargetFailed, why));
        }
        let new = redirected(image.clone(), self.at)?;
        let protect = |prot: i32| (libc::SYS_mprotect, [at, len, prot as u64, 0, 0, 0]);
        let write = protect(libc::PROT_READ | libc::PROT_WRITE);
        h.batch_ok(code, "open home's vDSO", &[write])?;
        let n = sys::vm_write(h.tid, at, &new).of_process("write its memory")?;
        if n < new.len() {
            return Err(MigrateError::Ended);
        }
        let run = protect(libc::PROT_READ | libc::PROT_EXEC);
        h.batch_ok(code, "close home's vDSO", &[run])?;
        self.image = image.into();
        Ok(())
    }

    /// A handler is about to run, and its frame, which may travel, keeps where the thread is: outside of this kernel's
    /// code.
    /// Before: stopped at the signal with `info`. After: the same, with the function of the vDSO at its end.
    pub fn before_handler(&self, allowlist: Arc<dyn Allowlist>, here: Tid, info: &SigInfo) {
        let inside = trace::regs(here).is_ok_and(|r| self.is_inside(r.rip));
        if !inside {
            return;
        }
        // A thread that dies, or faults there itself, has its signal as it is.
        if let Ok(mut h) = Hold::take(here, allowlist) {
            let _ = h.step_out(&|rip| self.is_inside(rip));
        }
        let _ = trace::set_siginfo(here, info);
    }

    /// In home's image, or in this kernel's.
    fn is_inside(&self, rip: u64) -> bool {
        let (home, len) = (self.home, self.home.end - self.home.code);
        (self.at..self.at + 2 * len).contains(&rip) || (home.code..home.end).contains(&rip)
    }

    /// Before a thread leaves: other kernels have their code elsewhere. Refuses for a moment when the thread is about to
    /// make a call there.
    pub fn leave(&self, h: &mut Hold) -> Result<()> {
        let at_home = self.home.code..self.home.end;
        match h.step_out(&|rip| self.is_inside(rip))? {
            Outside::Yes => Ok(()),
            Outside::AtCall if at_home.contains(&h.regs.rip) => Ok(()),
            Outside::AtCall | Outside::TooFar => {
                let why = "it asks the kernel's vDSO for the time".into();
                Err(MigrateError::Stays(Stay::Busy, why))
            }
        }
    }
}
