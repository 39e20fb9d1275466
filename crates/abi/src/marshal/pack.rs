//! Body to deputy: one argument after the other, according to its kind.

use super::packer::{Packer, Ptr, word32};
use super::{Plan, Refuse, exec};
use crate::mem::{BAD, Fault, Mem, Strings};
use crate::x86_64::{nr, row, sub};
use crate::{Arg, Len, OutRule, Packed, Verdict, place_of};

/// KERNEL: PATH_MAX, the NUL included.
const PATH_MAX: usize = 4096;
/// KERNEL: sizeof(struct sockaddr_storage); no more than this is written of an address.
const NAME_MAX: u64 = 128;
/// Largest buffer of [`Arg::InOutBy`] that is packed.
const OPTION_MAX: usize = 64 << 10;
/// Below this the kernel may use every set that it receives in full; above, it reads only as many bits as descriptors
/// are open, and programs pass a larger number than their sets hold.
const FD_SETSIZE: u64 = 1024;
/// No kernel allows more open descriptors in a process (fs.nr_open is 2^20 by default).
const FDS_MAX: u64 = 1 << 23;

/// Packs a call with data of at most `cap` bytes, the space in a slot.
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

/// Checks that need the packed data: mq_notify with SIGEV_THREAD has a pointer to a cookie.
fn nested(call: u64, packed: &Packed) -> Option<&'static str> {
    /// Offset of sigev_notify in struct sigevent.
    const SIGEV_NOTIFY: usize = 12;
    const SIGEV_THREAD: u32 = libc::SIGEV_THREAD as u32;
    if call != nr::MQ_NOTIFY || packed.arg_ptrs & 0b10 == 0 {
        return None;
    }
    let at = packed.args[1] as usize + SIGEV_NOTIFY;
    (word32(&packed.data, at) == SIGEV_THREAD).then_some("notification by a thread")
}

/// An int as a count: the kernel refuses negative ones before it reads anything.
fn count(int: u64) -> u64 {
    u64::try_from(int as u32 as i32).unwrap_or(0)
}

