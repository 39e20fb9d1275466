//! A packed call: numbers and one block of bytes.
//!
//! ```text
//! data area of a slot:  | data (inputs, arrays with pointers) | room for outputs |
//!                       0                            data.len()            span()
//! ```
//! Inputs are sent; the space after them is not. Offsets are relative to the start of the area, which must be
//! page-aligned, so that buffers keep the alignment that O_DIRECT requires.

/// Rule for the valid bytes of an output after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutRule {
    /// All of it if the call returned no error.
    OnSuccess,
    /// The bytes of the returned total that fall into this segment.
    RetBytes { skip: u32 },
    /// A header of this size and as many bytes as returned.
    RetPlus(u32),
    /// As many elements of this size as returned.
    RetTimes(u32),
    /// All of it if the call returned at least this.
    AtLeast(u32),
    /// All of it if the call was interrupted.
    OnEintr,
    /// All of it, whatever was returned.
    Always,
}

/// One piece of the data area that is returned to the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Out {
    pub off: u32,
    pub len: u32,
    pub rule: OutRule,
}

/// A call as it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    pub nr: u16,
    pub args: [u64; 6],
    pub data: Vec<u8>,
    /// Offsets in `data` where a u64 is an offset into the area: add the base.
    pub relocs: Vec<u32>,
    /// Bit i: `args[i]` is an offset into the area: add the base.
    pub arg_ptrs: u8,
    pub outs: Vec<Out>,
}

/// A packed call that is inconsistent; nothing was done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCall {
    /// No such row, or one that is not executed at home.
    NotServed(u16),
    /// An offset or a length exceeds the area.
    OutOfArea,
    /// More outputs than [`Packed::MAX_OUTS`].
    TooMany,
}

impl std::fmt::Display for BadCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadCall::NotServed(nr) => write!(f, "system call {nr} is not served at home"),
            BadCall::OutOfArea => f.write_str("a buffer of the call leaves the data area"),
            BadCall::TooMany => f.write_str("the call has too many buffers"),
        }
    }
}

impl std::error::Error for BadCall {}

/// Errors that mean "interrupted". KERNEL: ERESTART_RESTARTBLOCK is 516.
const INTERRUPTED: [i64; 2] = [-(libc::EINTR as i64), -516];

/// How many bytes of `out` are returned after the call returned `ret`.
pub fn out_len(out: &Out, ret: i64) -> usize {
    let len = u64::from(out.len);
    let n = match (out.rule, u64::try_from(ret)) {
        (OutRule::Always, _) => len,
        (OutRule::OnEintr, _) if INTERRUPTED.contains(&ret) => len,
        (OutRule::OnEintr, _) | (_, Err(_)) => 0,
        (OutRule::OnSuccess, Ok(_)) => len,
        (OutRule::RetBytes { skip }, Ok(ret)) => ret.saturating_sub(skip.into()),
        (OutRule::RetPlus(head), Ok(ret)) => ret.saturating_add(head.into()),
        (OutRule::RetTimes(each), Ok(ret)) => ret.saturating_mul(each.into()),
        (OutRule::AtLeast(min), Ok(ret)) if ret >= min.into() => len,
        (OutRule::AtLeast(_), Ok(_)) => 0,
    };
    n.min(len) as usize
}

impl Out {
    /// Four plain numbers for the wire.
    pub fn to_words(self) -> [u32; 4] {
        let (code, n) = match self.rule {
            OutRule::OnSuccess => (0, 0),
            OutRule::RetBytes { skip } => (1, skip),
            OutRule::RetPlus(head) => (2, head),
            OutRule::RetTimes(each) => (3, each),
            OutRule::AtLeast(min) => (4, min),
            OutRule::OnEintr => (5, 0),
            OutRule::Always => (6, 0),
        };
        [self.off, self.len, code, n]
    }

