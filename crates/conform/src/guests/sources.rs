//! The sources of `guests/`, embedded in the binary.

include!(concat!(env!("OUT_DIR"), "/guests.rs"));

/// Headers that guests share: name, text.
pub fn headers() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES
        .iter()
        .copied()
        .filter(|(name, _)| name.ends_with(".h"))
}
