//! Where the launcher and its socket are, outside and in nodes.

use crate::spec::Plan;
use crate::state::Dir;
use crate::sys::{MS_BIND, mount};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The server's socket in every node.
pub const NODE_SOCKET: &str = "/run/armento-rsh";
/// The launcher in one word, in every node.
const LAUNCHER: &str = "usr/local/bin/armento-rsh";

/// The socket of a lab, for its owner.
pub fn socket_of(dir: &Dir) -> PathBuf {
    dir.0.join("rsh").join("socket")
}

/// Makes the server's socket and the launcher visible below `root`, the future root of a node.
pub fn install(plan: &Plan, root: &Path) -> Result<()> {
    let at = root.join(NODE_SOCKET.trim_start_matches('/'));
    fs::File::create(&at).with_context(|| format!("cannot make {NODE_SOCKET}"))?;
    mount(&socket_of(&Dir::of(&plan.name)?), &at, "", MS_BIND, "")
        .with_context(|| format!("cannot bind {NODE_SOCKET}"))?;
    let launcher = root.join(LAUNCHER);
    let _ = fs::remove_file(&launcher);
    fs::write(
        &launcher,
        "#!/bin/sh\nexec armento lab-init launch \"$@\"\n",
    )
    .and_then(|()| fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)))
    .with_context(|| format!("cannot write /{LAUNCHER}"))
}
