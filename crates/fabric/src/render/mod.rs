//! Plans as files of the systems that set up networks, and the farm as files of its programs. Pure; each file one purpose.
//! Start at [`node_files`] and [`farm_files`].

mod dnsmasq;
mod file;
mod hostfiles;
mod hosts;
mod ifupdown;
mod ip;
mod ipxe;
mod netplan;
mod networkd;
mod node;
mod openmosix_map;

pub use dnsmasq::{BootService, Dhcp, dnsmasq};
pub use file::{Backend, File, MARK};
pub use hostfiles::{Form, hostfile, mpd_hosts};
pub use hosts::hosts;
pub use ip::{add_address, add_link, batch, route_words};
pub use ipxe::ipxe;
pub use node::node_files;
pub use openmosix_map::{ENTRIES_MAX as OPENMOSIX_ENTRIES_MAX, openmosix_map};
