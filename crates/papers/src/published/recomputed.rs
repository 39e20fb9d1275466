//! Every derived number of `papers/`, recomputed from the others, and every erratum.

use super::tables::Table;
use super::{BYTES_PER_JOB, JOBS, MHZ, Row, TEST1_NODES, TEST1_S, errata, table};
use crate::figures::{bar, percent};
use armento_scenario::levelled;
use std::collections::{BTreeMap, BTreeSet};

fn read(path: &str) -> Table {
    table(path).unwrap_or_else(|e| panic!("{e}"))
}

fn number(row: &Row, column: &str) -> f64 {
    row.number(column)
        .unwrap_or_else(|| panic!("{}: no {column}: {row:?}", row.path()))
}

/// A cell: file, row, column.
type Place = (String, String, String);

/// Cells that were recomputed, and those among them that do not follow from the others.
#[derive(Default)]
struct Cells {
    count: usize,
    wrong: BTreeSet<Place>,
}

impl Cells {
    /// `what`: the row, as `marks.csv` names it. A value is printed with so many decimals, rounded.
    fn check(&mut self, row: &Row, what: &str, column: &str, computed: f64) {
        let Some(text) = row.text(column) else { return };
        let printed: f64 = text.parse().unwrap_or_else(|_| panic!("{column}: {text}"));
        let decimals = text.split_once('.').map_or(0, |(_, d)| d.len() as i32);
        let half = 0.5 * 10f64.powi(-decimals) + 1e-9;
        self.count += 1;
        if (printed - computed).abs() > half {
            let place = (row.path().to_owned(), what.to_owned(), column.to_owned());
            self.wrong.insert(place);
        }
    }

    fn check_text(&mut self, row: &Row, what: &str, column: &str, computed: &str) {
        let Some(text) = row.text(column) else { return };
        self.count += 1;
        if text != computed {
            let place = (row.path().to_owned(), what.to_owned(), column.to_owned());
            self.wrong.insert(place);
        }
    }
}

/// Seconds of `107m39s`, minutes of `3h20m`.
fn units(text: &str, large: char, small: char) -> f64 {
    let text = text.trim_end_matches(small);
    let (whole, rest) = text.split_once(large).unwrap_or(("0", text));
    let number = |t: &str| {
        if t.is_empty() {
            0.0
        } else {
            t.parse().expect("a number")
        }
    };
    number(whole) * 60.0 + number(rest)
}

fn topologies(cells: &mut Cells) {
    for file in [
        "openmosix-topology/stereo.csv",
        "openmosix-topology/mono.csv",
    ] {
        let table = read(file);
        let makespan = |name: &str| {
            let row = table.find(&[("topology", name)]).expect("a row");
            number(&row, "makespan_s")
        };
        for row in table.rows() {
            let name = row.text("topology").expect("a name");
            let what = format!("topology={name}");
            let s = number(&row, "makespan_s");
            let mut check =
                |column: &str, computed: f64| cells.check(&row, &what, column, computed);
            check(
                "makespan_s",
                units(row.text("makespan_text").expect("a time"), 'm', 's'),
            );
            check(
                "percent_of_single_published",
                percent(s, makespan("single")),
            );
            check("percent_of_hub_published", percent(s, makespan("hub")));
            check(
                "percent_of_switch_published",
                percent(s, makespan("switch")),
            );
            // No more power than nodes have: the least number that can reach the best time (E-01).
            let least = match name {
                "single" => 1.0,
                _ => (makespan("single") / makespan("p2p")).ceil(),
            };
            check("nodes_listed", least);
            check("nodes_measured", least);
            if let Some(slowest) = row.number("slowest_s") {
                let diff = slowest - number(&row, "fastest_s");
                check("slowest_s", s);
                check("diff_s_published", diff);
                check("diff_pct_published", percent(diff, slowest));
            }
            let (cables, nics) = match name {
                "single" => (0.0, 0.0),
                "p2p" => (3.0, 6.0),
                _ => (4.0, 4.0),
            };
            check("cables", cables);
            check("nics_total", nics);
            let drawn = bar(number(&row, "percent_of_single_published"));
            cells.check_text(&row, &what, "bar", &drawn);
            cells.check_text(&row, &what, "bar_of_single", &drawn);
        }
    }
    let copies = read("openmosix-topology/copy.csv");
    let hub = number(
        &copies.find(&[("topology", "hub")]).expect("a row"),
        "time_s",
    );
    for row in copies.rows() {
        let what = format!("topology={}", row.text("topology").expect("a name"));
        let s = number(&row, "time_s");
        cells.check(&row, &what, "percent_of_hub_published", percent(s, hub));
        cells.check(&row, &what, "rate_published_mb_s", 320.0 / s);
    }
}

