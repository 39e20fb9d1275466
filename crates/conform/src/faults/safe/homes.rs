//! A home is lost whose program another node keeps a checkpoint of (`--safe=remote`): it goes on there, once.
//!
//! From: `life.rs`. The program keeps its files open: `armento farm recover` puts them back to what they held.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use crate::faults::farm::Farm;
use crate::faults::plan::NodeFault;
use crate::faults::safe::programs::Known;

/// The node whose programs lose it, and the one that keeps their checkpoints: the first one by name.
pub const LOST: usize = 2;
pub const KEEPER: usize = 0;
/// Longer than a lease (10 s), `dead_ms`, and what a full machine adds.
const GONE_MS: u64 = 40_000;
const KEPT_MAX: Duration = Duration::from_secs(60);
const END_MAX: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);

/// How a home is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Loss {
    /// Its power; else its network.
    pub power: bool,
    /// How long after the first checkpoint has come.
    pub after_ms: u64,
}

pub enum Recovery {
    Recovered,
    /// The home was back before.
    Late,
}

pub struct Home<'a> {
    pub farm: &'a Farm,
    pub known: &'a Known,
    pub number: u64,
    pub tree: String,
}

impl Home<'_> {
    fn file(&self, node: usize, name: &str) -> PathBuf {
        self.farm
            .path(node, &format!("/tmp/lives/{}/w/{name}", self.number))
    }

    /// What is kept of the program, as the node that keeps it says.
    fn kept(&self) -> Option<Value> {
        let out = self
            .farm
            .shell(KEEPER, "armento farm recover --list --json")
            .output()
            .ok()?;
        let doc: Value = serde_json::from_slice(&out.stdout).ok()?;
        let mut all = doc["kept"].as_array()?.iter();
        let id = self.id();
        all.find(|k| k["id"].as_str() == Some(&id)).cloned()
    }

    fn id(&self) -> String {
        format!("n{}-{}", LOST + 1, self.tree)
    }

    /// Waits until it is kept; false: it is not kept in time, or by another node, whose daemon alone had answered.
    pub fn is_kept(&self) -> bool {
        let mut at = None;
        let kept = until(KEPT_MAX, || {
            let kept = self.kept().filter(|k| k["bytes"].as_u64() > Some(0));
            at = kept
                .as_ref()
                .and_then(|k| k["node"].as_str().map(str::to_owned));
            kept.is_some()
        });
        kept && at == Some(format!("n{}", KEEPER + 1))
    }

    /// Loses the home, and recovers the program. What came of it; or what is wrong. After: the home is back.
    pub fn lose(&self, loss: Loss) -> Result<Result<Recovery, String>> {
        std::thread::sleep(Duration::from_millis(loss.after_ms));
        let fault = match loss.power {
            true => NodeFault::Off { ms: GONE_MS },
            false => NodeFault::Cut { ms: GONE_MS },
        };
        std::thread::scope(|s| {
            let gone = s.spawn(move || self.farm.apply(LOST, fault));
            let limit = Duration::from_millis(GONE_MS);
            let can = || self.kept().is_some_and(|k| k["refused"].is_null());
            let recovered = until(limit, || can() || gone.is_finished()) && !gone.is_finished();
            let verdict = match recovered {
                true => self.recover(),
                false => Ok(Recovery::Late),
            };
            match gone.join() {
                Ok(done) => done?,
                Err(_) => anyhow::bail!("a thread of the campaign panicked"),
            }
            Ok(verdict)
        })
    }

    fn recover(&self) -> Result<Recovery, String> {
        let before = self.written(LOST);
        let recover = format!(
            "armento farm recover {} --output /tmp/lives/{}/recovered",
            self.id(),
            self.number
        );
        let out = self
            .farm
            .shell(KEEPER, &recover)
            .output()
            .map_err(|e| e.to_string())?;
        if !out.status.success() {
            return Err(format!(
                "it could not be recovered: {}",
                String::from_utf8_lossy(&out.stderr).trim()
            ));
        }
        let out = || {
            let path = self
                .farm
                .path(KEEPER, &format!("/tmp/lives/{}/out", self.number));
            fs::read(path).unwrap_or_default()
        };
        let native_out = self.known.files.get("../out").cloned().unwrap_or_default();
        if !until(END_MAX, || out().len() >= native_out.len()) {
            return Err(format!(
                "where it was recovered it has not ended; its output: {} bytes",
                out().len()
            ));
        }
        let native = self.known.files.get("wrote").cloned().unwrap_or_default();
        let right = || out() == native_out && self.written(KEEPER) == native;
        if !until(Duration::from_secs(5), right) {
            return Err("where it was recovered it has left other files than natively".into());
        }
        let now = self.written(LOST);
        if now != before {
            return Err(format!(
                "its old home has written {} bytes after it was recovered",
                now.len().saturating_sub(before.len())
            ));
        }
        if !native.starts_with(&now) {
            return Err("its old home has written what it does not write natively".into());
        }
        Ok(Recovery::Recovered)
    }

    fn written(&self, node: usize) -> Vec<u8> {
        fs::read(self.file(node, "wrote")).unwrap_or_default()
    }
}

fn until(limit: Duration, mut is: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if is() {
            return true;
        }
        std::thread::sleep(LOOK);
    }
    false
}
