//! Join tokens, in the format of k3s: `armento1K<sha256 of the CA certificate>::<id>:<secret>`.
//!
//! The joining node checks the hash before it sends the secret, so that a man in the middle cannot obtain it.

use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "armento";
/// Version of the token's own format.
const VERSION: u32 = 1;

#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// SHA-256 of the CA certificate's DER.
    pub ca_sha256: [u8; 32],
    /// The key under which the daemon stores expiry and uses.
    pub id: String,
    pub secret: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    #[error("a token begins with `armento1K`; this one does not: was it copied whole?")]
    Prefix,
    #[error("the token has format version {0}; this program knows version 1: update Armento here")]
    Version(u32),
    #[error(
        "the token's hash of the farm's certificate is not 64 hexadecimal digits: was it copied whole?"
    )]
    Hash,
    #[error("the token lacks `::ID:SECRET` after its hash: was it copied whole?")]
    Secret,
}

impl Token {
    /// A new token for the farm of which the CA has the hash `ca_sha256`.
    pub fn fresh(ca_sha256: [u8; 32]) -> Token {
        Token {
            ca_sha256,
            id: random_hex(4),
            secret: random_hex(16),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{VERSION}K")?;
        self.ca_sha256
            .iter()
            .try_for_each(|b| write!(f, "{b:02x}"))?;
        write!(f, "::{}:{}", self.id, self.secret)
    }
}

/// Hides the secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

impl FromStr for Token {
    type Err = BadToken;
    fn from_str(s: &str) -> Result<Token, BadToken> {
        let rest = s.trim().strip_prefix(PREFIX).ok_or(BadToken::Prefix)?;
        let (version, rest) = rest.split_once('K').ok_or(BadToken::Prefix)?;
        let version = version.parse().map_err(|_| BadToken::Prefix)?;
        if version != VERSION {
            return Err(BadToken::Version(version));
        }
        let (hash, rest) = rest.split_once("::").ok_or(BadToken::Secret)?;
        let ca_sha256 = unhex(hash).ok_or(BadToken::Hash)?;
        let (id, secret) = rest.split_once(':').ok_or(BadToken::Secret)?;
        let plain =
            |t: &str| (1..=64).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_hexdigit());
        if !plain(id) || !plain(secret) {
            return Err(BadToken::Secret);
        }
        Ok(Token {
            ca_sha256,
            id: id.to_owned(),
            secret: secret.to_owned(),
        })
    }
}

fn unhex(s: &str) -> Option<[u8; 32]> {
    if s.len() != 64 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = [0; 32];
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&s[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

/// SHA-256 of a CA certificate's DER.
pub fn ca_hash(der: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, der);
    let mut out = [0; 32];
    out.copy_from_slice(digest.as_ref());
    out
}

/// `bytes` random bytes from the kernel as hexadecimal digits.
pub fn random_hex(bytes: usize) -> String {
    let mut raw = vec![0; bytes];
    // getrandom(2) works on every supported kernel; without randomness no key may be made.
    SystemRandom::new()
        .fill(&mut raw)
        .expect("the kernel gives random bytes");
    raw.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> Token {
        Token {
            ca_sha256: [0xab; 32],
            id: "0badcafe".into(),
            secret: "00112233445566778899aabbccddeeff".into(),
        }
    }

    #[test]
    fn token_text_is_stable() {
        let text = format!(
            "armento1K{}::0badcafe:00112233445566778899aabbccddeeff",
            "ab".repeat(32)
        );
        assert_eq!(golden().to_string(), text);
        assert_eq!(text.parse(), Ok(golden()));
        assert_eq!(format!(" {text}\n").parse(), Ok(golden()));
    }

    #[test]
    fn errors_name_the_cause() {
        let hash = "ab".repeat(32);
        let check = |s: &str, e: BadToken| assert_eq!(s.parse::<Token>(), Err(e), "{s}");
        check("", BadToken::Prefix);
        check("K10abc::server:x", BadToken::Prefix);
        check("armentoK00", BadToken::Prefix);
        check(&format!("armento2K{hash}::aa:bb"), BadToken::Version(2));
        check("armento1Kabcd::aa:bb", BadToken::Hash);
        check(&format!("armento1K{hash}"), BadToken::Secret);
        check(&format!("armento1K{hash}::aa"), BadToken::Secret);
        check(&format!("armento1K{hash}::aa:"), BadToken::Secret);
        check(
            &format!("armento1K{}::aa:bb", "é".repeat(32)),
            BadToken::Hash,
        );
    }

    #[test]
    fn secrets_do_not_reach_logs() {
        assert_eq!(format!("{:?}", golden()), "Token(0badcafe)");
    }
}
