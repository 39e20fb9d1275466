//! Common parts of all panes: a title on a rule, column heads, lines of which one may be selected.

use crate::columns::{Cell, Column, GAP, Width, fitting, line};
use crate::list::top;
use crate::look::{Look, Role};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Cells before each line for its mark.
pub const MARGIN: u16 = 2;
/// A tenth of the width is enough for a name, but no less than this.
const NAME_LEAST: u16 = 5;
/// Digits of most pids.
const PID_LEAST: u16 = 5;

pub struct Title<'a> {
    pub name: String,
    pub count: String,
    /// Sort order, filter, and other remarks.
    pub more: Vec<String>,
    /// First and last of the lines shown and the number of all, unless all are shown.
    pub part: Option<(usize, usize, usize)>,
    pub focus: bool,
    pub look: &'a Look,
}

impl Title<'_> {
    pub fn draw(&self, buf: &mut Buffer, area: Rect) {
        let look = *self.look;
        let role = if self.focus { Role::Focus } else { Role::Head };
        let rule = Line::from(look.span(look.rule().repeat(area.width.into()), Role::Dim));
        buf.set_line(area.x, area.y, &rule, area.width);
        let mark = if self.focus { look.mark() } else { look.rule() };
        let mut spans = vec![
            look.span(format!("{mark} {} ", self.name), role),
            look.span(format!("{} ", self.count), Role::Plain),
        ];
        for more in &self.more {
            spans.push(look.span(format!("{} ", look.rule()), Role::Dim));
            spans.push(look.span(format!("{more} "), Role::Plain));
        }
        over(buf, area.x, area.y, &Line::from(spans), area.width);
        if let Some((first, last, all)) = self.part {
            let text = format!(" {first}-{last} of {all} ");
            let part = Line::from(look.span(text, Role::Plain));
            let width = (part.width() as u16).min(area.width);
            let x = area.right() - width - u16::from(width < area.width);
            over(buf, x, area.y, &part, width);
        }
    }
}

/// Draws a line with its own style over what is there.
fn over(buf: &mut Buffer, x: u16, y: u16, line: &Line, width: u16) {
    let there = Rect {
        x,
        y,
        width: (line.width() as u16).min(width),
        height: 1,
    };
    buf.set_style(there, Style::reset());
    buf.set_line(x, y, line, width);
}

/// Rows `R` in columns; `lines` has the shown ones of `rows`, in their order.
pub struct Table<'a, R: 'static> {
    pub look: &'a Look,
    pub columns: &'static [Column<R>],
    pub rows: &'a [R],
    pub lines: &'a [usize],
    pub sort: usize,
    pub falls: bool,
    pub chosen: Option<usize>,
    pub focus: bool,
    pub longest: Longest,
    /// Load that a full bar stands for.
    pub full: f64,
    pub name: String,
    /// For the title.
    pub more: Option<String>,
    pub filter: &'a str,
    pub typing: bool,
    /// Shown in place of lines.
    pub nothing: String,
}

/// Cells of the longest entry, so that columns keep their width when a line comes or goes.
#[derive(Clone, Copy, Debug)]
pub struct Longest {
    pub name: u16,
    pub pid: u16,
}

/// The columns that fit in `width`.
pub fn columns<R>(columns: &[Column<R>], width: u16, longest: Longest) -> Vec<(usize, u16)> {
    let names = longest.name.min((width / 10).max(NAME_LEAST));
    let needs = |c: &Column<R>| match c.width {
        Width::Names => names.max(c.head.len() as u16),
        Width::Pids => longest.pid.max(PID_LEAST),
        Width::Cells(cells) => cells,
    };
    fitting(columns, width.saturating_sub(MARGIN), needs)
}

/// The column at `x` cells from the left of a pane. `shown`: columns and their widths.
pub fn column_at(shown: &[(usize, u16)], x: u16) -> Option<usize> {
    let mut end = MARGIN;
    for (column, width) in shown {
        // The gap after a column is its own.
        end += width + GAP;
        if (MARGIN..end).contains(&x) {
            return Some(*column);
        }
    }
    None
}

impl<R> Table<'_, R> {
    pub fn draw(&self, buf: &mut Buffer, area: Rect) {
        let height = usize::from(area.height.saturating_sub(2));
        let count = self.lines.len();
        let first = top(count, self.chosen, height);
        let last = (first + height).min(count);
        self.title(buf, area, (first, last));
        if area.height < 2 {
            return;
        }
        let shown = columns(self.columns, area.width, self.longest);
        let look = *self.look;
        let x = area.x + MARGIN;
        let heads = shown.iter().map(|(i, width)| {
            let c = &self.columns[*i];
            let role = if *i == self.sort {
                Role::Focus
            } else {
                Role::Head
            };
            (Line::from(look.span(c.head, role)), c.right, *width)
        });
        line(buf, (x, area.y + 1), area.right(), heads);
        if count == 0 {
            let nothing = Line::from(look.span(self.nothing.as_str(), Role::Dim));
            buf.set_line(x, area.y + 2, &nothing, area.width.saturating_sub(MARGIN));
        }
        for (y, at) in (area.y + 2..area.bottom()).zip(first..last) {
            let row = &self.rows[self.lines[at]];
            let cells = shown.iter().map(|(i, width)| {
                let c = &self.columns[*i];
                let with = Cell {
                    look,
                    width: *width,
                    full: self.full,
                };
                ((c.cell)(row, &with), c.right, *width)
            });
            line(buf, (x, y), area.right(), cells);
            if self.chosen == Some(at) {
                choose(buf, area, y, look);
            }
        }
    }

    fn title(&self, buf: &mut Buffer, area: Rect, (first, last): (usize, usize)) {
        let (all, count) = (self.rows.len(), self.lines.len());
        let some = if count < all {
            format!("{count} of {all}")
        } else {
            all.to_string()
        };
        let head = self.columns[self.sort].head;
        let mut more = vec![format!("by {head} {}", self.look.direction(self.falls))];
        more.extend(self.more.clone());
        if !self.filter.is_empty() || self.typing {
            let caret = if self.typing { self.look.caret() } else { "" };
            more.push(format!("filter: {}{caret}", self.filter));
        }
        let title = Title {
            name: self.name.clone(),
            count: some,
            more,
            part: (last - first < count).then_some((first + 1, last, count)),
            focus: self.focus,
            look: self.look,
        };
        title.draw(buf, area);
    }
}

/// Highlights the line at `y` as selected.
pub fn choose(buf: &mut Buffer, area: Rect, y: u16, look: Look) {
    let row = Rect {
        y,
        height: 1,
        ..area
    };
    buf.set_style(row, look.style(Role::Chosen));
    buf.set_span(area.x, y, &Span::raw(look.mark()), MARGIN);
}
