//! The bars of mosmon.

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub id: u16,
    /// The height of its bar, in the unit of the frame; `None`: the node is down.
    pub value: Option<f64>,
    /// Of memory: the free part, which is drawn `+` on top.
    pub free: f64,
}

/// What is drawn around the bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub title: &'static str,
    /// The scale shows the logarithm.
    pub log: bool,
    /// Columns of a bar with the space behind it; 0: as wide as fits.
    pub wide: usize,
    /// Digits of numbers below each other.
    pub downwards: bool,
    /// Index of the first bar.
    pub first: usize,
    pub rows: usize,
    pub columns: usize,
    /// A line below everything.
    pub foot: String,
}

/// Columns of the scale at the left.
const SCALE: usize = 8;

/// A picture of `rows` lines, each at most `columns` wide.
pub fn frame(f: &Frame, all: &[Bar]) -> String {
    let bars = all.get(f.first..).unwrap_or_default();
    let digits = bars
        .iter()
        .map(|b| b.id.to_string().len())
        .max()
        .unwrap_or(1);
    let room = f.columns.saturating_sub(SCALE).max(1);
    let side_by_side = (digits + 1).max(3);
    let (wide, downwards) = match f.wide {
        0 if side_by_side * bars.len() <= room => (side_by_side, false),
        0 if 2 * bars.len() <= room => (2, true),
        0 => (1, true),
        w if f.downwards => (w, true),
        _ => (side_by_side, false),
    };
    let bars = &bars[..bars.len().min(room / wide)];
    let label_rows = if downwards { digits } else { 1 };
    let height = f.rows.saturating_sub(label_rows + 3).max(3);
    let scaled = |v: f64| if f.log { (v + 1.0).log2() } else { v };
    let tops = bars.iter().map(|b| scaled(b.value.unwrap_or(0.0) + b.free));
    let top = tops.fold(0.0, f64::max);
    let top = if top > 0.0 { top } else { 1.0 };
    let mut text = format!("{:>SCALE$}\n", f.title);
    for row in (0..height).rev() {
        let at = (row as f64 + 0.5) / height as f64 * top;
        let mark = top * (row + 1) as f64 / height as f64;
        let mark = if f.log { mark.exp2() - 1.0 } else { mark };
        let mut line = match row + 1 {
            r if r == height || (r * 2 == height) || r == 1 => format!("{mark:>6.2} |"),
            _ => format!("{:>6} |", ""),
        };
        for b in bars {
            let used = scaled(b.value.unwrap_or(0.0));
            let c = match b.value {
                None if row == 0 => 'x',
                Some(_) if at <= used => '#',
                Some(_) if b.free > 0.0 && at <= scaled(b.value.unwrap_or(0.0) + b.free) => '+',
                _ => ' ',
            };
            line.push_str(&format!("{c:<wide$}"));
        }
        text += line.trim_end();
        text.push('\n');
    }
    text += &format!("{:>6} +{}\n", "", "-".repeat(bars.len() * wide));
    for row in 0..label_rows {
        let mut line = format!("{:>SCALE$}", "");
        for b in bars {
            let id = b.id.to_string();
            let cell = match downwards {
                true => id.get(row..row + 1).unwrap_or(" ").to_owned(),
                false => id,
            };
            line.push_str(&format!("{cell:<wide$}"));
        }
        text += line.trim_end();
        text.push('\n');
    }
    text + &f.foot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Frame {
        Frame {
            title: "load",
            log: false,
            wide: 0,
            downwards: false,
            first: 0,
            rows: 8,
            columns: 40,
            foot: String::new(),
        }
    }

    fn bar(id: u16, value: Option<f64>, free: f64) -> Bar {
        Bar { id, value, free }
    }

    #[test]
    fn bars_are_as_tall_as_their_values() {
        let bars = [
            bar(1, Some(2.0), 0.0),
            bar(2, Some(1.0), 0.0),
            bar(3, None, 0.0),
        ];
        let want = "\
\x20   load
  2.00 |#
       |#
  1.00 |#  #
  0.50 |#  #  x
       +---------
        1  2  3
";
        assert_eq!(frame(&plain(), &bars), want);
    }

    #[test]
    fn free_memory_is_drawn_on_top_and_many_nodes_are_numbered_downwards() {
        let one = frame(&plain(), &[bar(1, Some(1.0), 1.0)]);
        assert!(
            one.contains("  2.00 |+\n") && one.contains("  0.50 |#\n"),
            "{one}"
        );
        let many: Vec<Bar> = (1..=20).map(|id| bar(id, Some(1.0), 0.0)).collect();
        let text = frame(&plain(), &many);
        assert!(text.contains("        12345678911111111112\n"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 40), "{text}");
        let later = frame(
            &Frame {
                first: 18,
                ..plain()
            },
            &many,
        );
        assert!(later.ends_with("        19 20\n"), "{later}");
        assert!(
            !frame(
                &Frame {
                    first: 99,
                    ..plain()
                },
                &many
            )
            .is_empty()
        );
    }
}
