//! What the kernel asks: a head, and arguments one after the other.

/// struct fuse_in_header.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub op: u32,
    pub unique: u64,
    pub node: u64,
    pub uid: u32,
    pub gid: u32,
    /// The calling thread.
    pub pid: u32,
}

/// Length of it.
const HEAD: usize = 40;

/// Takes arguments from the front. What is not there is zero: the kernel sends whole structures.
#[derive(Clone, Copy)]
pub struct Args<'a>(&'a [u8]);

impl Head {
    pub fn parse(b: &[u8]) -> Option<(Head, Args<'_>)> {
        let (head, rest) = b.split_at_checked(HEAD)?;
        let mut a = Args(head);
        let len = a.u32() as usize;
        let h = Head {
            op: a.u32(),
            unique: a.u64(),
            node: a.u64(),
            uid: a.u32(),
            gid: a.u32(),
            pid: a.u32(),
        };
        Some((h, Args(rest.get(..len.checked_sub(HEAD)?)?)))
    }
}

impl<'a> Args<'a> {
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        front
    }

    pub fn u32(&mut self) -> u32 {
        self.take(4).try_into().map_or(0, u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> u64 {
        self.take(8).try_into().map_or(0, u64::from_le_bytes)
    }

    pub fn skip(&mut self, n: usize) {
        self.take(n);
    }

    /// A string that ends with zero.
    pub fn name(&mut self) -> &'a [u8] {
        let n = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        let name = self.take(n);
        self.take(1);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_requests_are_zeros() {
        assert!(Head::parse(&[0; 39]).is_none());
        assert!(Head::parse(&[0; 40]).is_none(), "a length of 0");
        let mut b = [0; 52];
        (b[0], b[4]) = (52, 1);
        b[40..].copy_from_slice(b"ab\0c\0\x07\0\0\0\x08\0\0");
        let (h, mut a) = Head::parse(&b).expect("whole");
        assert_eq!((h.op, a.name(), a.name()), (1, &b"ab"[..], &b"c"[..]));
        assert_eq!((a.u32(), a.u32(), a.u64(), a.name()), (7, 0, 0, &b""[..]));
    }
}
