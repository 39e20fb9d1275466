//! The pages, as they were built from `web/` (`npm run build` there). They are part of the program.

use crate::packed;
use crate::reply::{Reply, bytes};
use axum::http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use std::sync::OnceLock;

struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static [u8],
}

static ASSETS: [Asset; 3] = [
    Asset {
        path: "/",
        kind: "text/html; charset=utf-8",
        text: include_bytes!("../../../web/dist/index.html"),
    },
    Asset {
        path: "/app.js",
        kind: "text/javascript; charset=utf-8",
        text: include_bytes!("../../../web/dist/app.js"),
    },
    Asset {
        path: "/app.css",
        kind: "text/css; charset=utf-8",
        text: include_bytes!("../../../web/dist/app.css"),
    },
];

/// The version of the pages: that of a page that is open is compared with it after an upgrade.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let all = ASSETS.iter().flat_map(|a| a.text.iter());
        format!("{:016x}", fnv(all))
    })
}

/// FNV-1a, 64 bits: tells versions apart, proves nothing.
fn fnv<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Compressed once; `None` where that is not possible.
fn packed_of(asset: &'static Asset) -> Option<&'static [u8]> {
    static PACKED: OnceLock<Vec<(&str, Vec<u8>)>> = OnceLock::new();
    let packed = PACKED.get_or_init(|| {
        let pack = |a: &Asset| Some((a.path, packed::pack(a.text).ok()?));
        ASSETS.iter().filter_map(pack).collect()
    });
    let found = packed.iter().find(|(path, _)| *path == asset.path);
    found.map(|(_, bytes)| bytes.as_slice())
}

pub fn find(path: &str, headers: &HeaderMap) -> Option<Reply> {
    let asset = ASSETS.iter().find(|a| a.path == path)?;
    let tag = format!("\"{}\"", version());
    let known = headers
        .get(IF_NONE_MATCH)
        .is_some_and(|t| t.as_bytes() == tag.as_bytes());
    let packed = packed::wanted(headers).then(|| packed_of(asset)).flatten();
    let mut reply = match (known, packed) {
        (true, _) => bytes(StatusCode::NOT_MODIFIED, asset.kind, ""),
        (false, None) => bytes(StatusCode::OK, asset.kind, asset.text),
        (false, Some(packed)) => packed::mark(bytes(StatusCode::OK, asset.kind, packed)),
    };
    let headers = reply.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = tag.parse() {
        headers.insert(ETAG, tag);
    }
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first load of the dashboard: pages, before any data, bytes.
    const FIRST_MAX: usize = 150_000;

    #[test]
    fn pages_are_small_and_ask_nobody_else() {
        let size: usize = ASSETS.iter().map(|a| a.text.len()).sum();
        assert!(size <= FIRST_MAX, "{size} bytes");
        let html = String::from_utf8_lossy(ASSETS[0].text);
        assert!(
            !html.contains("http://") && !html.contains("https://"),
            "{html}"
        );
        assert!(html.contains("/app.js") && html.contains("/app.css"));
    }
}
