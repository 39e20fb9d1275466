//! What the boot server says to the initramfs: words of the kernel's command line. Pure.

use armento_fabric::addr::Mac;
use ipnet::Ipv4Net;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Where the root comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// NFS, below an overlay in memory.
    Live,
    /// The whole image in memory.
    Ram,
}

/// A boot server as a node reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    pub http: SocketAddrV4,
    pub nfs: u16,
}

/// All that the initramfs is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub node: String,
    /// The card of the boot net.
    pub mac: Mac,
    /// What the card is called from now on.
    pub link: String,
    pub address: Ipv4Net,
    pub gateway: Option<Ipv4Addr>,
    /// The first is the one that gave this.
    pub servers: Vec<ServerAddress>,
    pub root: RootKind,
    pub image: String,
    pub generation: u32,
    /// SHA-256 of the image's file; none for a live root.
    pub sha256: Option<String>,
    /// Directories that outlive a restart.
    pub persist: Vec<String>,
}

/// Boot servers that a node knows: more would not fit into the kernel's line. KERNEL: COMMAND_LINE_SIZE, 2048 on x86.
const SERVERS_MAX: usize = 8;
/// Bytes of the words together.
const WORDS_MAX: usize = 1500;

/// The words for a node; none if they would not fit.
pub fn command_line(order: &Order) -> Option<String> {
    let mut text = format!(
        "armento.node={} armento.mac={} armento.link={} armento.ip={}",
        order.node, order.mac, order.link, order.address
    );
    if let Some(gateway) = order.gateway {
        let _ = write!(text, " armento.gateway={gateway}");
    }
    let servers: Vec<String> = order
        .servers
        .iter()
        .take(SERVERS_MAX)
        .map(|s| format!("{}:{}", s.http, s.nfs))
        .collect();
    let kind = match order.root {
        RootKind::Live => "live",
        RootKind::Ram => "ram",
    };
    let _ = write!(
        text,
        " armento.servers={} armento.root={kind} armento.image={}@{}",
        servers.join(","),
        order.image,
        order.generation
    );
    if let Some(sha256) = &order.sha256 {
        let _ = write!(text, " armento.sha256={sha256}");
    }
    if !order.persist.is_empty() {
        let _ = write!(text, " armento.persist={}", order.persist.join(","));
    }
    (text.len() <= WORDS_MAX).then_some(text)
}

/// Reads the kernel's command line. Errors: which word is missing or wrong.
pub fn read_order(line: &str) -> Result<Order, String> {
    let find = |key: &str| {
        let mut words = line.split_whitespace();
        words.find_map(|w| {
            w.strip_prefix("armento.")?
                .strip_prefix(key)?
                .strip_prefix('=')
        })
    };
    let must = |key: &str| find(key).ok_or_else(|| format!("armento.{key} is missing"));
    let wrong = |key: &str, text: &str| format!("armento.{key}={text} cannot be understood");
    let parsed = |key: &'static str| must(key).map(|text| (key, text));
    let (_, node) = parsed("node")?;
    let (key, mac) = parsed("mac")?;
    let mac = mac.parse().map_err(|_| wrong(key, mac))?;
    let (key, address) = parsed("ip")?;
    let address = address.parse().map_err(|_| wrong(key, address))?;
    let gateway = find("gateway").map(|g| g.parse().map_err(|_| wrong("gateway", g)));
    let (key, text) = parsed("servers")?;
    let servers: Option<Vec<ServerAddress>> = text.split(',').map(server).collect();
    let servers = servers.filter(|s| !s.is_empty() && s.len() <= SERVERS_MAX);
    let servers = servers.ok_or_else(|| wrong(key, text))?;
    let (key, text) = parsed("root")?;
    let root = match text {
        "live" => RootKind::Live,
        "ram" => RootKind::Ram,
        _ => return Err(wrong(key, text)),
    };
    let (key, text) = parsed("image")?;
    let (image, generation) = text.split_once('@').ok_or_else(|| wrong(key, text))?;
    let persist =
        find("persist").map_or_else(Vec::new, |all| all.split(',').map(str::to_owned).collect());
    Ok(Order {
        node: node.to_owned(),
        mac,
        link: must("link")?.to_owned(),
        address,
        gateway: gateway.transpose()?,
        servers,
        root,
        image: image.to_owned(),
        generation: generation.parse().map_err(|_| wrong(key, text))?,
        sha256: find("sha256").map(str::to_owned),
        persist,
    })
}

fn server(text: &str) -> Option<ServerAddress> {
    let (http, nfs) = text.rsplit_once(':')?;
    Some(ServerAddress {
        http: http.parse().ok()?,
        nfs: nfs.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order {
            node: "n2".into(),
            mac: "52:54:00:09:09:02".parse().expect("mac"),
            link: "lan0".into(),
            address: "10.9.9.2/24".parse().expect("address"),
            gateway: Some("10.9.9.254".parse().expect("gateway")),
            servers: vec![
                ServerAddress {
                    http: "10.9.9.1:8117".parse().expect("server"),
                    nfs: 9117,
                },
                ServerAddress {
                    http: "10.9.9.3:8117".parse().expect("server"),
                    nfs: 9117,
                },
            ],
            root: RootKind::Live,
            image: "base".into(),
            generation: 3,
            sha256: None,
            persist: vec!["/var/log".into(), "/home".into()],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let first = order();
        let text = command_line(&first).expect("fits");
        let line = format!("BOOT_IMAGE=vmlinuz console=ttyS0 {text} quiet\n");
        assert_eq!(read_order(&line), Ok(first));
        let ram = Order {
            root: RootKind::Ram,
            sha256: Some("0a".repeat(32)),
            gateway: None,
            persist: Vec::new(),
            ..order()
        };
        let text = command_line(&ram).expect("fits");
        assert_eq!(read_order(&text), Ok(ram));
    }

    #[test]
    fn half_a_line_is_refused_by_the_word_that_is_missing() {
        let text = command_line(&order()).expect("fits");
        for word in text.split(' ') {
            let without = text.replace(word, "");
            let key = word.split('=').next().unwrap_or_default();
            let optional = ["armento.gateway", "armento.persist"].contains(&key);
            match read_order(&without) {
                Ok(_) => assert!(optional, "{key}"),
                Err(e) => assert!(e.starts_with(key), "{key}: {e}"),
            }
        }
        let many = Order {
            persist: vec!["/a/long/path".into(); 200],
            ..order()
        };
        assert_eq!(command_line(&many), None);
        assert!(read_order(&text.replace("10.9.9.2/24", "10.9.9.2/64")).is_err());
    }
}
