//! The file of contexts: `$XDG_CONFIG_HOME/armento/contexts.toml`, else `~/.config/armento/contexts.toml`, readable by its user
//! only: who has a secret controls the processes of that user. Another user's file is none.

use crate::out::Failure;
use armento_fabric::file::replace_with_mode;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Farms that are kept; more are refused.
const CONTEXTS_MAX: usize = 256;
/// Bytes of a name.
const NAME_MAX: usize = 64;

/// A farm, and how its node knows this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub name: String,
    /// Of the node, as it was given: a name is looked up each time.
    pub address: String,
    /// What this machine proves itself with, and the hash of the farm's certificate: the form of a token.
    pub access: String,
    pub farm: String,
    pub node: String,
    pub user: String,
    /// When the node forgets it, seconds of Unix time.
    pub expires: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Store {
    /// The one in use; none: this machine's own daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default, rename = "context")]
    pub contexts: Vec<Context>,
}

fn failure(message: String, hint: &str) -> Failure {
    Failure {
        message,
        hint: hint.into(),
    }
}

fn path() -> Result<PathBuf, Failure> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let dir = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    let dir = dir.ok_or_else(|| {
        failure(
            "neither XDG_CONFIG_HOME nor HOME is set: there is no place for contexts".into(),
            "set HOME",
        )
    })?;
    Ok(dir.join("armento/contexts.toml"))
}

impl Store {
    /// Without a file there are none.
    pub fn load() -> Result<Store, Failure> {
        match path() {
            Ok(path) => Store::load_from(&path),
            // Daemons and scripts without a home have no contexts.
            Err(_) => Ok(Store::default()),
        }
    }

    fn load_from(path: &Path) -> Result<Store, Failure> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            // Another user's home, as in `setpriv --reuid` without a new HOME, has no contexts of this one.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                return Ok(Store::default());
            }
            Err(e) => {
                let what = format!("{} cannot be read: {e}", path.display());
                return Err(failure(
                    what,
                    "or use no context: ARMENTO_CONTEXT= armento …",
                ));
            }
        };
        let file = fs::metadata(path).ok();
        if file.as_ref().is_some_and(|m| m.uid() != crate::sys::uid()) {
            return Ok(Store::default());
        }
        if file.is_some_and(|m| m.mode() & 0o077 != 0) {
            let what = format!(
                "{} can be read by others: its secrets are not used",
                path.display()
            );
            return Err(failure(
                what,
                "chmod 600 it; make new tokens if others may have read it",
            ));
        }
        toml::from_str(&text).map_err(|e| {
            let what = format!("{} is damaged: {}", path.display(), e.message());
            failure(
                what,
                "mend or remove that file; `armento context add` makes it again",
            )
        })
    }

    pub fn save(&self) -> Result<(), Failure> {
        self.save_to(&path()?)
    }

    /// Whole or not at all.
    fn save_to(&self, path: &Path) -> Result<(), Failure> {
        let bad = |e: std::io::Error| {
            let what = format!(
                "{} cannot be written: {e}; nothing was changed",
                path.display()
            );
            failure(what, "is there room, and is the directory yours?")
        };
        let text = toml::to_string(self).map_err(|e| bad(std::io::Error::other(e)))?;
        let dir = path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(bad)?;
        replace_with_mode(path, text.as_bytes(), 0o600).map_err(bad)
    }

    pub fn get(&self, name: &str) -> Result<&Context, Failure> {
        self.contexts
            .iter()
            .find(|c| c.name == name)
            .ok_or_else(|| {
                failure(
                    format!("no farm is kept as {name}"),
                    "`armento context list` shows those that are",
                )
            })
    }

    /// Whether a farm can be kept under this name.
    pub fn check_new(&self, name: &str, replace: bool) -> Result<(), Failure> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) {
            let what = format!(
                "a name has 1 to {NAME_MAX} letters, digits, '-', '_' and '.'; nothing was changed"
            );
            return Err(failure(what, "choose another"));
        }
        let known = self.contexts.iter().any(|c| c.name == name);
        if known && !replace {
            let what = format!("a farm is kept as {name} already; nothing was changed");
            return Err(failure(what, "choose another name, or --replace it"));
        }
        if !known && self.contexts.len() >= CONTEXTS_MAX {
            let what = format!("{CONTEXTS_MAX} farms are kept already; nothing was changed");
            return Err(failure(what, "`armento context remove` forgets one"));
        }
        Ok(())
    }

    /// Keeps it, and uses it.
    pub fn put(&mut self, context: Context) {
        self.contexts.retain(|c| c.name != context.name);
        self.current = Some(context.name.clone());
        self.contexts.push(context);
        self.contexts.sort_by(|a, b| a.name.cmp(&b.name));
    }

    pub fn drop(&mut self, name: &str) {
        self.contexts.retain(|c| c.name != name);
        if self.current.as_deref() == Some(name) {
            self.current = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn context(name: &str) -> Context {
        Context {
            name: name.into(),
            address: "n1".into(),
            access: format!("armento1K{}::c0:feed", "ab".repeat(32)),
            farm: "armento-1a2b".into(),
            node: "n1".into(),
            user: "alice".into(),
            expires: 1,
        }
    }

    #[test]
    fn farms_are_kept_privately_and_forgotten() {
        let dir = std::env::temp_dir().join(format!("armento-contexts-{}", std::process::id()));
        let path = dir.join("sub/contexts.toml");
        assert!(Store::load_from(&path).expect("none").contexts.is_empty());
        let mut store = Store::default();
        store.check_new("naples", false).expect("a new name");
        store.put(context("naples"));
        store.put(context("lab"));
        store.save_to(&path).expect("saved");
        let mut again = Store::load_from(&path).expect("read");
        assert_eq!(again.current.as_deref(), Some("lab"));
        assert_eq!(again.get("naples").expect("kept"), &context("naples"));
        assert!(again.check_new("lab", false).is_err() && again.check_new("lab", true).is_ok());
        for bad in ["", "a b", "../x", &"x".repeat(65)] {
            assert!(again.check_new(bad, false).is_err(), "{bad}");
        }
        again.drop("lab");
        assert_eq!((again.current.as_deref(), again.contexts.len()), (None, 1));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("mode");
        let refused = Store::load_from(&path).expect_err("others may read it");
        assert!(refused.message.contains("by others"), "{}", refused.message);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("mode");
        fs::write(&path, "current = 7").expect("damaged");
        assert!(
            Store::load_from(&path)
                .expect_err("damaged")
                .message
                .contains("damaged")
        );
        fs::remove_dir_all(&dir).expect("removed");
    }
}
