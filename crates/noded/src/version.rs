//! The version of this daemon.

use armento_client::version;

/// What `nodes`, `status` and joins say.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// … which tests must be able to tell from a version to come.
pub fn shown_version() -> String {
    match version::is_to_come() {
        true => format!("{VERSION}-control{}", version::spoken()),
        false => VERSION.into(),
    }
}
