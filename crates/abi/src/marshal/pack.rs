//! Body to deputy.

use super::{Dest, Plan, Refuse, Upto, exec};
use crate::mem::{BAD, Fault, Kind, Mem, Strings, fits, kind};
use crate::x86_64::{nr, row, sub};
use crate::{Arg, Len, Out, OutRule, Packed, Verdict, place_of};

/// KERNEL: PATH_MAX, the NUL included.
const PATH_MAX: usize = 4096;
/// Largest buffer of [`Arg::InOutBy`] that is packed.
const OPTION_MAX: usize = 64 << 10;
/// Below this the kernel may use every set it was given; above, it looks only at as many
/// descriptors as are open, and programs pass more than their sets hold.
const FD_SETSIZE: u64 = 1024;
/// O_DIRECT wants buffers on multiples of a sector.
const SECTOR: u64 = 512;

/// Packs a call whose data must not take more than `cap` bytes of a slot.
pub fn pack<M: Mem>(call: u64, args: &[u64; 6], mem: &mut M, cap: usize) -> Result<Plan, Refuse> {
    if let Verdict::ComeHome(why) = place_of(call, args) {
        return Err(Refuse::ComeHome(why));
    }
    let row = row(call).ok_or(Refuse::ComeHome("unknown system call"))?;
    let mut packer = Packer::new(row.nr, args, mem, cap);
    for (i, shape) in row.args.iter().enumerate() {
        let shape = match shape {
            Arg::Sub => sub::shape(call, args).map_err(Refuse::ComeHome)?,
            shape => *shape,
        };
        packer.arg(i, shape)?;
    }
    let plan = packer.finish()?;
    match nested(call, &plan.packed) {
        Some(why) => Err(Refuse::ComeHome(why)),
        None => Ok(plan),
    }
}

/// What only the packed data tells: mq_notify with SIGEV_THREAD reads a cookie elsewhere.
fn nested(call: u64, packed: &Packed) -> Option<&'static str> {
    const SIGEV_NOTIFY: usize = 12;
    const SIGEV_THREAD: u32 = 2;
    if call != nr::MQ_NOTIFY || packed.arg_ptrs & 0b10 == 0 {
        return None;
    }
    let at = packed.args[1] as usize + SIGEV_NOTIFY;
    (word32(&packed.data, at) == SIGEV_THREAD).then_some("notification by a thread")
}

/// The u32 at an offset; 0 beyond the end.
pub(super) fn word32(data: &[u8], at: usize) -> u32 {
    let bytes = data.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |b| u32::from_le_bytes(*b))
}

pub(super) fn word64(data: &[u8], at: usize) -> u64 {
    let bytes = data.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |b| u64::from_le_bytes(*b))
}

/// Where the pointer to a piece stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ptr {
    Arg(usize),
    Data(usize),
}

pub(super) struct Packer<'a, M> {
    pub mem: &'a mut M,
    pub packed: Packed,
    dests: Vec<Dest>,
    cap: usize,
    /// Outputs that get their room behind the data, once its size is known.
    late: Vec<(usize, Ptr)>,
    late_bytes: usize,
    /// Arguments already packed with another one, and their output.
    done: [Option<Option<usize>>; 6],
}

impl<'a, M: Mem> Packer<'a, M> {
    fn new(call: u16, args: &[u64; 6], mem: &'a mut M, cap: usize) -> Self {
        Packer {
            mem,
            packed: Packed {
                nr: call,
                args: *args,
                ..Packed::default()
            },
            dests: Vec::new(),
            cap,
            late: Vec::new(),
            late_bytes: 0,
            done: [None; 6],
        }
    }

