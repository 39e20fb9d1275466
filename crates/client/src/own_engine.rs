//! The engine version that this process has.

use armento_model::ENGINE_VERSION;
use std::sync::OnceLock;

/// The engine's version. Tests set another one: that process acts as if its program had it.
pub fn engine() -> u32 {
    static ENGINE: OnceLock<u32> = OnceLock::new();
    let other = || std::env::var("ARMENTO_ENGINE_VERSION").ok()?.parse().ok();
    *ENGINE.get_or_init(|| other().unwrap_or(ENGINE_VERSION))
}
