//! argv and envp.

use super::Refuse;
use super::packer::{Packer, Ptr};
use crate::mem::{BAD, Kind, Mem, Strings, kind};

/// KERNEL: execve(2): argv and envp together are limited to three quarters of _STK_LIM.
const ARGS_MAX: usize = 6 << 20;
/// KERNEL: MAX_ARG_STRLEN, the NUL included.
const STRING_MAX: usize = 128 << 10;
const E2BIG: Refuse = Refuse::Errno(libc::E2BIG);

/// Packs an array of strings: the array first, then the strings without gaps.
pub(super) fn strings<M: Mem>(
    packer: &mut Packer<'_, M>,
    at: Ptr,
    addr: u64,
) -> Result<(), Refuse> {
    let mut reader = Strings::new(packer.mem);
    let mut pointers = Vec::new();
    loop {
        let word = addr.checked_add(pointers.len() as u64 * 8);
        match word.map(|addr| reader.word(addr)) {
            Some(Ok(0)) => break,
            Some(Ok(pointer)) => pointers.push(pointer),
            // Home's kernel returns EFAULT, after it looked up the program.
            Some(Err(_)) | None => {
                packer.set(at, BAD);
                return Ok(());
            }
        }
        if pointers.len() * 8 > ARGS_MAX {
            return Err(E2BIG);
        }
    }
    let mut text = Vec::new();
    let mut starts = Vec::with_capacity(pointers.len());
    for &pointer in &pointers {
        if text.len() + pointers.len() * 8 > ARGS_MAX {
            return Err(E2BIG);
        }
        let start = text.len();
        match kind(pointer) {
            Kind::High => return Err(Refuse::ComeHome("an address above 47 bits")),
            Kind::Hopeless => starts.push(None),
            Kind::User => match reader.append(pointer, STRING_MAX, &mut text) {
                Ok(Some(_)) => {
                    text.push(0);
                    starts.push(Some(start));
                }
                Ok(None) => return Err(E2BIG),
                Err(_) => {
                    text.truncate(start);
                    starts.push(None);
                }
            },
        }
    }
    let array = packer.piece(16, (pointers.len() + 1) * 8)?;
    let blob = packer.piece(16, text.len())?;
    packer.packed.data[blob..].copy_from_slice(&text);
    packer.point(at, array);
    for (k, start) in starts.into_iter().enumerate() {
        let entry = Ptr::Data(array + k * 8);
        match start {
            Some(start) => packer.point(entry, blob + start),
            None => packer.set(entry, BAD),
        }
    }
    Ok(())
}