    fn arg(&mut self, i: usize, shape: Arg) -> Result<(), Refuse> {
        if shape == Arg::Mask {
            self.packed.args[i] = 0;
        }
        if matches!(shape, Arg::Val | Arg::Fd | Arg::Mask | Arg::Sub) {
            return Ok(());
        }
        let addr = self.packed.args[i];
        if !self.usable(addr)? {
            return Ok(());
        }
        let at = Ptr::Arg(i);
        match shape {
            Arg::Val | Arg::Fd | Arg::Mask | Arg::Sub => Ok(()),
            Arg::Path => self.path(at, addr),
            Arg::In(len) => self.input(at, addr, len),
            Arg::InSome(by) => self.input_some(i, addr, by.into()),
            Arg::Out(len) => self.output(at, addr, len),
            Arg::InOut(len) => self.in_out(at, addr, len),
            Arg::Strs => exec::strings(self, at, addr),
            Arg::IovIn => self.iov_in(i, addr),
            Arg::IovOut => self.iov_out(i, addr),
            Arg::MsgIn => self.msg_in(at, addr),
            Arg::MsgOut => self.msg_out(at, addr),
            Arg::MmsgIn => self.mmsg(i, addr, true),
            Arg::MmsgOut => self.mmsg(i, addr, false),
            Arg::Addr(by) => self.addr(at, addr, by.into()),
            Arg::AddrLen => self.addr_len(i).map(|_| ()),
            Arg::InOutBy(by) => self.in_out_by(at, addr, by.into()),
            Arg::Fds => self.fd_set(at, addr),
            Arg::Timeout => {
                let Some(off) = self.read_piece(at, addr, 16)? else {
                    return Ok(());
                };
                let out = self.out_in_data(off, 16, OutRule::Always, addr)?;
                self.dests[out].quiet = true;
                Ok(())
            }
        }
    }

    /// Whether a pointer may lead somewhere; NULL and the like are left to home's kernel.
    pub fn usable(&self, addr: u64) -> Result<bool, Refuse> {
        match kind(addr) {
            Kind::User => Ok(true),
            Kind::Hopeless => Ok(false),
            Kind::High => Err(Refuse::ComeHome("an address above 47 bits")),
        }
    }

    /// Refuses what would not fit into a slot.
    pub fn room(&self, more: u64) -> Result<usize, Refuse> {
        let used = (self.packed.data.len() + self.late_bytes) as u64;
        if used.saturating_add(more) > self.cap as u64 {
            return Err(Refuse::ComeHome("a transfer larger than a slot"));
        }
        Ok(more as usize)
    }

    /// Starts a piece of zeros in the data.
    pub fn piece(&mut self, align: u64, len: usize) -> Result<usize, Refuse> {
        let off = self.packed.data.len().next_multiple_of(align as usize);
        self.room((off - self.packed.data.len() + len) as u64)?;
        self.packed.data.resize(off + len, 0);
        Ok(off)
    }

    /// Makes the pointer lead to an offset.
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

    /// A piece with a copy of the body's bytes. `None`: not readable, the pointer is bad now.
    pub fn read_piece(&mut self, at: Ptr, addr: u64, len: u64) -> Result<Option<usize>, Refuse> {
        if !fits(addr, len) {
            self.set(at, BAD);
            return Ok(None);
        }
        let len = self.room(len)?;
        let end = self.packed.data.len();
        let off = self.piece(alignment(addr, len as u64), len)?;
        if len > 0 && self.mem.read(addr, &mut self.packed.data[off..]) == Err(Fault) {
            self.packed.data.truncate(end);
            self.set(at, BAD);
            return Ok(None);
        }
        self.point(at, off);
        Ok(Some(off))
    }

    /// Like `read_piece`, but ends where the body's memory ends. Returns offset and length.
    pub fn read_some_piece(
        &mut self,
        at: Ptr,
        addr: u64,
        len: u64,
    ) -> Result<Option<(usize, usize)>, Refuse> {
        if !fits(addr, len) {
            self.set(at, BAD);
            return Ok(None);
        }
        let len = self.room(len)?;
        let end = self.packed.data.len();
        let off = self.piece(alignment(addr, len as u64), len)?;
        let got = match len {
            0 => 0,
            _ => self
                .mem
                .read_some(addr, &mut self.packed.data[off..])
                .min(len),
        };
        if got == 0 && len > 0 {
            self.packed.data.truncate(end);
            self.set(at, BAD);
            return Ok(None);
        }
        self.packed.data.truncate(off + got);
        self.point(at, off);
        Ok(Some((off, got)))
    }

