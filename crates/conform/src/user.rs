//! The user that guests run as, and the programs it finds.

use std::path::Path;

/// The ordinary user a guest runs as when the harness is root; not in /etc/passwd.
pub const USER: u32 = 4242;
/// Of the user; Go's own archives install below /usr/local/go.
pub const PATH: &str =
    "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin";

/// The first missing program's package.
pub fn missing(needs: &'static [(&'static str, &'static str)]) -> Option<&'static str> {
    let there = |program: &str| {
        PATH.split(':')
            .any(|dir| Path::new(dir).join(program).exists())
    };
    needs
        .iter()
        .find(|(program, _)| !there(program))
        .map(|&(_, package)| package)
}
