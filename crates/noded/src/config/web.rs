//! `[web]`: the dashboard.

use armento_client::api::WEB_PORT;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Names under which browsers may ask for it.
const NAMES_MAX: usize = 32;
/// KERNEL: no name of a host is longer (RFC 1035, section 2.3.4).
const NAME_MAX: usize = 253;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// `ip:port`; empty: there is no dashboard. If not given `127.0.0.1:7118`, and its server runs only while somebody may
    /// be signed in.
    pub listen: Option<String>,
    /// Files with a certificate chain and its key, PEM, for addresses beyond loopback. If not given, a certificate that the
    /// daemon makes.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Names under which browsers ask for it, besides `localhost`, IP addresses and the name of the node.
    pub names: Vec<String>,
    /// Directory of reports of the papers (`armento paper run --out DIR`), for all who are signed in.
    pub reports: Option<PathBuf>,
}

impl Web {
    /// Where it listens; `None`: nowhere. Before: [`Web::check`] was passed.
    pub fn addr(&self) -> Option<SocketAddr> {
        let usual = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), WEB_PORT);
        match self.listen.as_deref() {
            None => Some(usual),
            Some(text) => text.parse().ok(),
        }
    }

    /// An address was given: the server runs as long as the daemon.
    pub fn always(&self) -> bool {
        self.listen.as_ref().is_some_and(|l| !l.is_empty())
    }

    /// Beyond this machine everything is encrypted.
    pub fn needs_tls(&self) -> bool {
        self.addr().is_some_and(|a| !a.ip().is_loopback())
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(text) = self.listen.as_ref().filter(|l| !l.is_empty()) {
            let addr: Result<SocketAddr, _> = text.parse();
            if !addr.is_ok_and(|a| a.port() != 0) {
                return Err(format!(
                    "web.listen is an IP address with a port, as 127.0.0.1:{WEB_PORT}, or empty; not `{text}`"
                ));
            }
        }
        if self.certificate.is_some() != self.key.is_some() {
            return Err("web.certificate and web.key are given together".into());
        }
        if self.names.len() > NAMES_MAX {
            return Err(format!("web.names has more than {NAMES_MAX} names"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let is_name = |n: &&String| !n.is_empty() && n.len() <= NAME_MAX && n.chars().all(plain);
        if let Some(bad) = self.names.iter().find(|n| !is_name(n)) {
            return Err(format!("web.names: `{bad}` is no name of a host"));
        }
        match &self.reports {
            Some(dir) if !super::mfs::is_plain(dir) => Err(format!(
                "web.reports: {} is not the full path of a directory",
                dir.display()
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Config;

    #[test]
    fn dashboard_is_on_loopback_unless_told_otherwise() {
        let of = |text: &str| {
            let web = Config::parse(text).expect("good").web;
            let addr = web.addr().map(|a| a.to_string());
            (addr, web.always(), web.needs_tls())
        };
        assert_eq!(of(""), (Some("127.0.0.1:7118".into()), false, false));
        assert_eq!(of("[web]\nlisten = \"\""), (None, false, false));
        let all = of("[web]\nlisten = \"0.0.0.0:443\"");
        assert_eq!(all, (Some("0.0.0.0:443".into()), true, true));
        let own = of("[web]\nlisten = \"[::1]:99\"");
        assert_eq!(own, (Some("[::1]:99".into()), true, false));
    }

    #[test]
    fn impossible_settings_are_refused() {
        let check = |rest: &str, part: &str| {
            let e = Config::parse(&format!("[web]\n{rest}")).expect_err(rest);
            assert!(e.contains(part), "{e}");
        };
        check("listen = \"localhost:80\"", "web.listen");
        check("listen = \"127.0.0.1:0\"", "web.listen");
        check("certificate = \"/a\"", "together");
        check("names = [\"a b\"]", "no name of a host");
        check("reports = \"out\"", "full path");
        check("port = 7", "port");
    }
}
