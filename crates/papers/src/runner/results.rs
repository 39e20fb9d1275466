//! What was measured, in a file for each experiment.

use super::setting::Setting;
use crate::chapter::Mean;
use crate::formula::Values;
use anyhow::{Context, Result, bail};
use armento_lab::{Facts, Traffic};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Changes when a field changes its meaning or is removed.
pub const SCHEMA: &str = "armento.paper/1";
/// Largest file that is read: samples twice a second of an hour are far below.
const BYTES_MAX: u64 = 256 << 20;

/// Means of measured values by name.
pub type Means = BTreeMap<String, Mean>;

/// The program that measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    pub version: String,
    /// XXH3 of the executable: two builds of one version differ.
    pub hash: String,
}

impl Build {
    /// Of the running program.
    pub fn here() -> Build {
        let program = std::env::current_exe().and_then(fs::read);
        let hash = program.map_or(0, |bytes| xxhash_rust::xxh3::xxh3_64(&bytes));
        Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hash: format!("{hash:016x}"),
        }
    }
}

/// One run that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    pub run: String,
    /// From 0.
    pub repeat: u32,
    pub seed: u64,
    /// When it began, RFC 3339.
    pub at: String,
    pub took_s: f64,
    pub values: Values,
    pub raw: Value,
    /// Bytes through each interface of each node, from the start of the lab to the end of the run.
    pub traffic: Vec<Traffic>,
}

/// A run whose sample was discarded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Discarded {
    pub run: String,
    pub repeat: u32,
    pub at: String,
    pub why: String,
}

/// All that is known of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    pub schema: String,
    pub experiment: String,
    pub build: Build,
    pub setting: Setting,
    pub repeats: u32,
    pub machine: Facts,
    /// What all runs share.
    pub setup: Value,
    pub samples: Vec<Sample>,
    pub discarded: Vec<Discarded>,
    /// All runs were measured.
    pub complete: bool,
}

/// Where results are kept unless the user says otherwise: $XDG_DATA_HOME/armento/papers, by default below ~/.local/share
/// (XDG Base Directory Specification 0.8).
pub fn folder(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let var = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let data = var("XDG_DATA_HOME").filter(|d| d.is_absolute());
    let data = data.or_else(|| Some(var("HOME")?.join(".local/share")));
    let data = data.context(
        "neither HOME nor XDG_DATA_HOME is set\nhint: say where results are kept with --data DIR",
    )?;
    Ok(data.join("armento/papers"))
}

/// The file of an experiment.
pub fn path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

impl Results {
    /// The results of an experiment; none where it was never run.
    pub fn load(folder: &Path, id: &str) -> Result<Option<Results>> {
        let path = path(folder, id);
        let hint = format!("hint: run it anew: armento paper run {id}");
        let file = match fs::metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.with_context(|| format!("{} cannot be read", path.display()))?,
        };
        if file.len() > BYTES_MAX {
            bail!(
                "{}: larger than {} MiB\n{hint}",
                path.display(),
                BYTES_MAX >> 20
            );
        }
        let text = fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let schema = serde_json::from_slice::<Value>(&text).ok();
        let schema = schema.and_then(|v| v["schema"].as_str().map(str::to_owned));
        if let Some(schema) = schema.filter(|s| s != SCHEMA) {
            bail!(
                "{}: of the form {schema}, this program knows {SCHEMA}\n{hint}",
                path.display()
            );
        }
        match serde_json::from_slice::<Results>(&text) {
            Ok(results) if results.experiment == id => Ok(Some(results)),
            Ok(results) => bail!(
                "{}: of the experiment {}\n{hint}",
                path.display(),
                results.experiment
            ),
            Err(e) => bail!("{}: damaged: {e}\n{hint}", path.display()),
        }
    }

    /// Readers see the old file or the new one, never half of it.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = path(folder, &self.experiment);
        let fresh = path.with_extension("json.new");
        let text = serde_json::to_vec_pretty(self)?;
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&fresh, text))
            .and_then(|()| fs::rename(&fresh, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Whether this run was measured.
    pub fn has(&self, run: &str, repeat: u32) -> bool {
        self.samples
            .iter()
            .any(|s| s.run == run && s.repeat == repeat)
    }

    /// Means by name.
    pub fn means(&self) -> Means {
        let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (name, value) in self.samples.iter().flat_map(|s| &s.values.0) {
            all.entry(name).or_default().push(*value);
        }
        let mean = |(name, values): (&str, Vec<f64>)| Some((name.to_owned(), Mean::of(&values)?));
        all.into_iter().filter_map(mean).collect()
    }

    /// Means alone.
    pub fn values(&self) -> Values {
        Values(self.means().into_iter().map(|(n, m)| (n, m.mean)).collect())
    }
}
