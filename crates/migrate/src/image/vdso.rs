//! The kernel's own pages in a process: the vDSO, whose code and data differ between kernels.
//!
//! Programs keep addresses of its functions (as glibc does of gettimeofday). A target whose kernel has the same vDSO
//! maps its own at the same address. Otherwise the body has home's image as plain memory, in which each function begins
//! with a jump to the target's own vDSO, mapped elsewhere; the pages before it, from which home's code would read the
//! time, are not readable.
//!
//! ```text
//! at home                    in a body, other kernel
//! first  vvar pages          first  nothing (PROT_NONE)
//! code   vDSO                code   home's image, its functions redirected ──► vDSO of the target (in `ELSEWHERE`)
//! end                        end
//! ```
//!
//! No thread travels inside it: threads are single-stepped out of the vDSO first (`Hold::step_out`).

use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::inject::{Hold, Outside};
use armento_tracee::maps::{self, Vma};
use armento_tracee::pages::Run;
use armento_tracee::region::{BASE, ROOM};
use armento_tracee::sys;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_128;

/// Where a target maps its own vDSO if home's is another: at the end of the reserved addresses.
pub const ELSEWHERE: u64 = BASE + ROOM - (16 << 20);
/// Linux 6.1 to 6.18 have two pages of code and four to six of data; anything larger is not a vDSO.
const BYTES_MAX: u64 = 64 << 10;

/// The address and the identity of a process's vDSO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vdso {
    /// First of the data pages.
    pub first: u64,
    pub code: u64,
    pub end: u64,
    /// Digest of the code as the process sees it: the kernel patches it for its processor.
    pub digest: u128,
}

impl Vdso {
    /// Adds `v` if it is a kernel mapping outside our own region; the digest is not known yet.
    pub fn note(known: Option<Vdso>, v: &Vma) -> Vdso {
        let mut it = known.unwrap_or(Vdso {
            first: v.start,
            end: v.end,
            ..Vdso::default()
        });
        it.first = it.first.min(v.start);
        it.end = it.end.max(v.end);
        if v.name == "[vdso]" {
            it.code = v.start;
        }
        it
    }

    /// With the digest of the code that `pid` has there.
    pub fn digested(mut self, pid: i32) -> Result<Vdso> {
        self.digest = xxh3_128(&self.read(pid)?);
        Ok(self)
    }

    /// The image that `pid` has.
    pub fn read(&self, pid: i32) -> Result<Vec<u8>> {
        self.check()?;
        let mut image = vec![0; (self.end - self.code) as usize];
        let n = sys::vm_read(pid, self.code, &mut image).of_process("read its vDSO")?;
        if n < image.len() {
            return Err(odd("it could not be read whole"));
        }
        Ok(image)
    }

    /// Checks that received numbers describe page-aligned memory of a plausible size.
    pub fn check(&self) -> Result<()> {
        let aligned = [self.first, self.code, self.end]
            .iter()
            .all(|a| a % 4096 == 0);
        let ordered = self.first <= self.code && self.code < self.end;
        if aligned && ordered && self.end - self.first <= BYTES_MAX {
            return Ok(());
        }
        Err(odd("its place is no vDSO's"))
    }

    /// Called before a thread leaves for a kernel with another vDSO. A thread that is about to make its system call may
    /// stay: the code after it is the same there.
    pub fn leave(&self, hold: &mut Hold) -> Result<()> {
        match hold.step_out(&|rip| (self.code..self.end).contains(&rip))? {
            Outside::Yes | Outside::AtCall => Ok(()),
            Outside::TooFar => Err(odd("a thread is in a long call of it")),
        }
    }

    pub fn run(&self) -> Run {
        (self.first, self.end)
    }

    /// Whether it is the vDSO of this machine's kernel.
    pub fn is_ours(&self) -> bool {
        own().as_ref().is_some_and(|(own, _)| {
            own.digest == self.digest
                && own.code - own.first == self.code - self.first
                && own.end - own.code == self.end - self.code
        })
    }
}

fn odd(why: &str) -> MigrateError {
    MigrateError::Stays(Stay::Busy, format!("the vDSO: {why}"))
}

