//! Talks to the boot servers: any of them that answers is right.

use super::order::{Order, ServerAddress};
use crate::stage::Step;
use armento_fabric::addr::Mac;
use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds for a short answer.
const SHORT_S: u64 = 10;
/// Seconds for an image: 1 GiB at 100 Mbit/s takes 90.
pub const LONG_S: u64 = 1800;

/// What a machine tells its boot server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub mac: Mac,
    pub step: Step,
    /// What goes wrong after that step.
    #[serde(default)]
    pub trouble: Option<String>,
}

/// What a machine asks for by its card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub mac: Mac,
}

/// With what a machine joins the farm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joining {
    /// For one use, within minutes.
    pub token: String,
    /// Address and port of a member that admits nodes.
    pub member: String,
}

/// The boot servers of one machine.
#[derive(Clone, Debug)]
pub struct Servers {
    mac: Mac,
    all: Vec<ServerAddress>,
}

impl Servers {
    pub fn new(order: &Order) -> Servers {
        Servers {
            mac: order.mac,
            all: order.servers.clone(),
        }
    }

    /// Those of a machine that runs, by their HTTP.
    pub fn known(mac: Mac, all: &[SocketAddrV4]) -> Servers {
        let server = |http: &SocketAddrV4| ServerAddress {
            http: *http,
            nfs: 0,
        };
        Servers {
            mac,
            all: all.iter().map(server).collect(),
        }
    }

    /// A token for this machine.
    pub fn joining(&self) -> Result<Joining, String> {
        let bytes = self.get(&format!("/join?mac={}", self.mac))?;
        serde_json::from_slice(&bytes).map_err(|e| e.to_string())
    }

    /// Tells how far this machine is. A server that does not hear it is no obstacle.
    pub fn tell(&self, step: Step, trouble: Option<&str>) {
        let told = Told {
            mac: self.mac,
            step,
            trouble: trouble.map(str::to_owned),
        };
        let Ok(body) = serde_json::to_vec(&told) else {
            return;
        };
        for server in &self.all {
            let asked = minreq::post(format!("http://{}/progress", server.http))
                .with_body(body.clone())
                .with_timeout(SHORT_S)
                .send();
            if asked.is_ok_and(|a| a.status_code < 300) {
                return;
            }
        }
    }

    /// A short answer, of the first server that gives one.
    pub fn get(&self, path: &str) -> Result<Vec<u8>, String> {
        self.each(|server| {
            let answer = minreq::get(format!("http://{}{path}", server.http))
                .with_timeout(SHORT_S * 6)
                .send()
                .map_err(|e| e.to_string())?;
            match answer.status_code {
                200 => Ok(answer.into_bytes()),
                code => Err(format!(
                    "{code} {}",
                    answer.as_str().unwrap_or_default().trim()
                )),
            }
        })
    }

    /// A long answer, piece by piece. `begin` is called before each attempt.
    pub fn fetch(
        &self,
        path: &str,
        begin: &mut dyn FnMut() -> Result<(), String>,
        piece: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        use std::io::Read as _;
        self.each(|server| {
            begin()?;
            let mut answer = minreq::get(format!("http://{}{path}", server.http))
                .with_timeout(LONG_S)
                .send_lazy()
                .map_err(|e| e.to_string())?;
            if answer.status_code != 200 {
                return Err(format!("{} {}", answer.status_code, answer.reason_phrase));
            }
            let mut buffer = vec![0; 1 << 16];
            loop {
                match answer.read(&mut buffer).map_err(|e| e.to_string())? {
                    0 => return Ok(()),
                    n => piece(&buffer[..n])?,
                }
            }
        })
    }

    /// The time of a boot server, ns since 1970: half of the way there and back is added.
    pub fn time_ns(&self) -> Option<u64> {
        let now = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.ok().and_then(|d| u64::try_from(d.as_nanos()).ok())
        };
        // The first answer opens caches on both sides; of the others the fastest is the most exact.
        let mut best: Option<(u64, u64)> = None;
        for _ in 0..4 {
            let before = now()?;
            let text = String::from_utf8(self.get("/time").ok()?).ok()?;
            let theirs: u64 = text.trim().parse().ok()?;
            let took = now()?.saturating_sub(before);
            let ahead = theirs.wrapping_sub(before).wrapping_sub(took / 2);
            if best.is_none_or(|(least, _)| took < least) {
                best = Some((took, ahead));
            }
        }
        Some(now()?.wrapping_add(best?.1))
    }

    fn each<T>(
        &self,
        mut ask: impl FnMut(&ServerAddress) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut why = String::from("no boot server is known");
        for server in &self.all {
            match ask(server) {
                Ok(answer) => return Ok(answer),
                Err(e) => why = format!("{}: {e}", server.http),
            }
        }
        Err(why)
    }
}

/// What a boot server says of itself.
#[derive(Clone, Debug, Deserialize)]
pub struct ServerStatus {
    pub board: crate::stage::Board,
    #[serde(default)]
    pub images: Vec<ImageSeen>,
    /// How far it is with following the others, by name.
    #[serde(default)]
    pub follows: std::collections::BTreeMap<String, crate::follow::Progress>,
}

/// A generation that a boot server has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSeen {
    pub image: String,
    pub generation: u32,
    /// Seconds since 1970.
    pub made: u64,
    pub current: bool,
    /// The server whose root is edited.
    pub lead: String,
}

/// The progress that a boot server knows.
pub fn status(server: std::net::SocketAddr) -> Result<crate::stage::Board, String> {
    server_status(server).map(|s| s.board)
}

/// All that a boot server says of itself.
pub fn server_status(server: std::net::SocketAddr) -> Result<ServerStatus, String> {
    let answer = minreq::get(format!("http://{server}/status"))
        .with_timeout(SHORT_S)
        .send()
        .map_err(|e| e.to_string())?;
    serde_json::from_slice(answer.as_bytes()).map_err(|e| e.to_string())
}
