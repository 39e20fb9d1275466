//! The machine under a node, known to its farm by a hash: a cloned image has the machine-id of its original.
//!
//! machine-id(5): the id itself is not to be told to others; a keyed hash of it is
//! (sd_id128_get_machine_app_specific(3)). Ours is one a farm, so that two farms cannot compare theirs.

use armento_client::hex::hex;
use ring::hmac;

const FILE: &str = "/etc/machine-id";
/// 32 hexadecimal digits.
const DIGITS: usize = 32;
/// Enough to tell machines apart.
const BYTES: usize = 16;

/// `None` where the machine has no id of its own: containers, images that were never booted (`uninitialized`).
pub fn machine_hash(ca_sha256: &[u8; 32]) -> Option<String> {
    hashed(&std::fs::read_to_string(FILE).ok()?, ca_sha256)
}

fn hashed(text: &str, ca_sha256: &[u8; 32]) -> Option<String> {
    let id = text.trim();
    let good = id.len() == DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit());
    let empty = id.bytes().all(|b| b == b'0');
    if !good || empty {
        return None;
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, id.to_ascii_lowercase().as_bytes());
    let tag = hmac::sign(&key, ca_sha256);
    Some(hex(&tag.as_ref()[..BYTES]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_farm_has_another_hash_of_a_machine() {
        let id = "0123456789abcdef0123456789abcdef\n";
        let (one, other) = (hashed(id, &[1; 32]), hashed(id, &[2; 32]));
        assert!(one.is_some() && one != other);
        assert_eq!(one, hashed(id.trim(), &[1; 32]));
        assert_eq!(one, hashed(&id.to_ascii_uppercase(), &[1; 32]));
        assert_eq!(one.map(|h| h.len()), Some(2 * BYTES));
        for none in ["", "uninitialized\n", "0123", &"0".repeat(32)] {
            assert_eq!(hashed(none, &[1; 32]), None, "{none}");
        }
    }
}