/// W of three nodes, mono.
fn mono_w(topology: &str) -> f64 {
    let mono = read("openmosix-topology/mono.csv");
    let s = |name: &str| {
        number(
            &mono.find(&[("topology", name)]).expect("a row"),
            "makespan_s",
        )
    };
    MHZ * s("single") / s(topology)
}

fn powers(cells: &mut Cells) {
    for row in read("openmosix-topology/equivalent-power.csv").rows() {
        let name = row.text("topology").expect("a name");
        let what = format!("topology={name}");
        let most = MHZ * number(&row, "tot_pc");
        let w = mono_w(name);
        for column in ["w_published_mhz", "w_recomputed_mhz"] {
            cells.check(&row, &what, column, w);
        }
        cells.check(&row, &what, "max_theoretical_mhz", most);
        for column in ["difference_published_pct", "difference_recomputed_pct"] {
            cells.check(&row, &what, column, (w / most - 1.0) * 100.0);
        }
    }
    for row in read("openmosix-topology/forecast.csv").rows() {
        let what = format!("kind={}", row.text("kind").expect("a kind"));
        let w = mono_w("p2p") * number(&row, "nodes") / 3.0;
        for column in ["w_published_mhz", "w_recomputed_mhz"] {
            cells.check(&row, &what, column, w);
        }
    }
    for row in read("openmosix-topology/literature-scaling.csv").rows() {
        let what = row.text("system").expect("a name").to_owned();
        let Some(speedup) = row.number("speedup") else {
            continue;
        };
        cells.check(
            &row,
            &what,
            "efficiency_recomputed",
            speedup / number(&row, "nodes"),
        );
        if let Some(mhz) = row.number("node_mhz") {
            cells.check(&row, &what, "equivalent_mhz", speedup * mhz);
        }
    }
}

fn farms(cells: &mut Cells) {
    for row in read("mosix-farm/cpu-bound.csv").rows() {
        let n = number(&row, "n") as usize;
        let what = format!("n={n}");
        let rule = levelled(n, TEST1_NODES, TEST1_S);
        let mut check = |column: &str, computed: f64| cells.check(&row, &what, column, computed);
        check("optimal_s", rule);
        check("optimal_recomputed_s", rule);
        check(
            "work_bound_recomputed_s",
            (TEST1_S * n as f64 / TEST1_NODES as f64).max(TEST1_S),
        );
        check(
            "pvm_slowdown_pct",
            (number(&row, "pvm_s") / number(&row, "mosix_s") - 1.0) * 100.0,
        );
    }
    for row in read("teaching-cluster/flops-cluster.csv").rows() {
        let nodes = number(&row, "nodes");
        let computed = percent(number(&row, "cluster_mflops"), nodes * 155.0);
        cells.check(
            &row,
            &format!("nodes={nodes}"),
            "efficiency_pct_recomputed",
            computed,
        );
    }
    for row in read("teaching-cluster/nettest.csv").rows() {
        let what = row.text("label").expect("a label").to_owned();
        // PAPER(K, Nettest): a channel is an unordered pair of nodes.
        let n = 8.0;
        let channels = match row.text("topology") {
            Some("star") => n - 1.0,
            Some("ring") => n,
            _ => n * (n - 1.0) / 2.0,
        };
        cells.check(&row, &what, "channels_8_recomputed", channels);
    }
    for row in read("hpl-bonding/hpl.csv").rows() {
        let what = format!("gflops={}", row.text("gflops").expect("a speed"));
        let peak = 8.8 * number(&row, "nodes");
        let efficiency = percent(number(&row, "gflops"), peak);
        cells.check(&row, &what, "peak_gflops_inferred", peak);
        cells.check(&row, &what, "efficiency_published_pct", efficiency);
        cells.check(&row, &what, "efficiency_recomputed_pct", efficiency);
    }
}

