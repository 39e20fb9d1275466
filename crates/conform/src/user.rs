//! The user as which guests run, and that user's PATH.

use std::path::Path;

/// The ordinary user as which a guest runs if the harness is root; not in /etc/passwd.
pub const USER: u32 = 4242;
/// PATH of that user; Go's own archives install below /usr/local/go.
pub const PATH: &str =
    "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin";

/// The package of the first missing program.
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
