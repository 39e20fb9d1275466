//! Challenge and proof between a joiner and the member that admits it.

use armento_client::hex::hex;
use ring::hmac;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// No line or datagram of a join is longer.
pub const LINE_MAX: u64 = 1024;
pub const MARK: &str = "armento-join-1";

/// What the member sends, over TCP and UDP.
#[derive(Debug, Serialize, Deserialize)]
pub struct Challenge {
    pub mark: String,
    pub challenge: String,
    pub proof: String,
    /// Where the member says that it is reached; none in datagrams.
    #[serde(default)]
    pub told: Option<SocketAddr>,
}

/// What the joiner answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    pub proof: String,
    /// Why the member's told address does not answer.
    #[serde(default)]
    pub lost: Option<String>,
}

/// What only a holder of the key can compute; `of` is the side that proves, so that no answer can be sent back.
pub fn proof(key: &str, of: &str, challenge: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let tag = hmac::sign(&key, format!("{MARK} {of} {challenge}").as_bytes());
    hex(tag.as_ref())
}

/// A key is a secret of one join: comparing in constant time would hide nothing, for it is used once.
pub fn proves(key: &str, of: &str, challenge: &str, given: &str) -> bool {
    proof(key, of, challenge) == given
}
