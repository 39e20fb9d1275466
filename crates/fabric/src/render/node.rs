//! All files of a node for one back end.

use super::file::{Backend, File, MARK};
use super::ip::batch;
use super::{ifupdown, netplan, networkd};
use crate::plan::{Device, NodePlan};

/// The files of one node for one back end. Names of cards and kernel settings are the same files for all of them, but for
/// netplan, which names cards itself.
pub fn node_files(plan: &NodePlan, backend: Backend) -> Vec<File> {
    let mut files = match backend {
        Backend::Ifupdown => vec![ifupdown::file(plan)],
        Backend::Netplan => vec![netplan::file(plan)],
        Backend::Networkd => networkd::files(plan),
        Backend::Ip => ip_files(plan),
    };
    if backend != Backend::Netplan {
        files.extend(names(plan));
    }
    files.extend(sysctls(plan));
    files
}

/// The commands, and the unit that runs them: `systemctl enable armento-fabric` once.
fn ip_files(plan: &NodePlan) -> Vec<File> {
    let unit = "[Unit]\nDescription=Network of the farm's inventory\nDefaultDependencies=no\nWants=network.target\n\
                After=systemd-udevd.service systemd-udev-settle.service\nWants=systemd-udev-settle.service\n\
                Before=network.target\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
                ExecStart=/usr/sbin/ip -force -batch /etc/armento/fabric.batch\n\n[Install]\nWantedBy=multi-user.target\n";
    let file = |path: &str, text: String| File {
        path: path.into(),
        text: format!("{MARK}\n{text}"),
        mode: 0o644,
    };
    vec![
        file("/etc/armento/fabric.batch", batch(plan)),
        file("/etc/systemd/system/armento-fabric.service", unit.into()),
    ]
}

/// One systemd.link(5) file a card, by its permanent address: kernel names change with slots and kernels.
fn names(plan: &NodePlan) -> Vec<File> {
    let link = |name: &str, mac: &crate::addr::Mac| File {
        path: format!("/etc/systemd/network/10-armento-{name}.link"),
        text: format!(
            "{MARK}\n[Match]\nPermanentMACAddress={mac}\n\n[Link]\nNamePolicy=\nName={name}\n"
        ),
        mode: 0o644,
    };
    let named = plan.links.iter().filter_map(|l| match &l.device {
        Device::Nic { mac: Some(mac), .. } => Some(link(&l.name, mac)),
        _ => None,
    });
    named.collect()
}

fn sysctls(plan: &NodePlan) -> Option<File> {
    let lines: String = plan
        .sysctls
        .iter()
        .map(|(k, v)| format!("{k} = {v}\n"))
        .collect();
    (!lines.is_empty()).then(|| File {
        path: "/etc/sysctl.d/60-armento-fabric.conf".into(),
        text: format!("{MARK}\n{lines}"),
        mode: 0o644,
    })
}
