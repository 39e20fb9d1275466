//! What two hosts have of one direction of a connection, put together. Pure: what hosts say is checked here.

/// What one end has, as its host says (`wire/src/sockets.rs`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    pub sent: u64,
    /// The last of these, which the other end has not confirmed.
    pub tail: Vec<u8>,
    pub received: u64,
    /// The last of these, which the program has not read.
    pub unread: Vec<u8>,
}

/// The two hosts do not agree: bytes are lost, or were invented.
#[derive(Debug, PartialEq, Eq)]
pub struct Torn;

/// The bytes of one direction that no program has read: from the ends that read and write it. `None`: the host of that end is lost. At most
/// `window`.
pub fn unread_bytes(
    reader: Option<&Remains>,
    writer: Option<&Remains>,
    window: usize,
) -> Result<Vec<u8>, Torn> {
    let Some(reader) = reader else {
        // Nothing reads it any more.
        return Ok(Vec::new());
    };
    let mut all = reader.unread.clone();
    if reader.unread.len() as u64 > reader.received {
        return Err(Torn);
    }
    if let Some(writer) = writer {
        let confirmed = writer
            .sent
            .checked_sub(writer.tail.len() as u64)
            .ok_or(Torn)?;
        let came = reader.received.checked_sub(confirmed).ok_or(Torn)?;
        let came = usize::try_from(came).map_err(|_| Torn)?;
        all.extend_from_slice(writer.tail.get(came..).ok_or(Torn)?);
    }
    match all.len() <= window {
        true => Ok(all),
        false => Err(Torn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(sent: u64, tail: &[u8]) -> Remains {
        Remains {
            sent,
            tail: tail.to_vec(),
            ..Remains::default()
        }
    }

    fn reads(received: u64, unread: &[u8]) -> Remains {
        Remains {
            received,
            unread: unread.to_vec(),
            ..Remains::default()
        }
    }

    #[test]
    fn bytes_on_their_way_are_taken_from_the_end_that_sent_them() {
        let check = |r: Remains, w: Remains, want: Result<&[u8], Torn>| {
            let got = unread_bytes(Some(&r), Some(&w), 10);
            assert_eq!(got, want.map(<[u8]>::to_vec), "{r:?} {w:?}");
        };
        check(reads(4, b"d"), writes(7, b"defg"), Ok(b"defg"));
        check(reads(7, b"g"), writes(7, b"defg"), Ok(b"g"));
        check(reads(3, b""), writes(7, b"defg"), Ok(b"defg"));
        // More came than was sent, or less than was confirmed.
        check(reads(8, b""), writes(7, b"defg"), Err(Torn));
        check(reads(2, b""), writes(7, b"defg"), Err(Torn));
        check(reads(0, b"x"), writes(0, b""), Err(Torn));
        check(reads(9, b"23456789"), writes(12, b"abc"), Err(Torn));
        check(reads(9, b""), writes(2, b"abc"), Err(Torn));
    }

    #[test]
    fn of_a_lost_host_the_other_has_what_came() {
        assert_eq!(
            unread_bytes(Some(&reads(4, b"cd")), None, 10),
            Ok(b"cd".to_vec())
        );
        assert_eq!(
            unread_bytes(None, Some(&writes(4, b"cd")), 10),
            Ok(Vec::new())
        );
    }
}
