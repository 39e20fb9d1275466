//! Mounts the root: over NFS or in memory, below an overlay that takes the node's changes.

use super::http::Servers;
use super::order::{Order, RootKind};
use super::relay::RELAY;
use super::sys;
use ring::digest::{Context, SHA256};
use rustix::mount::{MountFlags, mount, mount_bind};
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where the new root is mounted.
pub const NEW: &str = "/newroot";
const LOWER: &str = "/lower";
const MEMORY: &str = "/memory";
const PERSISTENT: &str = "/persistent";
/// Of the relay, on the loopback interface: free before any service starts.
const RELAY_PORT: u16 = 909;
const RELAY_UP: Duration = Duration::from_secs(5);
/// Attempts to mount from a boot server that starts at the same time as its nodes.
const MOUNTS: u32 = 10;
const AGAIN: Duration = Duration::from_secs(3);

/// Mounts everything at [`NEW`].
pub fn mount_root(order: &Order, servers: &Servers) -> Result<(), String> {
    for dir in [LOWER, MEMORY, PERSISTENT, NEW] {
        fs::create_dir_all(dir).map_err(|e| format!("{dir}: {e}"))?;
    }
    if order.root == RootKind::Live || !order.persist.is_empty() {
        start_relay(order)?;
    }
    mounted("tmpfs", "memory", MEMORY, MountFlags::empty(), "mode=0755")?;
    match order.root {
        RootKind::Live => {
            let path = format!("/image/{}/{}", order.image, order.generation);
            nfs(&path, LOWER, MountFlags::RDONLY)?;
        }
        RootKind::Ram => in_memory(order, servers)?,
    }
    for dir in ["upper", "work"] {
        let dir = format!("{MEMORY}/{dir}");
        fs::create_dir(&dir).map_err(|e| format!("{dir}: {e}"))?;
    }
    let layers = format!("lowerdir={LOWER},upperdir={MEMORY}/upper,workdir={MEMORY}/work");
    mounted("overlay", "root", NEW, MountFlags::empty(), &layers)?;
    if !order.persist.is_empty() {
        nfs("/persistent", PERSISTENT, MountFlags::empty())?;
        for path in &order.persist {
            persist(path)?;
        }
    }
    Ok(())
}

fn mounted(kind: &str, what: &str, at: &str, flags: MountFlags, data: &str) -> Result<(), String> {
    let data = CString::new(data).map_err(|e| e.to_string())?;
    mount(what, at, kind, flags, data.as_c_str())
        .map_err(|e| format!("mounting {what} ({kind}) at {at}: {e}"))
}

fn start_relay(order: &Order) -> Result<(), String> {
    let servers = order
        .servers
        .iter()
        .map(|s| format!("{}:{}", s.http.ip(), s.nfs));
    Command::new("/init")
        .arg0("@armento")
        .arg(RELAY)
        .arg(RELAY_PORT.to_string())
        .args(servers)
        .spawn()
        .map_err(|e| format!("the NFS relay: {e}"))?;
    let until = Instant::now() + RELAY_UP;
    while !listens() {
        if Instant::now() > until {
            return Err("the NFS relay does not listen".into());
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Whether the relay has its port. It would close a connection of this process.
fn listens() -> bool {
    std::net::TcpStream::connect(("127.0.0.1", RELAY_PORT)).is_ok()
}

/// KERNEL: nfs(5): for so many seconds attributes are believed, so that edits of the root are seen soon. Without `mount.nfs`, which would ask rpcbind and rpc.statd, the kernel itself asks for the handle of the
/// root.
fn nfs(path: &str, at: &str, flags: MountFlags) -> Result<(), String> {
    let data = format!(
        "vers=3,proto=tcp,addr=127.0.0.1,port={RELAY_PORT},mountproto=tcp,mountvers=3,mountport={RELAY_PORT},\
         nolock,hard,actimeo=2"
    );
    let mut why = String::new();
    for attempt in 0..MOUNTS {
        if attempt > 0 {
            sleep(AGAIN);
        }
        match mounted("nfs", &format!("127.0.0.1:{path}"), at, flags, &data) {
            Ok(()) => return Ok(()),
            Err(e) => why = e,
        }
    }
    Err(format!("no boot server lets this node mount {path}: {why}"))
}

fn in_memory(order: &Order, servers: &Servers) -> Result<(), String> {
    let path = format!("{MEMORY}/root.erofs");
    let mut out: Option<(File, Context)> = None;
    let url = format!("/image/{}/{}/root.erofs", order.image, order.generation);
    let out = std::cell::RefCell::new(&mut out);
    servers.fetch(
        &url,
        &mut || {
            let file = File::create(&path).map_err(|e| e.to_string())?;
            **out.borrow_mut() = Some((file, Context::new(&SHA256)));
            Ok(())
        },
        &mut |bytes| {
            if let Some((file, sum)) = out.borrow_mut().as_mut() {
                file.write_all(bytes).map_err(|e| {
                    format!("its memory does not hold the image, or cannot be written: {e}")
                })?;
                sum.update(bytes);
            }
            Ok(())
        },
    )?;
    let sum = out.into_inner().take().map(|(_, sum)| sum.finish());
    let sum: String = sum
        .iter()
        .flat_map(|s| s.as_ref())
        .map(|b| format!("{b:02x}"))
        .collect();
    if order.sha256.as_ref().is_some_and(|wanted| *wanted != sum) {
        return Err(format!(
            "the image that came is another one (SHA-256 {sum})"
        ));
    }
    let (device, keep) =
        sys::loop_device(Path::new(&path)).map_err(|e| format!("a loop device: {e}"))?;
    let device = device.display().to_string();
    mounted("erofs", &device, LOWER, MountFlags::RDONLY, "")?;
    drop(keep);
    Ok(())
}

/// A directory of the node that is on its boot server; at first it has what the image has there.
fn persist(path: &str) -> Result<(), String> {
    let below = path.trim_start_matches('/');
    let kept = Path::new(PERSISTENT).join(below);
    let there = Path::new(NEW).join(below);
    let at = |e: std::io::Error| format!("persistent {path}: {e}");
    if !kept.exists() {
        let parent = kept.parent().unwrap_or(Path::new(PERSISTENT));
        fs::create_dir_all(parent).map_err(at)?;
        // Complete or not there: a node that is switched off meanwhile begins again.
        let new = kept.with_added_extension("new");
        let _ = fs::remove_dir_all(&new);
        match there.is_dir() {
            true => copy(&there, &new).map_err(at)?,
            false => fs::create_dir(&new).map_err(at)?,
        }
        fs::rename(&new, &kept).map_err(at)?;
    }
    fs::create_dir_all(&there).map_err(at)?;
    mount_bind(&kept, &there).map_err(|e| format!("persistent {path}: {e}"))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let meta = fs::symlink_metadata(from)?;
    if meta.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if meta.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    } else if meta.is_file() {
        fs::copy(from, to)?;
    } else {
        // Sockets and pipes are made by those that use them.
        return Ok(());
    }
    chown(to, Some(meta.uid()), Some(meta.gid()))?;
    fs::set_permissions(to, Permissions::from_mode(meta.mode() & 0o7777))
}
