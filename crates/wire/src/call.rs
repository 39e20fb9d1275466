//! The hand-written encoding of a forwarded call and its reply.
//!
//! ```text
//! Call   tid i32 · seq u32 · flags u8 · ptrs u8 · nr u16 · mask u64 · args 6×u64
//!        · relocs u16 · outs u16 · data u32 · relocs×u32 · outs×4×u32 · data
//! Reply  tid i32 · seq u32 · ret i64 · bytes of the outs, in order
//! ```
//! A reply that means "issue it again" has no outs. The reply to a call that was interrupted after a part of its bytes
//! was written or received is a [`PART`], with that number as its result: the call must be issued again for the rest.

use crate::WireError;
use armento_abi::{Out, Packed};
use armento_model::HomeTid;

pub const CALL: u8 = 1;
pub const REPLY: u8 = 2;
pub const PART: u8 = 5;

/// The kernel restarts this call after an interruption without a handler: its deadline remains.
pub const AGAIN: u8 = 1;
/// The body was answered already, with the number of bytes that the call writes, or 0: no reply is sent. Home makes it
/// before anything that follows on the stream.
pub const POSTED: u8 = 2;
/// Home sends what it knows of the call's descriptor before the reply (`ToHost::Descriptor`).
pub const FACTS: u8 = 4;

/// If the call's path leads nowhere, or to no symbolic link, home sends the directories on it (`ToHost::Directory`).
pub const NAMES: u8 = 8;

pub struct Call {
    pub tid: HomeTid,
    pub seq: u32,
    pub flags: u8,
    /// Signals that the thread blocks (or the call's own mask, for ppoll and the like).
    pub mask: u64,
    pub packed: Packed,
}

pub struct Reply<'a> {
    pub tid: HomeTid,
    pub seq: u32,
    pub ret: i64,
    pub outs: &'a [u8],
}

/// The encoding of a call without its data, to be written before the data.
pub fn call_head(c: &Call) -> Vec<u8> {
    let p = &c.packed;
    let mut b = Vec::with_capacity(80 + p.relocs.len() * 4 + p.outs.len() * 13);
    b.extend_from_slice(&c.tid.to_le_bytes());
    b.extend_from_slice(&c.seq.to_le_bytes());
    b.push(c.flags);
    b.push(p.arg_ptrs);
    b.extend_from_slice(&p.nr.to_le_bytes());
    b.extend_from_slice(&c.mask.to_le_bytes());
    p.args
        .iter()
        .for_each(|a| b.extend_from_slice(&a.to_le_bytes()));
    b.extend_from_slice(&(p.relocs.len() as u16).to_le_bytes());
    b.extend_from_slice(&(p.outs.len() as u16).to_le_bytes());
    b.extend_from_slice(&(p.data.len() as u32).to_le_bytes());
    p.relocs
        .iter()
        .for_each(|r| b.extend_from_slice(&r.to_le_bytes()));
    for o in &p.outs {
        o.to_words()
            .iter()
            .for_each(|w| b.extend_from_slice(&w.to_le_bytes()));
    }
    b
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn out(&mut self) -> Result<Out, WireError> {
        let words = [self.u32()?, self.u32()?, self.u32()?, self.u32()?];
        Out::from_words(words).ok_or(WireError::Garbled("call"))
    }
    fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (a, b) = self
            .0
            .split_at_checked(n)
            .ok_or(WireError::Garbled("call"))?;
        self.0 = b;
        Ok(a)
    }
    fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.take(1)?[0])
    }
    fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(
            self.take(2)?.try_into().unwrap_or_default(),
        ))
    }
    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(
            self.take(4)?.try_into().unwrap_or_default(),
        ))
    }
    fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(
            self.take(8)?.try_into().unwrap_or_default(),
        ))
    }
}

/// Decodes a call and checks that it may be executed at home and stays inside an area of `cap` bytes.
pub fn decode_call(body: &[u8], cap: usize) -> Result<Call, WireError> {
    const BAD: WireError = WireError::Garbled("call");
    let mut c = Cursor(body);
    let tid = HomeTid::of_home(c.u32()? as i32);
    let seq = c.u32()?;
    let flags = c.u8()?;
    let arg_ptrs = c.u8()?;
    let nr = c.u16()?;
    let mask = c.u64()?;
    let mut args = [0u64; 6];
    for a in &mut args {
        *a = c.u64()?;
    }
    let (relocs, outs, data) = (c.u16()?, c.u16()?, c.u32()?);
    let relocs: Vec<u32> = (0..relocs).map(|_| c.u32()).collect::<Result<_, _>>()?;
    let outs: Vec<Out> = (0..outs).map(|_| c.out()).collect::<Result<_, _>>()?;
    let data = c.take(data as usize)?.to_vec();
    let packed = Packed {
        nr,
        args,
        data,
        relocs,
        arg_ptrs,
        outs,
    };
    if !c.0.is_empty() {
        return Err(BAD);
    }
    packed.check(cap).map_err(WireError::Refused)?;
    Ok(Call {
        tid,
        seq,
        flags,
        mask,
        packed,
    })
}

pub fn reply_head(tid: HomeTid, seq: u32, ret: i64) -> [u8; 16] {
    let mut b = [0; 16];
    b[..4].copy_from_slice(&tid.to_le_bytes());
    b[4..8].copy_from_slice(&seq.to_le_bytes());
    b[8..].copy_from_slice(&ret.to_le_bytes());
    b
}

pub fn decode_reply(body: &[u8]) -> Result<Reply<'_>, WireError> {
    let mut c = Cursor(body);
    Ok(Reply {
        tid: HomeTid::of_home(c.u32()? as i32),
        seq: c.u32()?,
        ret: c.u64()? as i64,
        outs: c.0,
    })
}
