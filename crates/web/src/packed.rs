//! Compression for browsers that understand zstd (RFC 8878); the others get everything as it is.

use crate::reply::Reply;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};
use std::io::{self, Write};

/// Pages are compressed once.
const PAGES_LEVEL: i32 = 19;
/// Messages are compressed for each page, once a second.
const STREAM_LEVEL: i32 = 1;
/// How far back a message may refer, as a power of two: 256 kB for each page that is open.
const STREAM_WINDOW: u32 = 18;

pub fn wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|v| v.to_str().ok());
    let mut kinds = accepted.unwrap_or_default().split(',').map(str::trim);
    kinds.any(|k| k == "zstd")
}

/// Says that the body of `reply` is compressed.
pub fn mark(mut reply: Reply) -> Reply {
    let headers = reply.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    reply
}

pub fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    zstd::stream::encode_all(bytes, PAGES_LEVEL)
}

/// One stream of messages, each of which can be read when it has arrived.
pub struct Packer(Option<zstd::stream::write::Encoder<'static, Vec<u8>>>);

impl Packer {
    /// `packs`: whether its reader understands zstd.
    pub fn new(packs: bool) -> io::Result<Packer> {
        if !packs {
            return Ok(Packer(None));
        }
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), STREAM_LEVEL)?;
        encoder.window_log(STREAM_WINDOW)?;
        Ok(Packer(Some(encoder)))
    }

    pub fn message(&mut self, text: String) -> io::Result<Vec<u8>> {
        let Some(encoder) = &mut self.0 else {
            return Ok(text.into_bytes());
        };
        encoder.write_all(text.as_bytes())?;
        encoder.flush()?;
        Ok(std::mem::take(encoder.get_mut()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn each_message_can_be_read_when_it_has_arrived() {
        let mut packer = Packer::new(true).expect("an encoder");
        let mut all = Vec::new();
        let mut said = String::new();
        for i in 0..3 {
            let text = format!("data: {{\"n\":{i}}}\n\n").repeat(100);
            said.push_str(&text);
            let packed = packer.message(text).expect("packed");
            assert!(packed.len() < 200);
            all.extend(packed);
            // The stream has no end yet: as much as has come.
            let mut read = vec![0; said.len()];
            let mut decoder = zstd::stream::read::Decoder::new(&all[..]).expect("a decoder");
            decoder.read_exact(&mut read).expect("all so far");
            assert_eq!(read, said.as_bytes());
        }
        let plain = Packer::new(false).and_then(|mut p| p.message("a".into()));
        assert_eq!(plain.expect("as it is"), b"a");
    }

    #[test]
    fn only_who_asks_gets_zstd() {
        let of = |text: &'static str| {
            let mut all = HeaderMap::new();
            all.insert(ACCEPT_ENCODING, HeaderValue::from_static(text));
            wanted(&all)
        };
        assert!(of("gzip, deflate, br, zstd") && !of("gzip, br") && !wanted(&HeaderMap::new()));
    }
}
