use super::*;
use armento_client::api::MfsStream;
use armento_model::NodeName;
use std::collections::BTreeSet;

fn name(n: &str) -> NodeName {
    n.parse().expect("name")
}

fn snapshot() -> Snapshot {
    let node = |n: &str, cores| NodeInfo {
        name: name(n),
        addr: "10.0.0.1:7117".into(),
        state: if cores > 0 { "alive" } else { "down" }.into(),
        here: n == "n1",
        load: 1.5,
        speed: 12_000,
        cores,
        mem_total_kib: 1 << 20,
        mem_free_kib: 1 << 19,
        guests: 3,
        frozen: 0,
        shut: false,
        drained: false,
        age_ms: 420,
        wire: "tls".into(),
        version: "0.1.0\x1b[2J\"\n".into(),
        clock_us: (n == "n2").then_some(-214_000),
        clock_apart: false,
    };
    let stream = MfsStream {
        node: name("n2"),
        uid: 1000,
        connected: true,
        calls: 12,
        read_bytes: 4096,
        written_bytes: 0,
        open_files: 1,
        reconnects: 0,
        errors: 0,
        invalidations: 0,
        p50_us: 1,
        p99_us: 2,
    };
    Snapshot {
        nodes: vec![node("n1", 2), node("n2", 2), node("n3", 0)],
        procs: vec![proc()],
        switches: None,
        mfs: Some(MfsInfo {
            node: name("n1"),
            on: true,
            point: "/mfs".into(),
            mounted: true,
            why: String::new(),
            streams: vec![stream],
            servers: Vec::new(),
            exports: Vec::new(),
        }),
        decisions: Some(7),
    }
}

fn proc() -> ProcInfo {
    ProcInfo {
        pid: 4711,
        ppid: 1,
        tree: armento_model::TreeId(1),
        uid: 1000,
        home: name("n1"),
        place: name("n2"),
        command: "lame".into(),
        cpu_ms: 0,
        away_cpu_ms: 0,
        rss_kib: 0,
        threads: 1,
        busy_percent: 0,
        moves: 0,
        forwarded: 0,
        bytes_sent: 0,
        bytes_received: 0,
        files: armento_model::FileCounts::default(),
        rates: armento_model::FileRates::default(),
        messages: None,
        stay: Some(armento_model::Stay::IoUring),
        detail: String::new(),
        partner: None,
        locked: false,
        lost_ms: Some(4000),
        frozen: false,
        portable: false,
        age_ms: 0,
        last_exec: None,
        safe: None,
        connections: None,
        stopped: false,
        nice: 0,
        moving: None,
    }
}

/// Names of the metrics that a text describes.
fn described(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    types
        .filter_map(|t| Some(t.split_once(' ')?.0.to_owned()))
        .collect()
}

#[test]
fn values_have_base_units_and_unknown_ones_are_left_out() {
    let text = render(&snapshot());
    for line in [
        "# TYPE armento_node_memory_bytes gauge",
        "# UNIT armento_node_memory_bytes bytes",
        "armento_node_memory_bytes{node=\"n1\"} 1073741824.0",
        "armento_node_load{node=\"n2\"} 1.5",
        "armento_node_core_speed_ratio{node=\"n1\"} 1.2",
        "armento_node_up{node=\"n3\"} 0.0",
        "armento_node_clock_offset_seconds{node=\"n2\"} -0.214",
        "armento_decisions_total 7",
        "armento_processes{node=\"n2\"} 1.0",
        "armento_processes_staying{reason=\"io-uring\"} 1.0",
        "armento_mfs_read_bytes_total{node=\"n2\",uid=\"1000\"} 4096",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(!text.contains("armento_node_load{node=\"n3\"}"), "{text}");
    assert!(
        !text.contains("clock_offset_seconds{node=\"n1\"}"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn older_format_describes_counters_by_their_samples() {
    let text = prometheus_text(&render(&snapshot()));
    assert!(
        text.contains("# TYPE armento_decisions_total counter\narmento_decisions_total 7\n"),
        "{text}"
    );
    assert!(text.contains("# HELP armento_mfs_calls_total "), "{text}");
    assert!(
        !text.contains("# UNIT") && !text.contains("# EOF"),
        "{text}"
    );
    let samples = text.lines().filter(|l| !l.starts_with('#'));
    let described = described(&text);
    for sample in samples {
        let name = sample.split(['{', ' ']).next().unwrap_or_default();
        assert!(described.contains(name), "{name} is not described");
    }
}

#[test]
fn manual_dashboard_and_alerts_name_metrics_that_exist() {
    let mut all = snapshot();
    all.switches = Some(SwitchInfo {
        node: name("n1"),
        stopped: false,
        drain: false,
        drain_why: String::new(),
        block: true,
        stay: false,
        quiet: false,
        mfs: true,
        expels: false,
        owner_first: false,
        owner: false,
        brings: 0,
        changed: Vec::new(),
        away: 2,
        guests: 0,
        unheard: 0,
    });
    let text = prometheus_text(&render(&all));
    let known = described(&text);
    let files = [
        (
            "metrics.md",
            include_str!("../../../docs/manual/metrics.md"),
        ),
        (
            "dashboard",
            include_str!("../../../packaging/monitoring/grafana-armento.json"),
        ),
        (
            "alerts",
            include_str!("../../../packaging/monitoring/alerts.yml"),
        ),
    ];
    for (file, content) in files {
        let words = content.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for word in words.filter(|w| w.starts_with("armento_")) {
            assert!(known.contains(word), "{file} names {word}");
        }
    }
    let manual = files[0].1;
    for name in known {
        assert!(
            manual.contains(&format!("`{name}`")),
            "the manual lacks {name}"
        );
    }
}