/// The vDSO of this process, which is the same in all processes of this machine, and its image.
fn own() -> &'static Option<(Vdso, Vec<u8>)> {
    static OWN: OnceLock<Option<(Vdso, Vec<u8>)>> = OnceLock::new();
    OWN.get_or_init(|| {
        let me = std::process::id() as i32;
        let all = maps::read(me).ok()?;
        let kernel = all.iter().filter(|v| v.is_vdso());
        let found = kernel.fold(None, |it, v| Some(Vdso::note(it, v)))?;
        let found = found.digested(me).ok()?;
        Some((found, found.read(me).ok()?))
    })
}

/// Home's image for a body on a kernel with another vDSO: `image` with each function redirected to this machine's vDSO,
/// which the body has at `at`.
pub fn redirected(mut image: Vec<u8>, at: u64) -> Result<Vec<u8>> {
    let own = own().as_ref().ok_or_else(|| odd("this machine has none"))?;
    let ours = functions(&own.1);
    let theirs = functions(&image);
    if theirs.is_empty() {
        return Err(odd("home's has no functions"));
    }
    for f in theirs {
        let there = ours.iter().find(|o| o.name == f.name && jumps(&f.name));
        let stub = match there {
            Some(o) => jump(at + o.at),
            None => match plain_call(&f.name) {
                Some(stub) => stub,
                // Functions that no movable program calls (SGX enclaves are devices).
                None => continue,
            },
        };
        let place = (f.at as usize)..(f.at as usize + stub.len());
        match image.get_mut(place) {
            Some(place) if stub.len() as u64 <= f.size => place.copy_from_slice(&stub),
            _ => return Err(odd(&format!("{} has no room for a jump", f.name))),
        }
    }
    Ok(image)
}

/// Whether the target's function does the same as home's for the same arguments. Not getrandom's: the layout of its
/// state is that of the kernel which created it (KERNEL: lib/vdso/getrandom.c).
fn jumps(name: &str) -> bool {
    plain_call(name).is_some() && name != "__vdso_getrandom"
}

/// `jmp *0(%rip)` and the address after it: no register changes.
fn jump(to: u64) -> Vec<u8> {
    let mut stub = vec![0xff, 0x25, 0, 0, 0, 0];
    stub.extend_from_slice(&to.to_le_bytes());
    stub
}

/// A function that makes the system call for which a function of the vDSO stands. KERNEL: vdso(7), "x86-64 functions".
fn plain_call(name: &str) -> Option<Vec<u8>> {
    let nr = match name {
        "__vdso_clock_gettime" => libc::SYS_clock_gettime,
        "__vdso_clock_getres" => libc::SYS_clock_getres,
        "__vdso_gettimeofday" => libc::SYS_gettimeofday,
        "__vdso_time" => libc::SYS_time,
        "__vdso_getcpu" => libc::SYS_getcpu,
        "__vdso_getrandom" => libc::SYS_getrandom,
        _ => return None,
    };
    // mov $nr,%eax; syscall; ret
    let mut call = vec![0xb8];
    call.extend_from_slice(&(nr as u32).to_le_bytes());
    call.extend_from_slice(&[0x0f, 0x05, 0xc3]);
    if name != "__vdso_getrandom" {
        return Some(call);
    }
    // Asked for the size of its state (the size is all ones), it fails: programs make the system call then.
    // cmp $-1,%r8; jne call; mov $-ENOSYS,%eax; ret; call:
    let mut stub = vec![0x49, 0x83, 0xf8, 0xff, 0x75, 0x06, 0xb8];
    stub.extend_from_slice(&(-libc::ENOSYS).to_le_bytes());
    stub.push(0xc3);
    stub.extend_from_slice(&call);
    Some(stub)
}

struct Function {
    name: String,
    at: u64,
    size: u64,
}

/// Program headers that locate the dynamic section and the code. System V ABI, chapter 5.
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const SYMBOL: u64 = 24;
const STT_FUNC: u8 = 2;
/// A vDSO has a dozen.
const SYMBOLS_MAX: u64 = 256;

/// The functions that an image exports under the kernel's names. None if the bytes are no ELF image.
fn functions(image: &[u8]) -> Vec<Function> {
    found(image).unwrap_or_default()
}