fn copies(cells: &mut Cells) {
    for file in ["riello-copies/table1.csv", "riello-copies/table2.csv"] {
        for row in read(file).rows() {
            let what = format!("{:?}", (row.text("configuration"), row.text("node_class")));
            let minutes = units(row.text("total_text").expect("a time"), 'h', 'm');
            cells.check(&row, &what, "total_min", minutes);
            cells.check(&row, &what, "minutes_per_gb_recomputed", minutes / 10.0);
        }
    }
    for row in read("riello-copies/comparison-design.csv").rows() {
        let what = format!("file_gb={}", row.text("file_gb").expect("a size"));
        let set = number(&row, "file_gb") * number(&row, "files");
        cells.check(&row, &what, "set_gb_recomputed", set);
    }
}

/// The marked cells are exactly those that do not recompute.
#[test]
fn derived_values_recompute_where_they_are_not_marked() {
    let mut cells = Cells::default();
    topologies(&mut cells);
    powers(&mut cells);
    farms(&mut cells);
    copies(&mut cells);
    let text = |row: &Row, column: &str| row.text(column).expect(column).to_owned();
    let marks = read("marks.csv");
    let marked = marks.rows().filter(|r| r.text("recomputes") == Some("no"));
    let marked = marked.map(|r| (text(&r, "file"), text(&r, "where"), text(&r, "column")));
    assert_eq!(cells.wrong, marked.collect());
    assert!(cells.count > 220, "{} cells were recomputed", cells.count);
}

/// PAPER(P): settings and what follows from them.
#[test]
fn settings_recompute() {
    let text = include_str!("../../../../papers/openmosix-topology/testbed.toml");
    let all: toml::Table = text.parse().expect("TOML");
    let get = |part: &str, key: &str| -> f64 {
        let value = &all[part][key];
        let whole = value.as_integer().map(|i| i as f64);
        whole
            .or(value.as_float())
            .unwrap_or_else(|| panic!("{part}.{key}"))
    };
    let near = |a: f64, b: f64, within: f64| assert!((a - b).abs() <= within, "{a} {b}");
    let (wav, mp3) = (get("job", "wav_bytes"), get("job", "mp3_bytes"));
    near(get("job", "jobs"), JOBS as f64, 0.0);
    near(get("derived", "bytes_per_job"), wav + mp3, 0.0);
    near(BYTES_PER_JOB, wav + mp3, 0.0);
    near(get("derived", "cpu_s_per_job_stereo"), 6459.0 / 24.0, 1e-9);
    near(get("derived", "cpu_s_per_job_mono"), 3233.0 / 24.0, 0.0005);
    // A WAV file has a head of 44 bytes; 16 bit, stereo, 44.1 kHz.
    let seconds = (wav - 44.0) / (44_100.0 * 4.0);
    near(get("derived", "wav_seconds"), seconds, 0.005);
    near(
        get("derived", "mp3_bytes_at_256_kbit"),
        seconds * 32_000.0,
        0.5,
    );
    near(
        get("job", "network_mb_published"),
        (wav + mp3) * 24.0 / 1_048_576.0,
        2.0,
    );
}