impl<M: Mem> Packer<'_, M> {
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
            Arg::In(len) => {
                let (len, _) = self.len(len, addr);
                self.read_piece(at, addr, len).map(|_| ())
            }
            Arg::InSome(by) => self.input_some(at, addr, by.into()),
            Arg::Out(len) => self.output(at, addr, len),
            Arg::InOut(len) => {
                let (len, _) = self.len(len, addr);
                self.in_out(at, addr, len).map(|_| ())
            }
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
                if let Some(out) = self.in_out(at, addr, 16)? {
                    self.quiet(out);
                }
                Ok(())
            }
        }
    }

    fn path(&mut self, at: Ptr, addr: u64) -> Result<(), Refuse> {
        // Paths are short: read the rest of the page, at most, then the next ones.
        let first = (4096 - addr % 4096).min(256) as usize;
        let mut text = vec![0; first];
        let got = self.mem.read_some(addr, &mut text).min(first);
        text.truncate(got);
        let known = match text.iter().position(|&b| b == 0) {
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
        // A path that is too long remains so: the kernel reads PATH_MAX bytes and finds no NUL.
        text.push(0);
        let off = self.piece(16, text.len())?;
        self.packed.data[off..].copy_from_slice(&text);
        self.point(at, off);
        Ok(())
    }

    fn input_some(&mut self, at: Ptr, addr: u64, by: usize) -> Result<(), Refuse> {
        let len = self.packed.args[by];
        if let Some((_, got)) = self.read_some_piece(at, addr, len)? {
            self.packed.args[by] = got as u64;
        }
        Ok(())
    }

    fn output(&mut self, at: Ptr, addr: u64, len: Len) -> Result<(), Refuse> {
        if let Len::RetTimes(by, each) = len
            && self.packed.nr != nr::GETGROUPS as u16
        {
            // epoll: fewer events at once may be returned anyway.
            let most = (self.cap as u64 / 2) / u64::from(each);
            let by = &mut self.packed.args[by as usize];
            if count(*by) > most {
                *by = most;
            }
        }
        let (len, rule) = self.len(len, addr);
        self.out_late(at, addr, len, rule).map(|_| ())
    }

    fn in_out(&mut self, at: Ptr, addr: u64, len: u64) -> Result<Option<usize>, Refuse> {
        let Some(off) = self.read_piece(at, addr, len)? else {
            return Ok(None);
        };
        // Bytes that the kernel did not change are not written back, so this rule is always correct.
        let out = self.out_in_data(off, len as usize, OutRule::Always, addr)?;
        Ok(Some(out))
    }

    /// The size of a pointer argument, and the rule for its valid bytes after the call.
    fn len(&mut self, len: Len, addr: u64) -> (u64, OutRule) {
        let arg = |i: u8| self.packed.args[i as usize];
        let uint = |i: u8| u64::from(arg(i) as u32);
        let all = OutRule::OnSuccess;
        let returned = OutRule::RetBytes { skip: 0 };
        match len {
            Len::Const(n) => (n.into(), all),
            Len::Hit(n) => (n.into(), OutRule::AtLeast(1)),
            Len::Intr(n) => (n.into(), OutRule::OnEintr),
            Len::Arg(i) => (arg(i), all),
            Len::Int(i, max) => (count(arg(i)).min(max.into()), all),
            Len::Uint(i, max) => (uint(i).min(max.into()), all),
            Len::ArgTimes(i, each) => (uint(i) * u64::from(each), all),
            // KERNEL: ipc/msg.c reads the type first, then refuses a size above INT_MAX.
            Len::ArgPlus(i, head) => {
                let text = if arg(i) > i32::MAX as u64 { 0 } else { arg(i) };
                (text + u64::from(head), all)
            }
            Len::Ret(i) => (arg(i), returned),
            Len::RetInt(i) => (count(arg(i)), returned),
            Len::RetPlus(i, head) => {
                let len = arg(i).saturating_add(head.into());
                (len, OutRule::RetPlus(head))
            }
            Len::RetTimes(i, each) => (count(arg(i)) * u64::from(each), OutRule::RetTimes(each)),
            Len::Head(zero) => (self.head(addr, zero), all),
        }
    }

    /// The size in a struct's first field. KERNEL: above a page it is refused unread.
    fn head(&mut self, addr: u64, zero: u32) -> u64 {
        let mut word = [0; 4];
        match self
            .mem
            .read(addr, &mut word)
            .map(|()| u32::from_le_bytes(word))
        {
            Ok(0) | Err(Fault) => zero.into(),
            Ok(size) => size.min(4096).into(),
        }
    }

    /// Packs the socklen_t of argument `i`, once. Returns its output and value.
    fn addr_len(&mut self, i: usize) -> Result<Option<(usize, u64)>, Refuse> {
        if self.done[i].is_none() {
            let addr = self.packed.args[i];
            let out = match self.usable(addr)? {
                true => self.in_out(Ptr::Arg(i), addr, 4)?,
                false => None,
            };
            self.done[i] = Some(out);
        }
        Ok(self.done[i].flatten().map(|out| {
            let off = self.packed.outs[out].off as usize;
            (out, count(word32(&self.packed.data, off).into()))
        }))
    }

    fn addr(&mut self, at: Ptr, addr: u64, by: usize) -> Result<(), Refuse> {
        let Some((by, len)) = self.addr_len(by)? else {
            self.set(at, BAD);
            return Ok(());
        };
        if let Some(out) = self.out_late(at, addr, len.min(NAME_MAX), OutRule::OnSuccess)? {
            self.limit(out, by, 0);
        }
        Ok(())
    }

    fn in_out_by(&mut self, at: Ptr, addr: u64, by: usize) -> Result<(), Refuse> {
        match self.addr_len(by)? {
            None => {
                self.set(at, BAD);
                Ok(())
            }
            Some((_, len)) if len > OPTION_MAX as u64 => {
                Err(Refuse::ComeHome("a large socket option"))
            }
            Some((_, len)) => self.in_out_some(at, addr, len),
        }
    }

    fn fd_set(&mut self, at: Ptr, addr: u64) -> Result<(), Refuse> {
        let fds = count(self.packed.args[0]);
        if fds <= FD_SETSIZE {
            return self.in_out(at, addr, fds.div_ceil(64) * 8).map(|_| ());
        }
        let fds = fds.min(FDS_MAX);
        self.packed.args[0] = fds;
        self.in_out_some(at, addr, fds.div_ceil(64) * 8)
    }

    /// A buffer in and out with a stated length that may exceed the body's memory there.
    fn in_out_some(&mut self, at: Ptr, addr: u64, len: u64) -> Result<(), Refuse> {
        if let Some((off, got)) = self.read_some_piece(at, addr, len)? {
            let rest = self.room(len - got as u64)?;
            self.packed.data.resize(off + got + rest, 0);
            self.out_in_data(off, got + rest, OutRule::Always, addr)?;
        }
        Ok(())
    }
}
