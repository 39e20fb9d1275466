//! A call of a body packed for its deputy, sent over the wire, and its answer written back into the body's memory.

use armento_abi::{Fault, Mem, NR_LIMIT, Packed, Plan, out_len, sends, unpack};
use armento_model::HomeTid;
use armento_wire::call::{Call, call_head, decode_call};

/// Start of the body's memory; addresses in an input count from here when their top bit is set.
const BASE: u64 = 0x10_0000;
/// Size of a slot's area.
const CAP: usize = 64 << 10;
/// Number, result at home, six arguments.
const HEAD: usize = 2 + 8 + 6 * 8;

struct Memory(Vec<u8>);

impl Memory {
    fn at(&self, addr: u64) -> Option<usize> {
        let off = usize::try_from(addr.checked_sub(BASE)?).ok()?;
        (off < self.0.len()).then_some(off)
    }
}

impl Mem for Memory {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        match self.read_some(addr, buf) == buf.len() {
            true => Ok(()),
            false => Err(Fault),
        }
    }

    fn read_some(&mut self, addr: u64, buf: &mut [u8]) -> usize {
        let from = self.at(addr).map_or(&[][..], |at| &self.0[at..]);
        let n = from.len().min(buf.len());
        buf[..n].copy_from_slice(&from[..n]);
        n
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault> {
        let at = self.at(addr).ok_or(Fault)?;
        let to = self.0.get_mut(at..at + data.len()).ok_or(Fault)?;
        to.copy_from_slice(data);
        Ok(())
    }
}

fn word(b: &[u8]) -> u64 {
    b.try_into().map_or(0, u64::from_le_bytes)
}

/// A word of an input as an argument: a number, or an address in the body's memory.
fn argument(raw: &[u8]) -> u64 {
    const ADDRESS: u64 = 1 << 62;
    let w = word(raw);
    if w >> 62 == 1 {
        BASE + (w & !ADDRESS)
    } else {
        w
    }
}

pub fn pack(data: &[u8]) {
    let Some((head, memory)) = data.split_at_checked(HEAD) else {
        return;
    };
    let nr = u64::from(u16::from_le_bytes([head[0], head[1]]));
    let nr = nr % (NR_LIMIT as u64 + 2);
    let ret = word(&head[2..10]) as i64;
    let mut args = [0; 6];
    for (a, raw) in args.iter_mut().zip(head[10..].chunks_exact(8)) {
        *a = argument(raw);
    }
    let mut mem = Memory(memory.to_vec());
    // Its memory may be the kernel's limit (1024 segments) before an invalid address.
    let _ = sends::payload(nr, &args, &mut mem);
    let _ = sends::rest(nr, &args, &mut mem, ret as u64);
    let Ok(plan) = armento_abi::pack(nr, &args, &mut mem, CAP) else {
        return;
    };
    assert_eq!(plan.dests.len(), plan.packed.outs.len());
    assert!(plan.packed.span() <= CAP, "{nr} leaves its area");
    travel(&plan.packed);
    answered(&plan, ret, &mut mem);
}

/// Home must accept every call that a host packs, whatever the program's arguments.
fn travel(packed: &Packed) {
    let call = Call {
        tid: HomeTid::of_home(1),
        seq: 2,
        flags: 0,
        mask: 3,
        packed: packed.clone(),
    };
    let mut bytes = call_head(&call);
    bytes.extend_from_slice(&packed.data);
    match decode_call(&bytes, CAP) {
        Ok(there) => assert_eq!(there.packed, *packed),
        // A row that is not executed at home is never packed.
        Err(_) => assert!(packed.check(CAP).is_err()),
    }
}

/// A reply of any length and content: written into the body's memory or refused.
fn answered(plan: &Plan, ret: i64, mem: &mut Memory) {
    let room: usize = plan.packed.outs.iter().map(|o| out_len(o, ret)).sum();
    if room > 4 * CAP {
        return;
    }
    let bytes: Vec<u8> = mem.0.iter().copied().cycle().take(room).collect();
    unpack(plan, ret, &bytes, mem);
    let cut = &bytes[..bytes.len() / 2];
    unpack(plan, ret, cut, mem);
}