/// Numbers that an erratum gives as recomputed, from the tables.
fn recomputed(id: &str) -> Vec<f64> {
    let at = |file: &str, place: &[(&str, &str)], column: &str| {
        let table = read(file);
        let row = table
            .find(place)
            .unwrap_or_else(|| panic!("{file}: {place:?}"));
        number(&row, column)
    };
    let topology = |file: &str, name: &str, column: &str| {
        at(
            &format!("openmosix-topology/{file}.csv"),
            &[("topology", name)],
            column,
        )
    };
    let mono = |name: &str| topology("mono", name, "makespan_s");
    let copy = |name: &str| topology("copy", name, "time_s");
    let minutes = |configuration: &str, class: &str| {
        let file = match configuration.contains("only") || configuration.contains("and") {
            true => "riello-copies/table2.csv",
            false => "riello-copies/table1.csv",
        };
        at(
            file,
            &[("configuration", configuration), ("node_class", class)],
            "total_min",
        )
    };
    let both = |configuration: &str| {
        let (ii, iii) = (
            minutes(configuration, "Pentium II"),
            minutes(configuration, "Pentium III"),
        );
        (ii.max(iii), ii.min(iii), 3.0 * ii + iii)
    };
    let change = |from: f64, to: f64| (to / from - 1.0) * 100.0;
    let speed = |n: &str| {
        at(
            "teaching-cluster/flops-cluster.csv",
            &[("nodes", n)],
            "cluster_mflops",
        )
    };
    let work = |n: f64| TEST1_S * n / TEST1_NODES as f64;
    let lost = mono("p2p") - mono("single") / 3.0;
    let four = |lost: f64| MHZ * mono("single") / (mono("single") / 4.0 + lost);
    let link = |n: &str| topology("copy", n, "time_s");
    match id {
        "E-01" => vec![(mono("single") / mono("p2p")).ceil()],
        "E-02" => vec![32768.0 * 1024.0 * 10.0],
        "E-03" => vec![
            topology("stereo", "switch", "slowest_s") - topology("stereo", "switch", "fastest_s"),
        ],
        "E-04" => vec![topology("mono", "hub", "slowest_s") - topology("mono", "hub", "fastest_s")],
        "E-05" => vec![
            percent(
                topology("stereo", "p2p", "makespan_s"),
                topology("stereo", "single", "makespan_s"),
            ),
            percent(mono("switch"), mono("hub")),
            mono_w("hub"),
            mono_w("p2p"),
            percent(copy("switch"), copy("hub")),
            320.0 / copy("switch"),
            320.0 / copy("p2p"),
        ],
        "E-06" => vec![(mono_w("p2p") / 900.0 - 1.0) * 100.0],
        "E-07" => vec![mono_w("p2p") * 4.0 / 3.0],
        "E-08" => vec![four(lost * (3.0 / 4.0) / (2.0 / 3.0)), four(lost)],
        "E-09" => vec![(1.0 - mono("p2p") / mono("switch")) * 100.0],
        "E-10" => vec![
            BYTES_PER_JOB * 24.0 / 1_048_576.0,
            BYTES_PER_JOB * 16.0 / 1_048_576.0,
        ],
        "E-12" => vec![100.0, 335_544_320.0 * 8.0 / link("switch") / 1e6],
        "E-14" => vec![32768.0],
        "E-20" => vec![percent(12.22, 17.6)],
        "E-23" => vec![9200.0 - 28.0],
        "E-30" => vec![work(31.0)],
        "E-31" => vec![levelled(43, TEST1_NODES, TEST1_S)],
        "E-33" => vec![10.0 * 1460.0 / 1538.0],
        "E-34" => {
            let np4 = at(
                "mosix-farm/mpi.csv",
                &[("system", "Linux+MOSIX"), ("np", "4")],
                "time_s",
            );
            vec![2.0 * np4]
        }
        "E-40" => vec![1086.0, 8.0, 155.0, percent(speed("8"), 8.0 * speed("1"))],
        "E-43" => vec![100.0],
        "E-44" => vec![1.0],
        "E-50" => vec![change(
            minutes("only MPI", "Pentium II"),
            minutes("MPI and openMosix", "Pentium II"),
        )],
        "E-51" => {
            let (mpi, all) = (both("only MPI"), both("MPI and openMosix"));
            vec![change(mpi.0, all.0), change(mpi.2, all.2)]
        }
        "E-52" => {
            let (none, om) = (both("no openMosix"), both("openMosix"));
            vec![change(none.0, om.0), change(none.2, om.2)]
        }
        "E-53" => ["no openMosix", "openMosix", "only MPI", "MPI and openMosix"]
            .map(|c| both(c).1 / both(c).0)
            .to_vec(),
        "E-55" => vec![8.0, 6.0 * 1.4],
        _ => Vec::new(),
    }
}

/// Errata whose recomputed side is a statement, not a number that follows from tables.
const STATEMENTS: [&str; 21] = [
    "E-11", "E-13", "E-15", "E-16", "E-17", "E-18", "E-19", "E-21", "E-22", "E-32", "E-35", "E-36",
    "E-37", "E-38", "E-41", "E-42", "E-45", "E-46", "E-47", "E-54", "E-56",
];

#[test]
fn errata_recompute() {
    for e in errata() {
        let computed = recomputed(&e.id);
        if computed.is_empty() {
            assert!(
                STATEMENTS.contains(&&*e.id) || e.id == "E-60",
                "{}: not recomputed",
                e.id
            );
            continue;
        }
        for value in computed {
            let part = |c: char| !(c.is_ascii_digit() || c == '.' || c == '-');
            let text = format!("{} {}", e.recomputed, e.basis);
            let near = text.split(part).filter_map(|n| {
                let n = n.trim_end_matches('.');
                let decimals = n.split_once('.').map_or(0, |(_, d)| d.len() as i32);
                Some((n.parse::<f64>().ok()? - value).abs() <= 0.5 * 10f64.powi(-decimals) + 1e-6)
            });
            let sign = |n: f64| text.contains(&format!("{:.1}", n.abs()));
            assert!(
                near.into_iter().any(|n| n) || sign(value),
                "{}: {value} is not in `{text}`",
                e.id
            );
        }
    }
}

