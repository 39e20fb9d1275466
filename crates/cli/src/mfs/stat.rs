//! What `armento mfs stat` prints.

use crate::out::table;
use armento_client::api::{FilesExport, MfsInfo, MfsStream};
use armento_model::size;

const HEADS: [(&str, bool); 11] = [
    ("NODE", false),
    ("USER", true),
    ("STATE", false),
    ("OPEN", true),
    ("CALLS", true),
    ("READ", true),
    ("WRITTEN", true),
    ("P50", true),
    ("P99", true),
    ("ERRORS", true),
    ("AGAIN", true),
];

pub fn render(info: &MfsInfo) -> String {
    let (me, point) = (&info.node, info.point.display());
    let mut text = match (info.on, info.mounted) {
        (true, true) => format!("{me}: mounted at {point}\n"),
        (true, false) if info.why.is_empty() => format!("{me}: being mounted at {point}\n"),
        (true, false) => format!("{me}: not mounted at {point}: {}\n", info.why),
        (false, true) => format!("{me}: off, being unmounted from {point}\n"),
        (false, false) => format!("{me}: off (armento mfs on)\n"),
    };
    if info.mounted && !info.why.is_empty() {
        text += &format!("{}\n", info.why);
    }
    if info.on {
        for export in &info.exports {
            text += &served(export);
        }
        text += &match info.servers.len() {
            0 => String::new(),
            n => format!("file servers: {n}\n"),
        };
    }
    if info.streams.is_empty() {
        return text;
    }
    let rows: Vec<Vec<String>> = info.streams.iter().map(row).collect();
    text + "\n" + &table(&HEADS, &rows)
}

fn served(e: &FilesExport) -> String {
    let hidden: Vec<String> = e.hidden.iter().map(|p| p.display().to_string()).collect();
    let read_only = if e.read_only { ", read-only" } else { "" };
    let without = match hidden.join(", ") {
        none if none.is_empty() => none,
        hidden => format!(", without {hidden}"),
    };
    format!("serves {}{read_only}{without}\n", e.path.display())
}

fn row(s: &MfsStream) -> Vec<String> {
    let state = if s.connected { "connected" } else { "lost" };
    vec![
        s.node.to_string(),
        s.uid.to_string(),
        state.into(),
        s.open_files.to_string(),
        s.calls.to_string(),
        size(s.read_bytes >> 10),
        size(s.written_bytes >> 10),
        micros(s.p50_us),
        micros(s.p99_us),
        s.errors.to_string(),
        s.reconnects.to_string(),
    ]
}

fn micros(us: u64) -> String {
    match us {
        0 => "-".into(),
        1..10_000 => format!("{us} us"),
        _ => format!("{} ms", us / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> MfsInfo {
        let name = |n: &str| n.parse().expect("name");
        let stream = MfsStream {
            node: name("n2"),
            uid: 1000,
            connected: true,
            calls: 1234,
            read_bytes: 5 << 20,
            written_bytes: 3 << 20,
            open_files: 2,
            reconnects: 1,
            errors: 0,
            invalidations: 7,
            p50_us: 210,
            p99_us: 14_200,
        };
        MfsInfo {
            node: name("n1"),
            on: true,
            point: "/mfs".into(),
            mounted: true,
            why: String::new(),
            streams: vec![stream],
            servers: Vec::new(),
            exports: vec![FilesExport {
                path: "/srv".into(),
                read_only: true,
                hidden: vec!["/srv/keys".into()],
            }],
        }
    }

    #[test]
    fn each_stream_has_one_line() {
        let golden = "\
n1: mounted at /mfs
serves /srv, read-only, without /srv/keys

NODE  USER  STATE      OPEN  CALLS   READ  WRITTEN     P50    P99  ERRORS  AGAIN
n2    1000  connected     2   1234  5.0 M    3.0 M  210 us  14 ms       0      1
";
        assert_eq!(render(&info()), golden);
    }

    #[test]
    fn what_is_not_mounted_has_a_reason() {
        let mut i = info();
        i.streams.clear();
        (i.mounted, i.why) = (false, "/mfs is not empty".into());
        let said = render(&i);
        assert!(
            said.starts_with("n1: not mounted at /mfs: /mfs is not empty\n"),
            "{said}"
        );
        i.on = false;
        assert_eq!(render(&i), "n1: off (armento mfs on)\n");
    }
}
