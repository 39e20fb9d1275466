//! The control socket: where commands, keepers and hosts of this node connect.
//!
//! Next: `noded/src/control/session.rs`.

use super::session::session;
use crate::error::FarmError;
use crate::state::Node;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;

/// Sessions at once: a keeper a tree, a host a tree, and commands.
const SESSIONS_MAX: usize = 16_384;

/// Takes the socket's place. Before: this daemon holds the state directory's lock.
pub fn bind(path: &Path) -> Result<UnixListener, FarmError> {
    let fails = |e: std::io::Error| {
        FarmError::Listen {
        addr: path.display().to_string(),
        cause: e.to_string(),
        hint: "choose another socket with `socket =` or ARMENTO_SOCKET; its folder must be this user's to write".into(),
    }
    };
    if let Some(dir) = path.parent().filter(|dir| !dir.exists()) {
        fs::create_dir_all(dir).map_err(fails)?;
        // Whatever our umask: every user must reach the socket.
        fs::set_permissions(dir, Permissions::from_mode(0o755)).map_err(fails)?;
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        let busy = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        return Err(fails(busy));
    }
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(fails(e)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(fails)?;
    // Every user may ask; the peer's credentials decide what is answered.
    fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(fails)?;
    Ok(listener)
}

pub async fn serve(node: Arc<Node>, listener: UnixListener) {
    let room = Arc::new(Semaphore::new(SESSIONS_MAX));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(place) = room.clone().try_acquire_owned() else {
                    tracing::warn!("too many control sessions; one was dropped");
                    continue;
                };
                let node = node.clone();
                tokio::spawn(async move {
                    session(node, stream).await;
                    drop(place);
                });
            }
            Err(e) => {
                tracing::warn!("control socket: {e}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
