//! Access to the memory of a body for marshalling.

/// The body itself could not have accessed the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Access to a body's memory. Each method must respect the protection of its pages, so that a buffer in read-only
/// memory faults as it does natively.
pub trait Mem {
    /// Reads all of `buf` or fails.
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), Fault>;

    /// Reads from `addr` as much as is readable; returns how much.
    fn read_some(&mut self, addr: u64, buf: &mut [u8]) -> usize;

    /// Writes all of `data` or fails; after a failure the memory is undefined.
    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault>;
}

pub(crate) const PAGE: u64 = 4096;

/// First address that no 4-level page table maps. KERNEL: TASK_SIZE_MAX, 6.18.
const USER_END: u64 = 0x7fff_ffff_f000;
/// The same with 5-level tables.
const USER_END_LA57: u64 = 0x00ff_ffff_ffff_f000;

/// An address that faults everywhere: replaces bad pointers, so that home's kernel returns EFAULT exactly where it
/// would natively, after its earlier checks.
pub(crate) const BAD: u64 = 0xffff_ffff_ffff_f000;

/// A user address where nothing is mapped in a deputy: the last page of what is reserved for Armento. It replaces a user
/// address from which nothing can be read, for calls that never look there: a write to /dev/null.
pub const HOLE: u64 = 0x6aff_ffff_f000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Maybe mapped.
    User,
    /// NULL, the zero page or beyond user space: home's kernel refuses it as well.
    Hopeless,
    /// Between 47 and 56 bits: mapped only by programs that request it.
    High,
}

pub(crate) fn kind(addr: u64) -> Kind {
    match addr {
        0..PAGE => Kind::Hopeless,
        PAGE..USER_END => Kind::User,
        USER_END..USER_END_LA57 => Kind::High,
        _ => Kind::Hopeless,
    }
}

/// Whether `len` bytes from a user address stay in user space.
pub(crate) fn fits(addr: u64, len: u64) -> bool {
    addr.checked_add(len).is_some_and(|end| end <= USER_END)
}

/// Reads strings through a cached page: the strings of argv and envp are adjacent, and each read costs the host a
/// system call.
pub(crate) struct Strings<'a, M> {
    mem: &'a mut M,
    page: u64,
    bytes: Box<[u8; PAGE as usize]>,
}

impl<'a, M: Mem> Strings<'a, M> {
    pub fn new(mem: &'a mut M) -> Self {
        Strings {
            mem,
            page: u64::MAX,
            bytes: Box::new([0; PAGE as usize]),
        }
    }

    /// The rest of the page from `addr` on.
    fn tail(&mut self, addr: u64) -> Result<&[u8], Fault> {
        let page = addr & !(PAGE - 1);
        if kind(addr) != Kind::User {
            return Err(Fault);
        }
        if self.page != page {
            self.page = u64::MAX;
            self.mem.read(page, &mut self.bytes[..])?;
            self.page = page;
        }
        Ok(&self.bytes[(addr - page) as usize..])
    }

    /// Appends the string at `addr` to `to`, its NUL excluded. `None` if it is longer than `max` (then `max` bytes were
    /// appended).
    pub fn append(
        &mut self,
        mut addr: u64,
        max: usize,
        to: &mut Vec<u8>,
    ) -> Result<Option<usize>, Fault> {
        let mut len = 0;
        loop {
            let tail = self.tail(addr)?;
            let end = tail.iter().position(|&b| b == 0);
            let take = end.unwrap_or(tail.len()).min(max - len);
            to.extend_from_slice(&tail[..take]);
            addr += take as u64;
            len += take;
            if end == Some(take) {
                return Ok(Some(len));
            }
            if len == max {
                return Ok(None);
            }
        }
    }

    /// A pointer at any alignment.
    pub fn word(&mut self, addr: u64) -> Result<u64, Fault> {
        if let Some(word) = self.tail(addr)?.first_chunk::<8>() {
            return Ok(u64::from_le_bytes(*word));
        }
        let mut word = [0; 8];
        self.mem.read(addr, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }
}
