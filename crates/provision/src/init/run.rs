//! The steps of the initramfs, in their order.

use super::http::Servers;
use super::order::{Order, read_order};
use super::{card, drivers, files, root, switch};
use crate::stage::Step;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};
use rustix::time::{ClockId, Timespec, clock_settime};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// How long a message stays on the screen before the machine starts again.
const READ: Duration = Duration::from_secs(30);

/// Process 1 in the initramfs. Never returns: it becomes systemd, or the machine starts again.
pub fn main() -> ! {
    let (what, told) = match prepare() {
        Err(e) => (e, None),
        Ok(order) => {
            let servers = Servers::new(&order);
            let (step, e) = start(&order, &servers);
            (e, Some((servers, step)))
        }
    };
    println!("armento: {what}");
    println!("armento: this machine starts again in {} s", READ.as_secs());
    if let Some((servers, step)) = told {
        servers.tell(step, Some(&what));
    }
    sleep(READ);
    let _ = reboot(RebootCommand::Restart);
    // KERNEL: reboot(2) does not return; a kernel that lacks it keeps this process.
    loop {
        sleep(READ);
    }
}

/// The kernel's file systems, and what the boot server wants.
fn prepare() -> Result<Order, String> {
    let kernel = [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")];
    for (kind, at) in kernel {
        mount(kind, at, kind, MountFlags::NOSUID, c"").map_err(|e| format!("{at}: {e}"))?;
    }
    let line = fs::read_to_string("/proc/cmdline").map_err(|e| format!("/proc/cmdline: {e}"))?;
    read_order(&line)
        .map_err(|e| format!("the boot server's words on the kernel's command line: {e}"))
}

/// All steps. Returns only what went wrong, and after which step.
fn start(order: &Order, servers: &Servers) -> (Step, String) {
    println!(
        "armento: {} boots {}@{}",
        order.node, order.image, order.generation
    );
    for failed in drivers::load() {
        println!("armento: driver {failed}");
    }
    if let Err(e) = card::set_up(order) {
        return (Step::Initrd, e);
    }
    servers.tell(Step::Network, None);
    set_clock(servers);
    if let Err(e) = root::mount_root(order, servers) {
        return (Step::Network, e);
    }
    servers.tell(Step::Root, None);
    let files = files::write_node_files(order, servers);
    if let Err(e) = files.and_then(|()| files::write_node_orders(order, servers)) {
        return (Step::Root, e);
    }
    (Step::Root, switch::switch())
}

/// Sets the clock by the boot server's: certificates need the day, moves of programs some milliseconds.
fn set_clock(servers: &Servers) {
    let Some(now) = servers.time_ns() else {
        println!("armento: no boot server tells the time");
        return;
    };
    let (seconds, rest) = (now / 1_000_000_000, now % 1_000_000_000);
    let time = Timespec {
        tv_sec: i64::try_from(seconds).unwrap_or_default(),
        tv_nsec: i64::try_from(rest).unwrap_or_default(),
    };
    if let Err(e) = clock_settime(ClockId::Realtime, time) {
        println!("armento: the clock cannot be set: {e}");
    }
}
