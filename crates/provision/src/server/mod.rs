//! The boot server: dnsmasq is kept running, scripts, images and each node's own files are given out by HTTP, and progress
//! is collected. Every boot server gives the same answers, since they come from the inventory and the images alone.
//!
//! It holds no key of the farm: its caller makes tokens, and serves NFS. Start at [`Server`].

mod dnsmasq;
mod http;
mod listen;
mod node_files;
mod orders;
mod serve;
mod state;

pub use dnsmasq::configuration;
pub use node_files::{machine_id, node_files, node_tar};
pub use orders::{Answer, order, script};
pub use serve::{Hooks, Server};

/// Fills a secret.
pub fn random(secret: &mut [u8]) -> std::io::Result<()> {
    use ring::rand::SecureRandom as _;
    let filled = ring::rand::SystemRandom::new().fill(secret);
    filled.map_err(|_| std::io::Error::other("the kernel gives no random bytes"))
}
