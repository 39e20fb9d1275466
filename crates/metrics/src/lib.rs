//! What a daemon knows, as metrics: OpenMetrics 1.0, or the older text format of Prometheus.
//!
//! Pure: [`render`] makes the text from the daemon's answers ([`Snapshot`]); who asks and who serves it is elsewhere.
//! Names are conventional (`armento_node_memory_bytes`, `…_total` for counters, units at the end); `docs/manual/metrics.md`
//! lists them, and a test holds the two together. Start at [`render`].

mod text;

use armento_client::api::{Answer, Ask, MfsInfo, NodeInfo, ProcInfo, STANDARD_SPEED, SwitchInfo};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

pub use text::prometheus_text;

/// Content type of what [`render`] returns.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// … and of what [`prometheus_text`] makes of it.
pub const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A daemon's answers at one time; what was not asked is empty.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub nodes: Vec<NodeInfo>,
    /// Processes of this home.
    pub procs: Vec<ProcInfo>,
    pub switches: Option<SwitchInfo>,
    pub mfs: Option<MfsInfo>,
    /// The number of the newest decision: how many there were since the daemon started.
    pub decisions: Option<u64>,
}

impl Snapshot {
    /// What a daemon is asked for a snapshot.
    pub fn questions() -> [Ask; 5] {
        [
            Ask::Nodes,
            Ask::Ps { all: false },
            Ask::Switch { change: None },
            Ask::Mfs,
            Ask::Log {
                after: 0,
                count: 1,
                since_ms: 0,
                pid: None,
            },
        ]
    }

    /// Takes an answer to one of them; false: it is another.
    pub fn take(&mut self, answer: Answer) -> bool {
        match answer {
            Answer::Nodes { nodes } => self.nodes = nodes,
            Answer::Ps { procs } => self.procs = procs,
            Answer::Switches(switches) => self.switches = Some(switches),
            Answer::Mfs(mfs) => self.mfs = Some(mfs),
            Answer::Log { entries } => {
                self.decisions = Some(entries.last().map_or(0, |e| e.seq));
            }
            _ => return false,
        }
        true
    }
}

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Counters = Family<Labels, Counter>;

