//! What statx(2) says of a file, in the forms in which programs ask for it.

/// struct statx. KERNEL: include/uapi/linux/stat.h.
const STATX: usize = 256;
/// struct stat of x86-64. KERNEL: arch/x86/include/uapi/asm/stat.h.
const STAT: usize = 144;

/// Fields of struct statx.
mod at {
    pub const MASK: usize = 0;
    pub const BLKSIZE: usize = 0x04;
    pub const NLINK: usize = 0x10;
    pub const UID: usize = 0x14;
    pub const GID: usize = 0x18;
    pub const MODE: usize = 0x1c;
    pub const INO: usize = 0x20;
    pub const SIZE: usize = 0x28;
    pub const BLOCKS: usize = 0x30;
    pub const ATIME: usize = 0x40;
    pub const BTIME: usize = 0x50;
    pub const CTIME: usize = 0x60;
    pub const MTIME: usize = 0x70;
    pub const RDEV: usize = 0x80;
    pub const DEV: usize = 0x88;
}

/// What home asks for.
pub const ASKED: u32 = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
/// What a program may ask for beside that: the kernel tells it always.
const ALWAYS: u32 = libc::STATX_MNT_ID;

/// KERNEL: fill_mg_cmtime (6.13): without one of these the times of changes may not be told, and the next change may have
/// the same.
const TIMES: u32 = libc::STATX_MTIME | libc::STATX_CTIME;

/// The form in which a call wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Stat,
    /// struct statx, for this mask.
    Statx(u32),
}

/// struct statx for the mask [`ASKED`], without the zeros at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a>(pub &'a [u8]);

impl Attributes<'_> {
    /// `None` if the kernel's answer may be another than to what home asked for. `birth`: the file system tells the time of birth
    /// also when it is not asked for.
    pub fn in_form(self, form: Form, birth: bool) -> Option<Vec<u8>> {
        if self.0.len() > STATX {
            return None;
        }
        let mut x = self.0.to_vec();
        x.resize(STATX, 0);
        match form {
            Form::Stat => Some(stat(&x)),
            Form::Statx(mask) if mask & !(ASKED | ALWAYS) == 0 && mask & TIMES != 0 => {
                if mask & libc::STATX_BTIME == 0 && !birth {
                    let told = word(&x, at::MASK) & !libc::STATX_BTIME;
                    x[at::MASK..at::MASK + 4].copy_from_slice(&told.to_ne_bytes());
                    x[at::BTIME..at::BTIME + 12].fill(0);
                }
                Some(x)
            }
            Form::Statx(_) => None,
        }
    }
}

fn word(x: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([x[at], x[at + 1], x[at + 2], x[at + 3]])
}

fn stat(x: &[u8]) -> Vec<u8> {
    let long = |at| u64::from(word(x, at)) | u64::from(word(x, at + 4)) << 32;
    // KERNEL: new_encode_dev.
    let device = |at| {
        let (major, minor) = (word(x, at), word(x, at + 4));
        u64::from(minor & 0xff | major << 8 | (minor & !0xff) << 12)
    };
    let mode = u32::from(u16::from_ne_bytes([x[at::MODE], x[at::MODE + 1]]));
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let time = |at| [long(at), u64::from(word(x, at + 8))];
    let ([a, an], [m, mn], [c, cn]) = (time(at::ATIME), time(at::MTIME), time(at::CTIME));
    let words = [
        device(at::DEV),
        long(at::INO),
        u64::from(word(x, at::NLINK)),
        two(mode, word(x, at::UID)),
        u64::from(word(x, at::GID)),
        device(at::RDEV),
        long(at::SIZE),
        u64::from(word(x, at::BLKSIZE)),
        long(at::BLOCKS),
        a,
        an,
        m,
        mn,
        c,
        cn,
    ];
    let mut out: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    out.resize(STAT, 0);
    out
}