/// Errata that are about whole columns.
#[test]
fn errata_of_columns_recompute() {
    let rows = |file: &str| read(file);
    // E-17: 69.16 % are 34 cells and a half.
    assert_eq!(bar(69.16), format!("{}o", "O".repeat(34)));
    // E-31, E-38: all other MOSIX times lie above the rule; that of N = 31 would not.
    let farm = rows("mosix-farm/cpu-bound.csv");
    let mut below = Vec::new();
    for row in farm.rows() {
        let n = number(&row, "n") as usize;
        let over = number(&row, "mosix_s") / levelled(n, TEST1_NODES, TEST1_S) - 1.0;
        match n {
            31 => assert!(over < 0.0),
            43 => assert!(over.abs() < 1e-5),
            _ => assert!((0.005..=0.049).contains(&over), "{n}: {over}"),
        }
        if number(&row, "pvm_on_mosix_s") < number(&row, "mosix_s") {
            below.push(n);
        }
    }
    // E-35.
    assert_eq!(below, [8, 16, 17, 20, 24, 25, 36, 38, 47, 48]);
    // E-33: a ring of N, 60 cycles, one 10 Mbit Ethernet: four cells carry more than TCP can.
    let mut above = BTreeMap::new();
    for row in rows("mosix-farm/comm-bound.csv").rows() {
        let (kb, n) = (number(&row, "message_kb"), number(&row, "n"));
        let mbit = 60.0 * 2.0 * n * kb * 1024.0 * 8.0 / number(&row, "mosix_s") / 1e6;
        if mbit > 9.49 {
            above.insert((kb as u32, n as u32), (mbit * 100.0).floor() / 100.0);
        }
    }
    let want = [
        ((1, 16), 9.95),
        ((64, 16), 10.31),
        ((256, 12), 10.15),
        ((256, 16), 9.98),
    ];
    assert_eq!(above, BTreeMap::from(want));
    // E-37.
    let one = |n: &str| {
        let table = rows("mosix-farm/comm-bound.csv");
        let row = table.find(&[("message_kb", "1"), ("n", n)]).expect("a row");
        number(&row, "mosix_s")
    };
    assert!(one("16") < one("12"));
    // E-22: gains by bonding.
    let hpl = rows("hpl-bonding/hpl.csv");
    let gflops = |nodes: &str, links: &str| {
        let row = hpl
            .find(&[("nodes", nodes), ("links_per_node", links)])
            .expect("a row");
        number(&row, "gflops")
    };
    let gain = |nodes: &str| (gflops(nodes, "2") / gflops(nodes, "1") - 1.0) * 100.0;
    assert!((gain("2") - 5.8).abs() < 0.05 && (gain("4") - 13.4).abs() < 0.05);
    // E-44: the sum of the nodes' speeds over the cluster's.
    let values = super::values();
    let over = |n: u32| {
        let get = |name: &str| values.get(&format!("flops.{n}.{name}")).expect("a speed");
        get("node_sum") / get("mflops")
    };
    let all: Vec<f64> = (2..=8).map(over).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    assert!(
        (least - 1.004).abs() < 0.0005 && (most - 1.032).abs() < 0.0005,
        "{least} {most}"
    );
}

/// What remarks of experiments say of published values.
#[test]
fn remarks_recompute() {
    let values = super::values();
    let get = |name: &str| values.get(name).expect("published");
    // The rate of a ring of four with 256 KB, Mbit/s.
    let rate = 60.0 * 8.0 * 256.0 * 1024.0 * 8.0 / get("exchange.256.4.mosix") / 1e6;
    assert!((rate - 6.8).abs() < 0.05, "{rate}");
    // B-21: the longest of both over the longest of openMosix alone.
    let longest =
        |way: &str| get(&format!("riello.{way}.ii")).max(get(&format!("riello.{way}.iii")));
    assert!((longest("both") / longest("openmosix") - 0.667).abs() < 0.0005);
    // Tables 1 and 2: minutes a GB of a Pentium II without openMosix, halved here into computing and waiting.
    assert_eq!(get("riello.none.ii") / 10.0, 20.0);
}
