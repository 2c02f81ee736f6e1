//! A line chart as SVG: linear x axis, logarithmic y axis.

use std::fmt::Write;

/// Size of a picture, and of its plot area: left, top, width, height.
const PICTURE: (f64, f64) = (920.0, 420.0);
const AREA: (f64, f64, f64, f64) = (90.0, 40.0, 500.0, 320.0);
/// Colour-blind-safe colours (Okabe and Ito 2008), and black.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#b0a000"];

/// A chart.
#[derive(Debug, Clone, Default)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// Axis labels.
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) lines: Vec<Line>,
}

/// One line of a chart.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    /// Published figures, drawn dashed.
    pub(super) is_published: bool,
    /// Points sorted by x; y > 0.
    pub(super) points: Vec<(f64, f64)>,
}

impl Chart {
    /// The picture; `None` without points.
    pub(super) fn svg(&self) -> Option<String> {
        let points: Vec<(f64, f64)> = self.lines.iter().flat_map(|line| line.points.clone()).collect();
        let (&(mut left, mut low), mut right, mut high) = (points.first()?, f64::MIN, f64::MIN);
        for &(x, y) in &points {
            (left, right, low, high) = (left.min(x), right.max(x), low.min(y), high.max(y));
        }
        let (bottom, top) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
        let at_x = |x: f64| AREA.0 + (x - left) / (right - left).max(1e-9) * AREA.2;
        let at_y = |y: f64| AREA.1 + (top - y.log10()) / (top - bottom) * AREA.3;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            PICTURE.0, PICTURE.1
        );
        text(&mut svg, AREA.0, 22.0, "start\" font-size=\"15", self.title);
        text(&mut svg, AREA.0 + AREA.2 / 2.0, AREA.1 + AREA.3 + 42.0, "middle", self.x);
        text(&mut svg, AREA.0, AREA.1 - 6.0, "end", self.y);
        for power in bottom as i32..=top as i32 {
            let y = at_y(10_f64.powi(power));
            let _ = writeln!(
                svg,
                "<line x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>",
                AREA.0,
                AREA.0 + AREA.2
            );
            text(&mut svg, AREA.0 - 6.0, y + 4.0, "end", &tick(power));
        }
        let mut columns: Vec<f64> = points.iter().map(|point| point.0).collect();
        columns.sort_by(f64::total_cmp);
        columns.dedup();
        for x in columns {
            text(&mut svg, at_x(x), AREA.1 + AREA.3 + 18.0, "middle", &format!("{x}"));
        }
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let dashes = if line.is_published { " stroke-dasharray=\"5 4\"" } else { "" };
            let path: Vec<String> =
                line.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", at_x(x), at_y(y))).collect();
            let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}");
            let _ = writeln!(svg, "<polyline points=\"{}\" {stroke}/>", path.join(" "));
            for point in path {
                let (x, y) = point.split_once(',').unwrap_or_default();
                let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>");
            }
            let (x, y) = (AREA.0 + AREA.2 + 20.0, AREA.1 + 10.0 + 18.0 * number as f64);
            let _ = writeln!(svg, "<polyline points=\"{x:.1},{y:.1} {:.1},{y:.1}\" {stroke}/>", x + 24.0);
            text(&mut svg, x + 30.0, y + 4.0, "start", &line.name);
        }
        svg.push_str("</svg>\n");
        Some(svg)
    }
}

/// Formats a power of ten as a tick label.
fn tick(power: i32) -> String {
    match power {
        6.. => format!("{} million", 10_u64.pow(power.clamp(6, 18) as u32 - 6)),
        0..6 => 10_u32.pow(power as u32).to_string(),
        _ => format!("{:.*}", power.unsigned_abs() as usize, 10_f64.powi(power)),
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn points_are_placed_by_value() {
        let line = |name: &str, is_published, points: &[(f64, f64)]| Line {
            name: name.to_owned(),
            is_published,
            points: points.to_vec(),
        };
        let ours = line("a<b & c", false, &[(1.0, 10.0), (3.0, 1_000.0)]);
        let theirs = line("theirs", true, &[(2.0, 100.0)]);
        let chart = Chart { title: "t", x: "x", y: "y", lines: vec![ours, theirs] };
        let svg = chart.svg().unwrap();
        // The lowest point at the lower left, the highest at the upper right, the other in the middle.
        assert!(svg.contains("<polyline points=\"90.0,360.0 590.0,40.0\" fill=\"none\" stroke=\"#0072b2\""), "{svg}");
        assert!(svg.contains("<circle cx=\"340.0\" cy=\"200.0\" r=\"3\" fill=\"#d55e00\"/>"), "{svg}");
        assert!(svg.contains("stroke-dasharray") && svg.contains(">a&lt;b &amp; c</text>"), "{svg}");
        for label in [">10<", ">100<", ">1000<", ">1<", ">2<", ">3<"] {
            assert!(svg.contains(label), "{label} is not in {svg}");
        }
        assert_eq!((tick(6), tick(8), tick(-2)), ("1 million".into(), "100 million".into(), "0.01".into()));
        assert!(Chart::default().svg().is_none());
    }
}