    /// An output that lies within the data, so that it holds the body's bytes until written.
    pub fn out_in_data(
        &mut self,
        off: usize,
        len: usize,
        rule: OutRule,
        addr: u64,
    ) -> Result<usize, Refuse> {
        self.push_out(off as u32, len as u32, rule, addr)
    }

    /// An output with room of its own. `None`: the address can not be written.
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
        let len = self.room(len)?;
        let out = self.push_out(0, len as u32, rule, addr)?;
        self.late.push((out, at));
        self.late_bytes += len;
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

    pub fn limit(&mut self, out: usize, by: usize, skip: u32) {
        self.dests[out].upto = Some(Upto {
            out: by as u32,
            skip,
        });
    }

    fn path(&mut self, at: Ptr, addr: u64) -> Result<(), Refuse> {
        // Paths are short: look at the rest of the page, at most, then at the next one.
        let first = (4096 - addr % 4096).min(256) as usize;
        let mut text = vec![0; first];
        let got = self.mem.read_some(addr, &mut text);
        text.truncate(got);
        let end = text.iter().position(|&b| b == 0);
        let known = match end {
            Some(end) => {
                text.truncate(end);
                Ok(Some(end))
            }
            None if got < first => Err(Fault),
            None => {
                let rest = PATH_MAX - got;
                Strings::new(self.mem).append(addr + got as u64, rest, &mut text)
            }
        };
        if known.is_err() {
            self.set(at, BAD);
            return Ok(());
        }
        // Too long stays too long: the kernel looks at PATH_MAX bytes and finds no NUL.
        text.push(0);
        let off = self.piece(8, text.len())?;
        self.packed.data[off..].copy_from_slice(&text);
        self.point(at, off);
        Ok(())
    }

    fn input(&mut self, at: Ptr, addr: u64, len: Len) -> Result<(), Refuse> {
        let len = self.len(len, addr).0;
        self.read_piece(at, addr, len).map(|_| ())
    }

    fn input_some(&mut self, i: usize, addr: u64, by: usize) -> Result<(), Refuse> {
        let len = self.packed.args[by];
        if let Some((_, got)) = self.read_some_piece(Ptr::Arg(i), addr, len)? {
            self.packed.args[by] = got as u64;
        }
        Ok(())
    }

    fn output(&mut self, at: Ptr, addr: u64, len: Len) -> Result<(), Refuse> {
        if let Len::RetTimes(by, each) = len
            && self.packed.nr != nr::GETGROUPS as u16
        {
            // epoll: fewer events at once is what may happen anyway.
            let most = (self.cap as u64 / 2) / u64::from(each);
            let by = &mut self.packed.args[by as usize];
            let wanted = *by as u32 as i32;
            if wanted > 0 && wanted as u64 > most {
                *by = most;
            }
        }
        let (len, rule) = self.len(len, addr);
        self.out_late(at, addr, len, rule).map(|_| ())
    }

    fn in_out(&mut self, at: Ptr, addr: u64, len: Len) -> Result<(), Refuse> {
        let len = self.len(len, addr).0;
        if let Some(off) = self.read_piece(at, addr, len)? {
            // What the kernel did not touch is not written back, so any rule would do.
            self.out_in_data(off, len as usize, OutRule::Always, addr)?;
        }
        Ok(())
    }

    /// Bytes of a pointer argument, and which of them are valid after the call.
    fn len(&mut self, len: Len, addr: u64) -> (u64, OutRule) {
        let args = &self.packed.args;
        let int = |i: u8| u64::try_from(args[i as usize] as u32 as i32).unwrap_or(0);
        let bytes = |i: u8| args[i as usize];
        match len {
            Len::Const(n) => (n.into(), OutRule::OnSuccess),
            Len::Hit(n) => (n.into(), OutRule::AtLeast(1)),
            Len::Intr(n) => (n.into(), OutRule::OnEintr),
            Len::Arg(i) => (bytes(i), OutRule::OnSuccess),
            Len::Int(i, max) => (int(i).min(max.into()), OutRule::OnSuccess),
            Len::ArgTimes(i, each) => {
                let n = u64::from(args[i as usize] as u32);
                (n * u64::from(each), OutRule::OnSuccess)
            }
            Len::ArgPlus(i, head) => (bytes(i).saturating_add(head.into()), OutRule::OnSuccess),
            Len::Ret(i) => (bytes(i), OutRule::RetBytes { skip: 0 }),
            Len::RetPlus(i, head) => (bytes(i).saturating_add(head.into()), OutRule::RetPlus(head)),
            Len::RetTimes(i, each) => (int(i) * u64::from(each), OutRule::RetTimes(each)),
            Len::Head(zero) => {
                let mut word = [0; 4];
                let size = match self.mem.read(addr, &mut word) {
                    Ok(()) => u32::from_le_bytes(word),
                    Err(Fault) => 0,
                };
                // KERNEL: copy_struct_from_user callers refuse sizes above a page.
                let size = if size == 0 { zero } else { size.min(4096) };
                (size.into(), OutRule::OnSuccess)
            }
        }
    }

