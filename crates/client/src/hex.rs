//! Bytes as hexadecimal digits: parts of files in messages, digests, identifiers.

pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
    let both = bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]);
    both.collect()
}

/// `None` if the text is not pairs of such digits.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let byte = |i: usize| u8::from_str_radix(text.get(i..i + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_undoes_encoding() {
        assert_eq!(unhex(&hex(&[0, 7, 255])), Some(vec![0, 7, 255]));
        assert_eq!(unhex("+1"), None);
    }
}
