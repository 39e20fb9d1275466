//! Files of published values: comment lines, a header, rows.

/// A file below `papers/`, and its text.
pub type File = (&'static str, &'static str);

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        /// All tables, by their path below `papers/`.
        pub const FILES: &[File] = &[$(($path, include_str!(concat!("../../../../papers/", $path)))),*];
    };
}

files![
    "errata.csv",
    "marks.csv",
    "relations.csv",
    "bars.csv",
    "figures-without-values.csv",
    "openmosix-topology/stereo.csv",
    "openmosix-topology/mono.csv",
    "openmosix-topology/copy.csv",
    "openmosix-topology/equivalent-power.csv",
    "openmosix-topology/forecast.csv",
    "openmosix-topology/literature-scaling.csv",
    "mosix-farm/cpu-bound.csv",
    "mosix-farm/comm-bound.csv",
    "mosix-farm/mpi.csv",
    "teaching-cluster/flops-cluster.csv",
    "teaching-cluster/flops-per-node.csv",
    "teaching-cluster/flops-reference-cpu.csv",
    "teaching-cluster/transfer.csv",
    "teaching-cluster/nettest.csv",
    "hpl-bonding/hpl.csv",
    "hpl-bonding/top500-gigabit.csv",
    "riello-copies/table1.csv",
    "riello-copies/table2.csv",
    "riello-copies/rates.csv",
    "riello-copies/comparison-design.csv",
    "riello-copies/findings.csv",
];

/// A table of published values.
#[derive(Clone, Debug)]
pub struct Table {
    pub path: String,
    pub heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table,
    cells: &'a [String],
}

/// The table of this path below `papers/`.
pub fn table(path: &str) -> Result<Table, String> {
    let found = FILES.iter().find(|(p, _)| *p == path);
    let (path, text) = found.ok_or_else(|| format!("there is no table {path}"))?;
    Table::parse(path, text)
}

impl Table {
    /// Reads a table; what is wrong with it names file and line.
    pub fn parse(path: &str, text: &str) -> Result<Table, String> {
        let mut reader = csv::ReaderBuilder::new()
            .comment(Some(b'#'))
            .from_reader(text.as_bytes());
        let wrong = |e: csv::Error| format!("{path}: {e}");
        let heads = reader.headers().map_err(wrong)?;
        let heads: Vec<String> = heads.iter().map(str::to_owned).collect();
        let rows = reader.records().map(|row| {
            let row = row.map_err(wrong)?;
            Ok(row.iter().map(str::to_owned).collect())
        });
        let rows: Vec<Vec<String>> = rows.collect::<Result<_, String>>()?;
        if rows.is_empty() {
            return Err(format!("{path}: no rows"));
        }
        Ok(Table {
            path: path.to_owned(),
            heads,
            rows,
        })
    }

    /// All rows, in their order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row { table: self, cells })
    }

    /// The first row in which these columns have these values.
    pub fn find(&self, wanted: &[(&str, &str)]) -> Option<Row<'_>> {
        let fits = |row: &Row| wanted.iter().all(|(c, v)| row.text(c) == Some(*v));
        self.rows().find(fits)
    }
}

impl<'a> Row<'a> {
    /// A cell; none where it is empty or there is no such column.
    pub fn text(&self, column: &str) -> Option<&'a str> {
        let at = self.table.heads.iter().position(|h| h == column)?;
        let cell = self.cells.get(at)?;
        (!cell.is_empty()).then_some(cell)
    }

    /// A cell with a number.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.text(column)?.parse().ok()
    }

    /// Path of its table.
    pub fn path(&self) -> &'a str {
        &self.table.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_can_be_read_and_has_a_source() {
        for (path, text) in FILES {
            let table = Table::parse(path, text).unwrap_or_else(|e| panic!("{e}"));
            assert!(table.heads.len() > 1, "{path}");
            assert!(
                text.starts_with("# source:") || text.starts_with("# what:"),
                "{path}"
            );
        }
    }

    #[test]
    fn damaged_files_are_named_with_the_line() {
        let e = Table::parse("x.csv", "# what: x\na,b\n1,2\n3\n").expect_err("short");
        assert!(e.contains("x.csv") && e.contains("line: 4"), "{e}");
        let e = Table::parse("x.csv", "a,b\n").expect_err("empty");
        assert!(e.contains("x.csv: no rows"), "{e}");
        let t = Table::parse("x.csv", "a,b\n1,\"2, 3\"\n").expect("quoted commas");
        assert_eq!(
            t.find(&[("a", "1")]).and_then(|r| r.text("b")),
            Some("2, 3")
        );
    }
}
