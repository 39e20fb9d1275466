//! The arguments of a call, one after the other.

use nfs3_types::xdr_codec::Unpack;

/// The arguments are not those of the procedure.
#[derive(Debug, PartialEq, Eq)]
pub struct Garbage;

/// What is left of a call's bytes.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    rest: &'a [u8],
}

impl<'a> Args<'a> {
    pub fn new(rest: &'a [u8]) -> Args<'a> {
        Args { rest }
    }

    /// A value. Before: its type has no byte strings and no lists.
    pub fn value<T: Unpack>(&mut self) -> Result<T, Garbage> {
        let (value, _) = T::unpack(&mut self.rest).map_err(|_| Garbage)?;
        Ok(value)
    }

    /// A byte string of at most `max` bytes, with its filling up to four (RFC 4506, 4.10).
    pub fn bytes(&mut self, max: usize) -> Result<&'a [u8], Garbage> {
        let len: u32 = self.value()?;
        let len = usize::try_from(len).map_err(|_| Garbage)?;
        if len > max {
            return Err(Garbage);
        }
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Garbage)?;
        let filling = len.next_multiple_of(4) - len;
        self.rest = rest.get(filling..).ok_or(Garbage)?;
        Ok(bytes)
    }

    /// Numbers with their count before them, at most `max`.
    pub fn numbers(&mut self, max: usize) -> Result<Vec<u32>, Garbage> {
        let count: u32 = self.value()?;
        let count = usize::try_from(count).map_err(|_| Garbage)?;
        if count > max {
            return Err(Garbage);
        }
        (0..count).map(|_| self.value()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_the_record_are_garbage() {
        let huge = [0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4];
        assert_eq!(Args::new(&huge).bytes(usize::MAX), Err(Garbage));
        assert_eq!(Args::new(&huge).numbers(16), Err(Garbage));
        assert_eq!(Args::new(&[0, 0, 0, 5, 1, 2]).bytes(64), Err(Garbage));
        assert_eq!(
            Args::new(&[0, 0, 0, 1, 9]).bytes(64),
            Err(Garbage),
            "no filling"
        );
        let mut two = Args::new(&[0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(two.bytes(64), Ok(&[9][..]));
        assert_eq!(two.bytes(64), Ok(&[][..]));
    }
}