    /// Reverses [`Out::to_words`]; `None` for an unknown rule, or one with a superfluous number.
    pub fn from_words([off, len, code, n]: [u32; 4]) -> Option<Out> {
        let rule = match (code, n) {
            (0, 0) => OutRule::OnSuccess,
            (1, n) => OutRule::RetBytes { skip: n },
            (2, n) => OutRule::RetPlus(n),
            (3, n) => OutRule::RetTimes(n),
            (4, n) => OutRule::AtLeast(n),
            (5, 0) => OutRule::OnEintr,
            (6, 0) => OutRule::Always,
            _ => return None,
        };
        Some(Out { off, len, rule })
    }
}

impl Packed {
    /// Bound on outputs of one call: UIO_MAXIOV segments for each of a few messages.
    pub const MAX_OUTS: usize = 4096;

    /// Bytes of the area that the call uses, including the space for outputs.
    pub fn span(&self) -> usize {
        let outs = self.outs.iter().map(|o| o.off as usize + o.len as usize);
        outs.max().unwrap_or(0).max(self.data.len())
    }

    /// The first path of the call, without its NUL. `None`: it has none, or an invalid one.
    pub fn path(&self) -> Option<&[u8]> {
        let row = crate::row(self.nr.into())?;
        let i = row.args.iter().position(|arg| *arg == crate::Arg::Path)?;
        let there = self.arg_ptrs & (1 << i) != 0;
        let text = self.data.get(usize::try_from(self.args[i]).ok()?..)?;
        there.then(|| text.split(|&b| b == 0).next()).flatten()
    }

    /// The arguments for an area that lies at `base`.
    pub fn args_at(&self, base: u64) -> [u64; 6] {
        let mut args = self.args;
        for (i, arg) in args.iter_mut().enumerate() {
            if self.arg_ptrs & (1 << i) != 0 {
                *arg = arg.wrapping_add(base);
            }
        }
        args
    }

    /// Copies the inputs into an area that the deputy has at `base`, with pointers relocated.
    ///
    /// Before: [`Packed::check`] passed for this area.
    pub fn copy_to(&self, base: u64, area: &mut [u8]) {
        area[..self.data.len()].copy_from_slice(&self.data);
        for &at in &self.relocs {
            let word = &mut area[at as usize..at as usize + 8];
            let mut old = [0; 8];
            old.copy_from_slice(word);
            word.copy_from_slice(&u64::from_le_bytes(old).wrapping_add(base).to_le_bytes());
        }
    }

    /// Appends the bytes that are returned to the body after `ret`, in the order that [`crate::unpack`] expects.
    pub fn collect(&self, ret: i64, area: &[u8], reply: &mut Vec<u8>) {
        for out in &self.outs {
            let off = out.off as usize;
            reply.extend_from_slice(&area[off..off + out_len(out, ret)]);
        }
    }

    /// Whether a received call is consistent: its number is executed at home and every offset is inside an area of
    /// `area_len` bytes.
    pub fn check(&self, area_len: usize) -> Result<(), BadCall> {
        if !crate::place::served_at_home(self.nr, &self.args) {
            return Err(BadCall::NotServed(self.nr));
        }
        if self.outs.len() > Self::MAX_OUTS {
            return Err(BadCall::TooMany);
        }
        let span = self.span();
        let args = self.args.iter().enumerate();
        let pointers = args.filter(|(i, _)| self.arg_ptrs & (1 << i) != 0);
        let good = span <= area_len
            && pointers.map(|(_, &a)| a).all(|a| a <= span as u64)
            && self.relocs.iter().all(|&at| {
                let word = self.data.get(at as usize..).and_then(<[u8]>::first_chunk);
                word.is_some_and(|w| u64::from_le_bytes(*w) <= span as u64)
            });
        if good {
            Ok(())
        } else {
            Err(BadCall::OutOfArea)
        }
    }
}

/// The path of a lookup from the root or the working directory. `None`: it is another call, or it looks elsewhere.
pub fn packed_path(p: &Packed) -> Option<Vec<u8>> {
    let at = crate::lookup(p.nr.into(), &p.args)?.path_arg;
    if p.arg_ptrs >> at & 1 == 0 {
        return None;
    }
    let path = p.data.get(p.args[at] as usize..)?;
    let end = path.iter().position(|c| *c == 0)?;
    Some(path[..end].to_vec())
}