    /// The socklen_t of argument `i`, once. Returns its output and value.
    fn addr_len(&mut self, i: usize) -> Result<Option<(usize, i32)>, Refuse> {
        if self.done[i].is_none() {
            let addr = self.packed.args[i];
            let mut out = None;
            if self.usable(addr)?
                && let Some(off) = self.read_piece(Ptr::Arg(i), addr, 4)?
            {
                out = Some(self.out_in_data(off, 4, OutRule::Always, addr)?);
            }
            self.done[i] = Some(out);
        }
        Ok(self.done[i].flatten().map(|out| {
            let off = self.packed.outs[out].off as usize;
            (out, word32(&self.packed.data, off) as i32)
        }))
    }

    fn addr(&mut self, at: Ptr, addr: u64, by: usize) -> Result<(), Refuse> {
        // KERNEL: sizeof(struct sockaddr_storage); never is more written.
        const NAME: u64 = 128;
        let Some((by, len)) = self.addr_len(by)? else {
            self.set(at, BAD);
            return Ok(());
        };
        let len = u64::try_from(len).unwrap_or(0).min(NAME);
        if let Some(out) = self.out_late(at, addr, len, OutRule::OnSuccess)? {
            self.limit(out, by, 0);
        }
        Ok(())
    }

    fn in_out_by(&mut self, at: Ptr, addr: u64, by: usize) -> Result<(), Refuse> {
        let Some((_, len)) = self.addr_len(by)? else {
            self.set(at, BAD);
            return Ok(());
        };
        let len = usize::try_from(len).unwrap_or(0);
        if len > OPTION_MAX {
            return Err(Refuse::ComeHome("a large socket option"));
        }
        self.preload(at, addr, len)
    }

    fn fd_set(&mut self, at: Ptr, addr: u64) -> Result<(), Refuse> {
        let count = u64::try_from(self.packed.args[0] as u32 as i32).unwrap_or(0);
        let len = count.div_ceil(64) * 8;
        if count > FD_SETSIZE {
            return self.preload(at, addr, self.room(len)?);
        }
        if let Some(off) = self.read_piece(at, addr, len)? {
            self.out_in_data(off, len as usize, OutRule::Always, addr)?;
        }
        Ok(())
    }

    /// A buffer in and out whose stated length may exceed what the body has there.
    fn preload(&mut self, at: Ptr, addr: u64, len: usize) -> Result<(), Refuse> {
        if let Some((off, _)) = self.read_some_piece(at, addr, len as u64)? {
            self.packed.data.resize(off + len, 0);
            self.out_in_data(off, len, OutRule::Always, addr)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Plan, Refuse> {
        let mut end = self.packed.data.len();
        for (out, at) in std::mem::take(&mut self.late) {
            let len = self.packed.outs[out].len as usize;
            let align = alignment(self.dests[out].addr, len as u64) as usize;
            let off = end.next_multiple_of(align);
            self.packed.outs[out].off = off as u32;
            self.point(at, off);
            end = off + len;
        }
        Ok(Plan {
            packed: self.packed,
            dests: self.dests,
        })
    }
}

/// Pieces keep the alignment that matters: 16 for structs, a sector for O_DIRECT.
fn alignment(addr: u64, len: u64) -> u64 {
    if len >= SECTOR && addr.is_multiple_of(SECTOR) && len.is_multiple_of(SECTOR) {
        SECTOR
    } else {
        16
    }
}
