//! Pictures as SVG: lines, bars, and which job ran where.
//!
//! Start at [`svg`]. Text and axes take the colour of the page around them, so that one picture serves dark and light
//! pages.

use crate::chapter::{Bar, Content, Line, Plot, Series, Stretch};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

const WIDTH: u32 = 900;
const LINES_HEIGHT: u32 = 420;
/// Height of a bar, and of a row of stretches, pixels.
const BAR_HEIGHT: u32 = 34;
const ROW_HEIGHT: u32 = 17;
/// Height of title and axis.
const FRAME_HEIGHT: u32 = 90;
/// Colours of series, in order, legible on white and on black; repeated beyond eight.
const COLOURS: [RGBColor; 8] = [
    RGBColor(59, 130, 196),
    RGBColor(226, 122, 24),
    RGBColor(52, 158, 74),
    RGBColor(214, 69, 61),
    RGBColor(148, 103, 189),
    RGBColor(140, 100, 75),
    RGBColor(217, 110, 180),
    RGBColor(127, 127, 127),
];
const FONT: &str = "sans-serif";

/// The picture for a page that sets the colour of text.
pub fn svg(plot: &Plot) -> Result<String> {
    let drawn = draw(&[plot])?;
    Ok(drawn
        .replace("#000000", "currentColor")
        // Within a page it is not needed, and a page shall name no other.
        .replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
        .replacen("<svg ", "<svg class=\"plot\" role=\"img\" ", 1))
}

/// Pictures below each other, black on white, as a file of their own.
pub fn file(plots: &[&Plot]) -> Result<String> {
    let drawn = draw(plots)?;
    let ground = "<rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>\n";
    let at = drawn.find(">\n").map_or(0, |at| at + 2);
    Ok(format!("{}{ground}{}", &drawn[..at], &drawn[at..]))
}

fn height(plot: &Plot) -> u32 {
    match &plot.content {
        Content::Lines(_) => LINES_HEIGHT,
        Content::Bars(bars) => FRAME_HEIGHT + BAR_HEIGHT * bars.len() as u32,
        Content::Stretches(all, _) => {
            let rows = all.iter().map(|s| s.row).max().unwrap_or(0) as u32;
            FRAME_HEIGHT + ROW_HEIGHT * (rows + 1)
        }
    }
}

fn draw(plots: &[&Plot]) -> Result<String> {
    let mut text = String::new();
    {
        let whole: u32 = plots.iter().map(|p| height(p)).sum();
        let mut rest =
            SVGBackend::with_string(&mut text, (WIDTH, whole.max(1))).into_drawing_area();
        for plot in plots {
            let (area, below) = rest.split_vertically(height(plot));
            // plotters' errors borrow the canvas; as text they can be returned.
            one(plot, &area).map_err(|e| anyhow!("the picture `{}`: {e}", plot.title))?;
            rest = below;
        }
        // It ends the document: once, at the end.
        rest.present().map_err(|e| anyhow!("the picture: {e}"))?;
    }
    Ok(text)
}

fn one(plot: &Plot, area: &Area) -> Drawn {
    match &plot.content {
        Content::Lines(series) => lines(plot, series, area),
        Content::Bars(bars) => horizontal(plot, bars, area),
        Content::Stretches(all, places) => stretches(plot, all, places, area),
    }
}

/// A little more than the largest of them.
fn reach(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    if most > 0.0 { most * 1.04 } else { 1.0 }
}

fn colour(i: usize) -> RGBColor {
    COLOURS[i % COLOURS.len()]
}

/// A number of an axis, without a fraction where it has none.
fn short(value: f64) -> String {
    let rounded = (value * 1000.0).round() / 1000.0;
    format!("{rounded}")
}

