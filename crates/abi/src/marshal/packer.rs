//! Builds the data of a call: pieces that are sent, and space for outputs after them.

use super::{Dest, Plan, Refuse, Upto};
use crate::mem::{BAD, Fault, HOLE, Kind, Mem, fits, kind};
use crate::{Out, OutRule, Packed};

/// O_DIRECT requires buffers at multiples of a sector.
const SECTOR: u64 = 512;

const TOO_LARGE: Refuse = Refuse::ComeHome("a transfer larger than a slot");

/// The u32 at an offset; 0 beyond the end.
pub(super) fn word32(data: &[u8], at: usize) -> u32 {
    let bytes = data.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |b| u32::from_le_bytes(*b))
}

/// The u64 at an offset; 0 beyond the end.
pub(super) fn word64(data: &[u8], at: usize) -> u64 {
    let bytes = data.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |b| u64::from_le_bytes(*b))
}

/// The place of the pointer to a piece.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ptr {
    Arg(usize),
    Data(usize),
}

pub(super) struct Packer<'a, M> {
    pub mem: &'a mut M,
    pub packed: Packed,
    pub cap: usize,
    /// Arguments already packed with another one, and their output.
    pub done: [Option<Option<usize>>; 6],
    dests: Vec<Dest>,
    /// Outputs that get their space after the data, once its size is known.
    late: Vec<(usize, Ptr)>,
    late_bytes: u64,
}

impl<'a, M: Mem> Packer<'a, M> {
    pub fn new(call: u16, args: &[u64; 6], mem: &'a mut M, cap: usize) -> Self {
        Packer {
            mem,
            packed: Packed {
                nr: call,
                args: *args,
                ..Packed::default()
            },
            // Offsets are u32.
            cap: cap.min(i32::MAX as usize),
            done: [None; 6],
            dests: Vec::new(),
            late: Vec::new(),
            late_bytes: 0,
        }
    }

    /// Whether a pointer may be valid; NULL and the like are left to home's kernel.
    pub fn usable(&self, addr: u64) -> Result<bool, Refuse> {
        match kind(addr) {
            Kind::User => Ok(true),
            Kind::Hopeless => Ok(false),
            Kind::High => Err(Refuse::ComeHome("an address above 47 bits")),
        }
    }

    /// Refuses data that does not fit into a slot.
    pub fn room(&self, more: u64) -> Result<usize, Refuse> {
        let used = self.packed.data.len() as u64 + self.late_bytes;
        if used.saturating_add(more) > self.cap as u64 {
            return Err(TOO_LARGE);
        }
        Ok(more as usize)
    }

    /// Appends a piece of zeros to the data.
    pub fn piece(&mut self, align: u64, len: usize) -> Result<usize, Refuse> {
        let off = self.packed.data.len().next_multiple_of(align as usize);
        self.room((off - self.packed.data.len() + len) as u64)?;
        self.packed.data.resize(off + len, 0);
        Ok(off)
    }

    /// Makes the pointer refer to an offset.
    pub fn point(&mut self, at: Ptr, off: usize) {
        match at {
            Ptr::Arg(i) => self.packed.arg_ptrs |= 1 << i,
            Ptr::Data(at) => self.packed.relocs.push(at as u32),
        }
        self.set(at, off as u64);
    }

    pub fn set(&mut self, at: Ptr, value: u64) {
        match at {
            Ptr::Arg(i) => self.packed.args[i] = value,
            Ptr::Data(at) => self.packed.data[at..at + 8].copy_from_slice(&value.to_le_bytes()),
        }
    }

    /// Appends a copy of the body's bytes. `None`: not readable, and the pointer was replaced by a bad one.
    pub fn read_piece(&mut self, at: Ptr, addr: u64, len: u64) -> Result<Option<usize>, Refuse> {
        let read = self.read_with(at, addr, len, |mem, addr, buf| {
            mem.read(addr, buf).map(|()| buf.len())
        })?;
        Ok(read.map(|(off, _)| off))
    }

