//! Deputy to body.

use super::{Dest, Plan};
use crate::mem::{Fault, Mem, PAGE};
use crate::{OutRule, Packed, out_len};

/// Writes the outputs of a call to the body and returns the result of the call there.
///
/// `bytes` are the outputs one after the other, each [`out_len`] long. Of bytes that were sent and returned only the
/// changed ones are written. If an output cannot be written the call returns EFAULT, or a smaller count where the
/// kernel counts what it delivered; a truncated reply makes it EIO.
pub fn unpack<M: Mem>(plan: &Plan, ret: i64, bytes: &[u8], mem: &mut M) -> i64 {
    let mut offsets = Vec::with_capacity(plan.packed.outs.len());
    let mut end = 0;
    for out in &plan.packed.outs {
        offsets.push(end);
        end += out_len(out, ret);
    }
    if bytes.len() < end {
        return -i64::from(libc::EIO);
    }
    for (i, (out, dest)) in plan.packed.outs.iter().zip(&plan.dests).enumerate() {
        let len = out_len(out, ret).min(upto(plan, dest, &offsets, ret, bytes));
        let piece = &bytes[offsets[i]..offsets[i] + len];
        if piece.is_empty() {
            continue;
        }
        let old = sent(&plan.packed, out.off as usize, len);
        let done = match old {
            Some(old) if !dest.quiet => write_changed(mem, dest.addr, old, piece),
            _ => mem.write(dest.addr, piece),
        };
        if done == Err(Fault) && !dest.quiet {
            return faulted(mem, out.rule, dest.addr, piece, ret);
        }
    }
    ret
}

/// The number of bytes that another output allows for this one.
fn upto(plan: &Plan, dest: &Dest, offsets: &[usize], ret: i64, bytes: &[u8]) -> usize {
    let Some(upto) = dest.upto else {
        return usize::MAX;
    };
    let by = upto.out as usize;
    let Some(out) = plan.packed.outs.get(by) else {
        return 0;
    };
    // A length that was not returned was not changed: nothing was delivered.
    if out_len(out, ret) < 4 {
        return 0;
    }
    let len = super::packer::word32(bytes, offsets[by]);
    len.saturating_sub(upto.skip) as usize
}

/// The bytes of an output as they were sent, if they were sent.
fn sent(packed: &Packed, off: usize, len: usize) -> Option<&[u8]> {
    packed.data.get(off..off + len)
}

/// Writes the words that differ, runs of them at once. Another thread of the body may have changed the others
/// meanwhile, and read-only memory must not be written.
fn write_changed<M: Mem>(mem: &mut M, addr: u64, old: &[u8], new: &[u8]) -> Result<(), Fault> {
    const WORD: usize = 4;
    let mut at = 0;
    while at < new.len() {
        let end = (at + WORD).min(new.len());
        if old[at..end] == new[at..end] {
            at = end;
            continue;
        }
        let start = at;
        while at < new.len() {
            let end = (at + WORD).min(new.len());
            if old[at..end] == new[at..end] {
                break;
            }
            at = end;
        }
        mem.write(addr + start as u64, &new[start..at])?;
    }
    Ok(())
}

/// The result of the call if `piece` could not be written as a whole.
fn faulted<M: Mem>(mem: &mut M, rule: OutRule, addr: u64, piece: &[u8], ret: i64) -> i64 {
    const EFAULT: i64 = -(libc::EFAULT as i64);
    if ret < 0 {
        return ret;
    }
    let OutRule::RetBytes { skip } = rule else {
        return EFAULT;
    };
    let mut done = 0;
    while done < piece.len() {
        let here = addr + done as u64;
        let end = piece.len().min(done + (PAGE - here % PAGE) as usize);
        if mem.write(here, &piece[done..end]).is_err() {
            break;
        }
        done = end;
    }
    match i64::from(skip) + done as i64 {
        0 => EFAULT,
        short => short,
    }
}
