//! What the boot server of this node shows to those of other nodes (`cli/src/boot/copies.rs`).

use crate::config::{Config, Wire};
use crate::error::FarmError;
use crate::revocation::Revocation;
use crate::state_dir::StateDir;
use armento_link::{Badge, Identity};
use armento_model::NodeName;
use std::time::Duration;

/// It is made anew for each stream.
const LIFE: Duration = Duration::from_secs(3600);

/// The name of this node, and an identity of its boot server with the list of removed nodes. None: the farm has no keys
/// (`wire = "plain"`).
pub fn boot_identity(config: &Config) -> Result<Option<(NodeName, Identity)>, FarmError> {
    let dir = StateDir::new(config.state_dir());
    let farm = dir.farm()?;
    if farm.wire == Wire::Plain {
        return Ok(None);
    }
    let keys = dir.keys(&farm)?;
    let (revocation, _) = Revocation::read(&dir, &farm, &keys)?;
    let identity = keys
        .sign_short(&Badge::boot(&farm.node), LIFE)
        .map_err(FarmError::Keys)?;
    Ok(Some((farm.node, identity.with_removed(revocation.crl_pem))))
}