    /// Like `read_piece`, but ends where the body's memory ends. Returns offset and length.
    pub fn read_some_piece(
        &mut self,
        at: Ptr,
        addr: u64,
        len: u64,
    ) -> Result<Option<(usize, usize)>, Refuse> {
        self.read_with(at, addr, len, |mem, addr, buf| {
            match mem.read_some(addr, buf).min(buf.len()) {
                0 => Err(Fault),
                got => Ok(got),
            }
        })
    }

    fn read_with(
        &mut self,
        at: Ptr,
        addr: u64,
        len: u64,
        read: impl Fn(&mut M, u64, &mut [u8]) -> Result<usize, Fault>,
    ) -> Result<Option<(usize, usize)>, Refuse> {
        if !fits(addr, len) {
            self.set(at, BAD);
            return Ok(None);
        }
        let len = self.room(len)?;
        let end = self.packed.data.len();
        let off = self.piece(alignment(addr, len as u64), len)?;
        let got = match len {
            0 => Ok(0),
            _ => read(self.mem, addr, &mut self.packed.data[off..]),
        };
        match got {
            Ok(got) => {
                self.packed.data.truncate(off + got);
                self.point(at, off);
                Ok(Some((off, got)))
            }
            Err(Fault) => {
                self.packed.data.truncate(end);
                let instead = match kind(addr) {
                    Kind::User => HOLE,
                    Kind::Hopeless | Kind::High => BAD,
                };
                self.set(at, instead);
                Ok(None)
            }
        }
    }

    /// An output inside the data, so that it holds the body's bytes until written.
    pub fn out_in_data(
        &mut self,
        off: usize,
        len: usize,
        rule: OutRule,
        addr: u64,
    ) -> Result<usize, Refuse> {
        self.push_out(off as u32, len as u32, rule, addr)
    }

    /// An output with space of its own. `None`: the address is not valid.
    pub fn out_late(
        &mut self,
        at: Ptr,
        addr: u64,
        len: u64,
        rule: OutRule,
    ) -> Result<Option<usize>, Refuse> {
        if !fits(addr, len) {
            self.set(at, BAD);
            return Ok(None);
        }
        // The preceding data may end anywhere: count the gap that alignment may leave. More data may still come before
        // the first output: `finish` checks again.
        let gap = if self.packed.data.is_empty() && self.late.is_empty() {
            0
        } else {
            alignment(addr, len) - 1
        };
        self.room(len + gap)?;
        self.late_bytes += len + gap;
        let out = self.push_out(0, len as u32, rule, addr)?;
        self.late.push((out, at));
        Ok(Some(out))
    }

    fn push_out(&mut self, off: u32, len: u32, rule: OutRule, addr: u64) -> Result<usize, Refuse> {
        if self.packed.outs.len() == Packed::MAX_OUTS {
            return Err(Refuse::ComeHome("too many buffers in one call"));
        }
        self.packed.outs.push(Out { off, len, rule });
        self.dests.push(Dest {
            addr,
            quiet: false,
            upto: None,
        });
        Ok(self.packed.outs.len() - 1)
    }

    /// Bytes of `out` beyond the length in output `by` are not valid.
    pub fn limit(&mut self, out: usize, by: usize, skip: u32) {
        let out_of = by as u32;
        self.dests[out].upto = Some(Upto { out: out_of, skip });
    }

    /// A fault when this output is written is not an error.
    pub fn quiet(&mut self, out: usize) {
        self.dests[out].quiet = true;
    }

    /// Assigns space to the late outputs, if there is enough.
    pub fn finish(mut self) -> Result<Plan, Refuse> {
        let mut end = self.packed.data.len();
        for (out, at) in std::mem::take(&mut self.late) {
            let len = self.packed.outs[out].len as usize;
            let align = alignment(self.dests[out].addr, len as u64) as usize;
            let off = end.next_multiple_of(align);
            self.packed.outs[out].off = off as u32;
            self.point(at, off);
            end = off + len;
        }
        if end > self.cap {
            return Err(TOO_LARGE);
        }
        Ok(Plan {
            packed: self.packed,
            dests: self.dests,
        })
    }
}

/// Alignment of pieces: 16 for structs, a sector for O_DIRECT.
fn alignment(addr: u64, len: u64) -> u64 {
    if len >= SECTOR && addr.is_multiple_of(SECTOR) && len.is_multiple_of(SECTOR) {
        SECTOR
    } else {
        16
    }
}
