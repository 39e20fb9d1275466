//! Which requests are answered at all: those for a name of this server (DNS rebinding), and from its own pages only.

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST, HeaderValue, ORIGIN};
use std::net::IpAddr;

/// Why a request is not answered. Nothing was done.
#[derive(Debug, PartialEq, Eq)]
pub enum Unwanted {
    /// It asks for a name that is not this server's.
    Host,
    /// A page of another site made it.
    Origin,
}

/// What this server is called.
pub struct Guard {
    names: Vec<String>,
    tls: bool,
    cookie: String,
}

impl Guard {
    /// `names` besides `localhost` and IP addresses. Browsers share cookies between all ports of a machine, hence `port`, and
    /// several nodes are reached as `localhost` by tunnels, hence the first name.
    pub fn new(names: &[String], tls: bool, port: u16) -> Guard {
        let mut names: Vec<String> = names.iter().map(|n| n.to_lowercase()).collect();
        let own = names.first().map(|n| format!("-{n}"));
        names.push("localhost".into());
        Guard {
            names,
            tls,
            cookie: format!("armento-{port}{}", own.unwrap_or_default()),
        }
    }

    /// The port is not compared: a tunnel may have another.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Unwanted> {
        let host = one(headers.get_all(HOST).iter()).ok_or(Unwanted::Host)?;
        if !self.is_own(host) {
            return Err(Unwanted::Host);
        }
        if !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        let origin = one(headers.get_all(ORIGIN).iter()).ok_or(Unwanted::Origin)?;
        let scheme = if self.tls { "https://" } else { "http://" };
        let same = origin.strip_prefix(scheme).is_some_and(|o| o == host);
        same.then_some(()).ok_or(Unwanted::Origin)
    }

    /// A name of ours, or an address: no name of a foreign site can stand for an address.
    fn is_own(&self, host: &str) -> bool {
        let (name, port) = match host.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((name, port)) => (name, port.strip_prefix(':')),
                None => return false,
            },
            None => match host.rsplit_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (host, None),
            },
        };
        let name = name.trim_end_matches('.').to_lowercase();
        port.is_none_or(|p| p.parse::<u16>().is_ok())
            && (name.parse::<IpAddr>().is_ok() || self.names.contains(&name))
    }

    /// The secret of a signed-in browser.
    pub fn secret(&self, headers: &HeaderMap) -> Option<String> {
        let texts = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|v| v.to_str().ok());
        let mut pairs = texts.flat_map(|t| t.split(';')).map(str::trim);
        let value = pairs.find_map(|p| p.strip_prefix(&self.cookie)?.strip_prefix('='))?;
        let plain = !value.is_empty() && value.len() <= 128;
        (plain && value.bytes().all(|b| b.is_ascii_alphanumeric())).then(|| value.to_owned())
    }

    /// `Set-Cookie` for a browser that is signed in for `left_s` seconds; 0 signs it out. Scripts do not see it, and no other
    /// site makes the browser send it.
    pub fn cookie(&self, secret: &str, left_s: u64) -> String {
        let name = &self.cookie;
        let secure = if self.tls { "; Secure" } else { "" };
        format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={left_s}{secure}")
    }
}

/// The value of a header that may be given once.
fn one<'a>(mut values: impl Iterator<Item = &'a HeaderValue>) -> Option<&'a str> {
    let first = values.next()?;
    values.next().is_none().then(|| first.to_str().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut all = HeaderMap::new();
        all.insert(HOST, host.parse().expect("a value"));
        if let Some(origin) = origin {
            all.insert(ORIGIN, origin.parse().expect("a value"));
        }
        all
    }

    #[test]
    fn only_own_names_and_own_pages_are_answered() {
        let guard = Guard::new(&["N1".into()], false, 7118);
        let check = |host: &str, origin: Option<&str>, what: Result<(), Unwanted>| {
            assert_eq!(
                guard.check(&headers(host, origin)),
                what,
                "{host} {origin:?}"
            );
        };
        for good in [
            "127.0.0.1:7118",
            "localhost",
            "localhost:9000",
            "[::1]:7118",
            "n1",
            "10.0.0.3",
        ] {
            check(good, None, Ok(()));
            check(good, Some(&format!("http://{good}")), Ok(()));
            check(good, Some("http://evil.example"), Err(Unwanted::Origin));
            check(good, Some("null"), Err(Unwanted::Origin));
            check(
                good,
                Some(&format!("https://{good}")),
                Err(Unwanted::Origin),
            );
        }
        for bad in [
            "evil.example",
            "evil.example:7118",
            "127.0.0.1.evil.example",
            "",
            "[::1",
            "localhost:x",
        ] {
            check(bad, None, Err(Unwanted::Host));
        }
        check(
            "localhost:7118",
            Some("http://localhost:1"),
            Err(Unwanted::Origin),
        );
        assert_eq!(guard.check(&HeaderMap::new()), Err(Unwanted::Host));
        let mut two = headers("localhost", None);
        two.append(HOST, "evil.example".parse().expect("a value"));
        assert_eq!(guard.check(&two), Err(Unwanted::Host));
    }

    #[test]
    fn secrets_are_read_from_the_cookie_of_this_port() {
        let guard = Guard::new(&[], true, 443);
        let of = |text: &str| {
            let mut all = HeaderMap::new();
            all.insert(COOKIE, text.parse().expect("a value"));
            guard.secret(&all)
        };
        assert_eq!(of("a=b; armento-443=cafe; c=d").as_deref(), Some("cafe"));
        for none in ["armento-44=cafe", "armento-443=", "armento-443=a\"b", "x"] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(of(&format!("armento-443={}", "a".repeat(999))), None);
        let set = guard.cookie("cafe", 60);
        assert!(set.contains("HttpOnly; SameSite=Strict; Max-Age=60; Secure"));
    }
}
