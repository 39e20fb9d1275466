//! Colours and glyphs. Each colour only repeats what a word, a number or a glyph beside it shows.

pub use crate::theme::Role;

use crate::theme::Theme;
use ratatui::style::Style;
use ratatui::symbols::border;
use ratatui::text::{Line, Span};

/// What the terminal can show, and what its user has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub theme: Theme,
    /// Whether the locale has more than ASCII.
    pub unicode: bool,
}

impl Look {
    pub fn style(self, role: Role) -> Style {
        let (colour, modifier) = self.theme.of(role);
        let shown = Style::new().add_modifier(modifier);
        colour.map_or(shown, |colour| shown.fg(colour))
    }

    pub fn span(self, text: impl Into<String>, role: Role) -> Span<'static> {
        Span::styled(text.into(), self.style(role))
    }

    fn either(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }

    pub fn more(self) -> &'static str {
        self.either("…", "~")
    }

    pub fn rule(self) -> &'static str {
        self.either("─", "-")
    }

    pub fn arrow(self) -> &'static str {
        self.either("→", "->")
    }

    /// Mark before the selected line and before the title with the focus.
    pub fn mark(self) -> &'static str {
        self.either("▶", ">")
    }

    pub fn direction(self, falls: bool) -> &'static str {
        match falls {
            true => self.either("↓", "falling"),
            false => self.either("↑", "rising"),
        }
    }

    /// The cursor in a filter.
    pub fn caret(self) -> &'static str {
        self.either("▏", "_")
    }

    pub fn border(self) -> border::Set<'static> {
        if self.unicode {
            return border::ROUNDED;
        }
        border::Set {
            top_left: "+",
            top_right: "+",
            bottom_left: "+",
            bottom_right: "+",
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        }
    }

    /// A bar of `value` out of `full` in `width` cells; the part beyond `limit` has another glyph. A value above 0 has
    /// at least one cell.
    pub fn bar(self, value: f64, limit: f64, full: f64, width: u16) -> Vec<Span<'static>> {
        let cells = |v: f64| {
            let share = if full > 0.0 { v / full } else { 0.0 };
            ((share * f64::from(width)).round() as usize).min(width.into())
        };
        let least = usize::from(value > full / 1000.0 && width > 0);
        let filled = cells(value).max(least);
        let within = filled.min(cells(limit).max(least));
        let (beyond, left) = (filled - within, usize::from(width) - filled);
        vec![
            self.span(self.either("█", "|").repeat(within), Role::Good),
            self.span(self.either("▓", "!").repeat(beyond), Role::Bad),
            self.span(self.either("░", ".").repeat(left), Role::Dim),
        ]
    }

    /// A command line in at most `width` cells: the directory of its program is cut first.
    pub fn command(self, text: &str, width: u16) -> String {
        if Span::raw(text).width() <= width.into() {
            return text.to_owned();
        }
        let program = text.split(' ').next().unwrap_or_default();
        let path = program
            .trim_end_matches('/')
            .rfind('/')
            .map_or(0, |slash| slash + 1);
        self.fit(&text[path..], width)
    }

    /// `text` in at most `width` cells.
    pub fn fit(self, text: &str, width: u16) -> String {
        let width = usize::from(width);
        if Span::raw(text).width() <= width {
            return text.to_owned();
        }
        let mut short = String::new();
        let mut room = width.saturating_sub(1);
        for c in text.chars() {
            let wide = Span::raw(c.to_string()).width();
            if wide > room {
                break;
            }
            room -= wide;
            short.push(c);
        }
        if width > 0 {
            short += self.more();
        }
        short
    }
}

/// `line` in `width` cells, at its right end.
pub fn right(line: Line<'static>, width: u16) -> Line<'static> {
    let pad = usize::from(width).saturating_sub(line.width());
    let mut spans = vec![Span::raw(" ".repeat(pad))];
    spans.extend(line.spans);
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Color;

    const BOTH: [Look; 2] = [
        Look {
            theme: Theme::Dark,
            unicode: true,
        },
        Look {
            theme: Theme::Mono,
            unicode: false,
        },
    ];

    fn text(spans: Vec<Span>) -> String {
        spans.iter().map(|s| s.content.as_ref()).collect()
    }

    #[test]
    fn bars_mark_the_part_beyond_the_limit() {
        let check = |value, full, unicode: &str, ascii: &str| {
            let shown = BOTH.map(|look| text(look.bar(value, 1.0, full, 8)));
            assert_eq!(shown, [unicode, ascii], "{value} of {full}");
        };
        check(0.0, 1.0, "░░░░░░░░", "........");
        check(0.01, 1.0, "█░░░░░░░", "|.......");
        check(0.5, 1.0, "████░░░░", "||||....");
        check(1.0, 1.0, "████████", "||||||||");
        check(1.5, 2.0, "████▓▓░░", "||||!!..");
        check(9.0, 2.0, "████▓▓▓▓", "||||!!!!");
        check(1.0, 0.0, "█░░░░░░░", "|.......");
    }

    #[test]
    fn text_fits_by_its_width() {
        let check =
            |text: &str, width, fitting: &str| assert_eq!(BOTH[0].fit(text, width), fitting);
        check("make", 4, "make");
        check("make -j8", 5, "make…");
        check("日本語", 6, "日本語");
        check("日本語", 5, "日本…");
        check("日本語", 4, "日…");
        check("make", 1, "…");
        check("make", 0, "");
    }

    #[test]
    fn paths_are_cut_before_arguments() {
        let check =
            |text: &str, shown: &str| assert_eq!(BOTH[0].command(text, 12), shown, "{text}");
        check("/bin/sh -c x", "/bin/sh -c x");
        check("/usr/bin/env bash -c x", "env bash -c…");
        check("lame /very/long/path", "lame /very/…");
        check("/usr/bin/", "/usr/bin/");
        check("/usr/local/libexec/", "libexec/");
        check("", "");
    }

    #[test]
    fn no_colour_means_no_colour() {
        for role in [
            Role::Focus,
            Role::Good,
            Role::Away,
            Role::Warn,
            Role::Bad,
            Role::Chosen,
        ] {
            assert_eq!(BOTH[1].style(role).fg, None, "{role:?}");
        }
        assert_eq!(BOTH[0].style(Role::Bad).fg, Some(Color::Red));
    }
}