fn found(image: &[u8]) -> Option<Vec<Function>> {
    let bytes = |at: u64, n: usize| image.get(at as usize..)?.get(..n);
    // Sums with such an offset cannot overflow.
    let inside = |at: u64| (at < image.len() as u64).then_some(at);
    let u16_at = |at| Some(u16::from_le_bytes(bytes(at, 2)?.try_into().ok()?));
    let u32_at = |at| Some(u32::from_le_bytes(bytes(at, 4)?.try_into().ok()?));
    let u64_at = |at| Some(u64::from_le_bytes(bytes(at, 8)?.try_into().ok()?));
    if bytes(0, 5)? != b"\x7fELF\x02" {
        return None;
    }
    let (headers, each, count) = (u64_at(32)?, u64::from(u16_at(54)?), u64::from(u16_at(56)?));
    let (mut base, mut dynamic) = (None, None);
    for n in 0..count {
        let h = inside(headers.checked_add(n * each)?)?;
        match u32_at(h)? {
            PT_LOAD => base = base.or(Some(u64_at(h + 16)?.wrapping_sub(u64_at(h + 8)?))),
            PT_DYNAMIC => dynamic = Some((u64_at(h + 8)?, u64_at(h + 32)?)),
            _ => {}
        }
    }
    // Addresses in the image are relative to this.
    let base = base?;
    let (at, len) = dynamic?;
    let (mut strings, mut symbols) = (None, None);
    for n in 0..(len / 16).min(SYMBOLS_MAX) {
        let entry = inside(at.checked_add(n * 16)?)?;
        let value = u64_at(entry + 8)?.wrapping_sub(base);
        match u64_at(entry)? {
            DT_STRTAB => strings = Some(value),
            DT_SYMTAB => symbols = Some(value),
            _ => {}
        }
    }
    let (strings, symbols) = (strings?, symbols?);
    // The linker puts the names after the symbols, which gives their number. Without a hash table there is no other
    // count.
    let count = strings.checked_sub(symbols)? / SYMBOL;
    let mut all = Vec::new();
    for n in 1..count.min(SYMBOLS_MAX) {
        let s = inside(symbols.checked_add(n * SYMBOL)?)?;
        let (name, info) = (strings.checked_add(u32_at(s)?.into())?, bytes(s + 4, 1)?[0]);
        let (section, value, size) = (u16_at(s + 6)?, u64_at(s + 8)?, u64_at(s + 16)?);
        let name = image.get(name as usize..)?;
        let name = name.split(|b| *b == 0).next()?;
        let name = String::from_utf8_lossy(name).into_owned();
        if info & 15 == STT_FUNC && section != 0 && name.starts_with("__vdso_") {
            let at = inside(value.wrapping_sub(base))?;
            all.push(Function { name, at, size });
        }
    }
    Some(all)
}

/// Mappings without the part at `run`: the kernel merges ours with adjacent mappings of the program.
pub fn without(maps: &[Vma], run: Run) -> Vec<Vma> {
    let mut all = Vec::with_capacity(maps.len());
    for v in maps {
        let parts = armento_tracee::pages::minus(&[(v.start, v.end)], &[run]);
        all.extend(parts.into_iter().map(|(start, end)| Vma {
            start,
            end,
            off: v.off + (start - v.start),
            ..v.clone()
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_vdso_exports_the_documented_functions() {
        let (own, image) = own().as_ref().expect("a vDSO");
        assert!(own.is_ours());
        let names: Vec<String> = functions(image).into_iter().map(|f| f.name).collect();
        for name in ["clock_gettime", "gettimeofday", "time", "getcpu"] {
            assert!(names.contains(&format!("__vdso_{name}")), "{names:?}");
        }
    }

    #[test]
    fn redirected_functions_jump_to_the_local_vdso() {
        let (_, image) = own().as_ref().expect("a vDSO");
        let at = ELSEWHERE;
        let new = redirected(image.clone(), at).expect("redirected");
        assert_eq!(new.len(), image.len());
        for f in functions(image) {
            let code = &new[f.at as usize..];
            match jumps(&f.name) {
                true => assert_eq!(code[..14], jump(at + f.at)[..], "{}", f.name),
                false => assert_ne!(code[..2], [0xff, 0x25], "{}", f.name),
            }
        }
    }

    #[test]
    fn malformed_images_are_rejected() {
        let (_, image) = own().as_ref().expect("a vDSO");
        for len in 0..image.len() {
            drop(functions(&image[..len]));
        }
        for at in 0..image.len() {
            let mut bad = image.clone();
            bad[at] ^= 0xff;
            drop(redirected(bad, ELSEWHERE));
        }
        let far = Vdso {
            first: 4096,
            code: 8192,
            end: 1 << 40,
            digest: 0,
        };
        assert!(far.check().is_err());
    }
}
