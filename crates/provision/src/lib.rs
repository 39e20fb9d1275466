//! What nodes without a disk start from: images and their generations, the initramfs, the boot server, progress of each
//! machine, and which file of a shared root a node sees.
//!
//! ```text
//! firmware ─ DHCP, TFTP ─► dnsmasq      gives an address and iPXE
//! iPXE ───── HTTP ───────► server       gives script, kernel, initramfs
//! init ───── HTTP, NFS ──► server, nfs  gives root, the node's own files, a token; hears how far it got
//! ```
//! `view` and `stage` are pure; `follow` keeps the images of several boot servers equal. It decides nothing about running processes, and holds no key of the farm. Start at
//! [`server::serve`] for the server, at [`init::main`] for the node, at [`image::Store`] for images.

pub mod follow;
pub mod image;
pub mod init;
pub mod initrd;
pub mod layout;
pub mod problem;
pub mod server;

pub mod stage;
pub mod view;