fn lines(plot: &Plot, series: &[Series], area: &Area) -> Drawn {
    let points = || series.iter().flat_map(|s| &s.points);
    let (right, top) = (reach(points().map(|p| p.0)), reach(points().map(|p| p.1)));
    let mut chart = ChartBuilder::on(area)
        .caption(&plot.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(&plot.x)
        .y_desc(&plot.y)
        .x_label_formatter(&|v| short(*v))
        .y_label_formatter(&|v| short(*v))
        .label_style((FONT, 13))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for (i, s) in series.iter().enumerate() {
        let colour = colour(i);
        let points = || {
            s.points
                .iter()
                .copied()
                .filter(|(x, y)| x.is_finite() && y.is_finite())
        };
        if s.line != Line::Points {
            let width = if s.line == Line::Thin { 1 } else { 2 };
            chart
                .draw_series([PathElement::new(
                    points().collect::<Vec<_>>(),
                    colour.stroke_width(width),
                )])?
                .label(&s.name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(width))
                });
        }
        if s.line == Line::Joined {
            chart.draw_series(points().map(|p| Circle::new(p, 3, colour.filled())))?;
        }
        if s.line == Line::Points {
            chart
                .draw_series(points().map(|p| Cross::new(p, 4, colour.stroke_width(2))))?
                .label(&s.name)
                .legend(move |(x, y)| Cross::new((x + 9, y), 4, colour.stroke_width(2)));
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font((FONT, 13))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    Ok(())
}

fn horizontal(plot: &Plot, bars: &[Bar], area: &Area) -> Drawn {
    let right = reach(bars.iter().map(|b| b.value)).max(1e-9);
    let mut chart = ChartBuilder::on(area)
        .caption(&plot.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(12)
        .build_cartesian_2d(0.0..right, 0.0..bars.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_desc(&plot.x)
        .x_label_formatter(&|v| short(*v))
        .label_style((FONT, 13))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for (i, bar) in bars.iter().enumerate() {
        // The first is at the top.
        let low = (bars.len() - 1 - i) as f64;
        let ends = [(0.0, low + 0.14), (bar.value, low + 0.86)];
        let body = Rectangle::new(ends, colour(bar.series).mix(0.55).filled());
        chart.draw_series([body])?;
        let text = format!("{}: {:.2}", bar.label, bar.value);
        let at = (right * 0.008, low + 0.66);
        chart.draw_series([Text::new(text, at, (FONT, 14))])?;
    }
    Ok(())
}

fn stretches(plot: &Plot, all: &[Stretch], places: &[String], area: &Area) -> Drawn {
    // Room for the names of places.
    let right = reach(all.iter().map(|s| s.to)) * 1.1;
    let rows = all.iter().map(|s| s.row).max().unwrap_or(0) as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(&plot.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..right, 0.0..rows + 1.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .x_desc(&plot.x)
        .y_desc(&plot.y)
        .x_label_formatter(&|v| short(*v))
        .y_label_formatter(&|v| short(*v))
        .label_style((FONT, 13))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for (i, name) in places.iter().enumerate() {
        let colour = colour(i);
        let mine = all.iter().filter(|s| s.place == i).map(|s| {
            let y = s.row as f64;
            Rectangle::new([(s.from, y - 0.4), (s.to, y + 0.4)], colour.filled())
        });
        let series = chart.draw_series(mine)?.label(name.as_str());
        series.legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .label_font((FONT, 13))
        .background_style(WHITE.mix(0.6))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(content: Content) -> Plot {
        Plot {
            title: "W(N)".into(),
            x: "nodes".into(),
            y: "W".into(),
            content,
        }
    }

    #[test]
    fn pictures_take_the_colour_of_the_page() {
        let series = |line| Series {
            name: "measured".into(),
            line,
            points: vec![(1.0, 1.0), (2.0, 1.9), (3.0, f64::NAN)],
        };
        let lines = plot(Content::Lines(vec![
            series(Line::Joined),
            series(Line::Points),
        ]));
        let text = svg(&lines).expect("drawn");
        assert!(text.starts_with("<svg class=\"plot\"") && text.contains("measured"));
        assert!(!text.contains("#000000") && !text.contains("NaN"));
        let bars = plot(Content::Bars(vec![Bar {
            label: "published, switch".into(),
            value: 36.66,
            series: 0,
        }]));
        let text = file(&[&lines, &bars]).expect("drawn");
        assert!(text.contains("published, switch: 36.66") && text.contains("#FFFFFF"));
        assert!(text.contains("#000000"));
        assert!(text.trim_end().ends_with("</svg>") && text.matches("</svg>").count() == 1);
        let none = plot(Content::Lines(Vec::new()));
        assert!(svg(&none).is_ok());
    }
}