/// The metrics as OpenMetrics text, which ends with `# EOF`.
pub fn render(snapshot: &Snapshot) -> String {
    let mut registry = Registry::with_prefix("armento");
    nodes(&mut registry, &snapshot.nodes);
    processes(&mut registry, &snapshot.procs);
    if let Some(s) = &snapshot.switches {
        switches(&mut registry, s);
    }
    if let Some(total) = snapshot.decisions {
        let decisions = Counter::<u64>::default();
        decisions.inc_by(total);
        registry.register(
            "decisions",
            "Decisions about own processes since the daemon started",
            decisions,
        );
    }
    if let Some(mfs) = &snapshot.mfs {
        files(&mut registry, mfs);
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

fn nodes(registry: &mut Registry, nodes: &[NodeInfo]) {
    let all = |value: &dyn Fn(&NodeInfo) -> Option<f64>| {
        let family = Gauges::default();
        for n in nodes {
            if let Some(v) = value(n) {
                let labels = vec![("node", n.name.to_string())];
                family.get_or_create(&labels).set(v);
            }
        }
        family
    };
    // A node that has never reported has no cores, and nothing is known of it.
    let reported = |n: &NodeInfo, v: f64| (n.cores > 0).then_some(v);
    let flag = |b: bool| f64::from(u8::from(b));
    let versions = Gauges::default();
    for n in nodes.iter().filter(|n| n.cores > 0) {
        let labels = vec![
            ("node", n.name.to_string()),
            ("version", armento_model::clean(&n.version)),
            ("wire", armento_model::clean(&n.wire)),
        ];
        versions.get_or_create(&labels).set(1.0);
    }
    registry.register(
        "node_info",
        "Version and wire of the node; always 1",
        versions,
    );
    let up = all(&|n| Some(flag(n.here || n.state == "alive")));
    registry.register("node_up", "1 if the node answers", up);
    let open = all(&|n| Some(flag(!n.shut)));
    registry.register("node_accepts_guests", "1 if the node takes guests", open);
    let load = all(&|n| reported(n, n.load));
    let what = "Runnable work over power; 1 is one process for each standard processor";
    registry.register("node_load", what, load);
    let speed = all(&|n| reported(n, f64::from(n.speed) / f64::from(STANDARD_SPEED)));
    let what = "Speed of a core; 1 is the standard core";
    registry.register_with_unit("node_core_speed", what, Unit::Other("ratio".into()), speed);
    let cores = all(&|n| reported(n, f64::from(n.cores)));
    registry.register("node_cores", "Cores of the node", cores);
    let bytes = |kib: u64| kib as f64 * 1024.0;
    let total = all(&|n| reported(n, bytes(n.mem_total_kib)));
    registry.register_with_unit("node_memory", "Memory of the node", Unit::Bytes, total);
    let free = all(&|n| reported(n, bytes(n.mem_free_kib)));
    registry.register_with_unit(
        "node_memory_free",
        "Free memory of the node",
        Unit::Bytes,
        free,
    );
    let guests = all(&|n| reported(n, n.guests.into()));
    registry.register("node_guests", "Guests on the node", guests);
    let frozen = all(&|n| reported(n, n.frozen.into()));
    let what = "Guests that are frozen because their home does not answer";
    registry.register("node_guests_frozen", what, frozen);
    let age = all(&|n| reported(n, n.age_ms as f64 / 1000.0));
    let what = "Age of what is known of the node";
    registry.register_with_unit("node_report_age", what, Unit::Seconds, age);
    let clock = all(&|n| n.clock_us.map(|us| us as f64 / 1e6));
    let what = "How far the node's clock is ahead of this node's";
    registry.register_with_unit("node_clock_offset", what, Unit::Seconds, clock);
}

fn processes(registry: &mut Registry, procs: &[ProcInfo]) {
    let count = |key: &'static str, of: &dyn Fn(&ProcInfo) -> Option<String>| {
        let family = Gauges::default();
        for value in procs.iter().filter_map(of) {
            family.get_or_create(&vec![(key, value)]).inc();
        }
        family
    };
    let places = count("node", &|p| Some(p.place.to_string()));
    let what = "Processes of this home by the node where they run";
    registry.register("processes", what, places);
    let staying = count("reason", &|p| p.stay.map(|s| s.code().to_owned()));
    let what = "Processes of this home that stay where they are, by the reason";
    registry.register("processes_staying", what, staying);
    let lost = count("node", &|p| p.lost_ms.map(|_| p.place.to_string()));
    let what = "Processes of this home on nodes that have stopped reporting";
    registry.register("processes_lost", what, lost);
}

fn switches(registry: &mut Registry, s: &SwitchInfo) {
    let all = [
        ("stop", s.stopped),
        ("drain", s.drain),
        ("block", s.block),
        ("stay", s.stay),
        ("quiet", s.quiet),
        ("mfs", s.mfs),
    ];
    let family = Gauges::default();
    for (name, on) in all {
        let labels = vec![("switch", name.to_owned())];
        family.get_or_create(&labels).set(f64::from(u8::from(on)));
    }
    registry.register("switch", "1 if it is switched on, on this node", family);
    let away = Gauge::<f64, AtomicU64>::default();
    away.set(s.away as f64);
    registry.register(
        "processes_away",
        "Processes of this home that are elsewhere",
        away,
    );
}

fn files(registry: &mut Registry, mfs: &MfsInfo) {
    let mounted = Gauge::<f64, AtomicU64>::default();
    mounted.set(f64::from(u8::from(mfs.mounted)));
    registry.register("mfs_mounted", "1 if MFS is mounted here", mounted);
    let all = |value: fn(&armento_client::api::MfsStream) -> u64| {
        let family = Counters::default();
        for s in &mfs.streams {
            let labels = vec![("node", s.node.to_string()), ("uid", s.uid.to_string())];
            family.get_or_create(&labels).inc_by(value(s));
        }
        family
    };
    let calls = all(|s| s.calls);
    registry.register(
        "mfs_calls",
        "Calls on files that went over the network",
        calls,
    );
    let read = all(|s| s.read_bytes);
    registry.register_with_unit("mfs_read", "Bytes read over the network", Unit::Bytes, read);
    let written = all(|s| s.written_bytes);
    let what = "Bytes written over the network";
    registry.register_with_unit("mfs_written", what, Unit::Bytes, written);
    let errors = all(|s| s.errors);
    registry.register("mfs_errors", "Calls that the network failed", errors);
    let again = all(|s| s.reconnects);
    registry.register("mfs_reconnects", "Streams that were made again", again);
}

#[cfg(test)]
mod tests;
