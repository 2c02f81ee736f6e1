//! Draws rows as a line chart of text: the first time column across, each numeric column and combination of texts as a line.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Float64Type, Int64Type, TimeUnit},
    util::display::{ArrayFormatter, FormatOptions},
};

use crate::terminal::escaped;

/// Maximum number of lines.
const LINES: usize = 8;
/// Marks of lines without colours.
const MARKS: [char; LINES] = ['•', '+', 'x', 'o', '*', '#', '%', '@'];
/// ANSI colours of lines that light and dark terminals show.
const COLOURS: [u8; LINES] = [34, 32, 35, 36, 33, 31, 94, 92];
/// Columns of the labels on the left.
const LABELS: usize = 11;
/// The dots of a braille cell by row and column, as bits.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// Points of one line, by the place across; a missing value ends a stretch of the line.
type Line = Vec<(f64, Option<f64>)>;

/// Draws the rows in `width` × `height` characters, with a line below for each drawn line.
///
/// # Errors
/// There is no numeric column or no value to draw.
pub(super) fn draw(rows: &[RecordBatch], width: usize, height: usize, has_colours: bool) -> anyhow::Result<String> {
    let schema = rows.first().context("no rows to draw")?.schema();
    let across = schema.fields().iter().position(|field| matches!(field.data_type(), DataType::Timestamp(..)));
    let numbers: Vec<usize> = (0..schema.fields().len())
        .filter(|at| Some(*at) != across && schema.field(*at).data_type().is_numeric())
        .collect();
    ensure!(!numbers.is_empty(), "a chart needs a numeric column, and a time column or the order of the rows");
    let is_text = |at: &usize| Some(*at) != across && !numbers.contains(at);
    let texts: Vec<usize> = (0..schema.fields().len()).filter(is_text).collect();

    let (mut lines, mut row_number): (BTreeMap<String, Line>, usize) = (BTreeMap::new(), 0);
    let mut labels = None::<(Label, Label)>;
    for batch in rows {
        let places = across.map(|at| cast(batch.column(at), &DataType::Int64)).transpose()?;
        let times = across.map(|at| Texts::of(batch.column(at))).transpose()?;
        let keys = texts.iter().map(|at| Texts::of(batch.column(*at))).collect::<anyhow::Result<Vec<_>>>()?;
        let values =
            numbers.iter().map(|at| cast(batch.column(*at), &DataType::Float64)).collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            row_number += 1;
            let place = match &places {
                Some(places) if places.is_null(row) => continue,
                Some(places) => places.as_primitive::<Int64Type>().value(row) as f64,
                None => row_number as f64,
            };
            let label = || Label { place, text: times.as_ref().map_or(row_number.to_string(), |times| times.get(row)) };
            let (first, last) = labels.get_or_insert_with(|| (label(), label()));
            if place < first.place {
                *first = label();
            }
            if place > last.place {
                *last = label();
            }
            let key: Vec<String> = keys.iter().map(|key| key.get(row)).collect();
            for (at, values) in numbers.iter().zip(&values) {
                let values = values.as_primitive::<Float64Type>();
                let value = values.is_valid(row).then(|| values.value(row)).filter(|value| value.is_finite());
                let name = schema.field(*at).name();
                let of_key = if key.is_empty() { name.clone() } else { format!("{name} {}", key.join(" ")) };
                lines.entry(of_key).or_default().push((place, value));
            }
        }
    }
    let (first, last) = labels.context("no rows to draw")?;
    for points in lines.values_mut() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let hidden = lines.len().saturating_sub(LINES);
    let lines: Vec<(String, Line)> = lines.into_iter().take(LINES).collect();
    let all = || lines.iter().flat_map(|(_, points)| points.iter().filter_map(|(_, value)| *value));
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    ensure!(low.is_finite() && high.is_finite(), "no values to draw");
    let (low, high) = if low == high { (low - 0.5, high + 0.5) } else { (low, high) };

    let mut canvas = Canvas::new(width.saturating_sub(LABELS + 1).max(10), height.max(4));
    let span = (last.place - first.place).max(f64::MIN_POSITIVE);
    for (at, (_, points)) in lines.iter().enumerate() {
        let mut before = None;
        for (place, value) in points {
            let dot = value.map(|value| canvas.dot((place - first.place) / span, (value - low) / (high - low)));
            if let Some(dot) = dot {
                canvas.line(before.unwrap_or(dot), dot, at);
            }
            before = dot;
        }
    }
    let mut text = canvas.text(has_colours, |row, rows| match row {
        0 => short(high),
        row if row + 1 == rows => short(low),
        row if row == rows / 2 => short(high - (high - low) * row as f64 / (rows - 1) as f64),
        _ => String::new(),
    });
    let gap = (canvas.width + 1).saturating_sub(first.text.chars().count() + last.text.chars().count()).max(1);
    text += &format!("{:LABELS$} {}{:gap$}{}\n", "", first.text, "", last.text);
    for (at, (name, _)) in lines.iter().enumerate() {
        text += &format!("{:LABELS$} {} {}\n", "", painted(MARKS[at], at, has_colours), escaped(name));
    }
    if hidden > 0 {
        text += &format!("{:LABELS$} … {hidden} more lines are not drawn\n", "");
    }
    Ok(text)
}

/// The end of the axis across.
struct Label {
    place: f64,
    text: String,
}

/// The values of a column as text.
struct Texts(Vec<String>);

impl Texts {
    fn of(column: &ArrayRef) -> anyhow::Result<Self> {
        // Seconds are enough for the labels of an axis.
        let column = match column.data_type() {
            DataType::Timestamp(_, zone) => cast(column, &DataType::Timestamp(TimeUnit::Second, zone.clone()))?,
            _ => column.clone(),
        };
        let options = FormatOptions::new().with_null("NULL");
        let cells = ArrayFormatter::try_new(column.as_ref(), &options)?;
        let texts = (0..column.len()).map(|row| cells.value(row).try_to_string()).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(texts))
    }

    fn get(&self, row: usize) -> String {
        self.0[row].clone()
    }
}

/// A grid of braille cells, each of 2 × 4 dots and of one line.
struct Canvas {
    width: usize,
    height: usize,
    cells: Vec<(u8, usize)>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        Self { width, height, cells: vec![(0, 0); width * height] }
    }

    /// The dot at shares of the width and of the height, from 0 at the left and bottom to 1.
    fn dot(&self, across: f64, up: f64) -> (i64, i64) {
        let (columns, rows) = ((self.width * 2 - 1) as f64, (self.height * 4 - 1) as f64);
        ((across * columns).round() as i64, ((1.0 - up) * rows).round() as i64)
    }

    /// Sets the dots from one to another (Bresenham's algorithm).
    fn line(&mut self, (mut x, mut y): (i64, i64), (to_x, to_y): (i64, i64), line: usize) {
        let (dx, dy) = ((to_x - x).abs(), -(to_y - y).abs());
        let (step_x, step_y) = ((to_x - x).signum(), (to_y - y).signum());
        let mut error = dx + dy;
        loop {
            self.set(x, y, line);
            if (x, y) == (to_x, to_y) {
                return;
            }
            let twice = 2 * error;
            if twice >= dy {
                (error, x) = (error + dy, x + step_x);
            }
            if twice <= dx {
                (error, y) = (error + dx, y + step_y);
            }
        }
    }

    fn set(&mut self, x: i64, y: i64, line: usize) {
        let (x, y) = (x as usize, y as usize);
        if let Some(cell) = self.cells.get_mut(y / 4 * self.width + x / 2) {
            *cell = (cell.0 | DOTS[y % 4][x % 2], line);
        }
    }

    /// The rows, each with a label of `label(row, number of rows)`.
    fn text(&self, has_colours: bool, label: impl Fn(usize, usize) -> String) -> String {
        let mut text = String::new();
        for (at, row) in self.cells.chunks(self.width).enumerate() {
            text += &format!("{:>LABELS$}│", label(at, self.height));
            for (dots, line) in row {
                match (dots, has_colours) {
                    (0, _) => text.push(' '),
                    (_, false) => text.push(MARKS[*line]),
                    (_, true) => {
                        let cell = char::from_u32(0x2800 + u32::from(*dots)).unwrap_or(' ');
                        text += &painted(cell, *line, true);
                    }
                }
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }
}

fn painted(mark: char, line: usize, has_colours: bool) -> String {
    if has_colours { format!("\u{1b}[{}m{mark}\u{1b}[0m", COLOURS[line]) } else { mark.to_string() }
}

/// A number in at most ten characters.
fn short(value: f64) -> String {
    let text = format!("{value}");
    if text.len() <= 10 {
        return text;
    }
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e7).contains(&size) { format!("{value:.3e}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray, TimestampMillisecondArray};

    use super::*;

    fn rows(values: Vec<(i64, Option<f64>, &str)>) -> RecordBatch {
        RecordBatch::try_from_iter([
            ("ts", Arc::new(TimestampMillisecondArray::from_iter_values(values.iter().map(|v| v.0))) as ArrayRef),
            ("v", Arc::new(Float64Array::from_iter(values.iter().map(|v| v.1))) as ArrayRef),
            ("host", Arc::new(StringArray::from_iter_values(values.iter().map(|v| v.2))) as ArrayRef),
        ])
        .unwrap()
    }

    #[test]
    fn a_rising_line_goes_from_the_lower_left_to_the_upper_right() {
        let rows = rows((0..10).map(|i| (i * 1_000, Some(i as f64), "a")).collect());
        let text = draw(&[rows], 32, 5, false).unwrap();
        // 20 columns and five rows: four columns a row, and one more where the line crosses into the next cell.
        let expected = "          9│                ••••
           │           •••••
        4.5│        ••••
           │    ••••
          0│••••
            1970-01-01T00:00:00 1970-01-01T00:00:09
            • v a
";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn lines_of_texts_have_marks_and_missing_values_are_gaps() {
        let points = |i: i64| [(i, Some(1.0), "a"), (i, (!(3..7).contains(&i)).then_some(0.0), "b")];
        let text = draw(&[rows((0..10).flat_map(points).collect())], 32, 4, false).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "          1│••••••••••••••••••••");
        assert_eq!(lines[3], "          0│+++++           +++++".replace("           ", "          "), "{text}");
        assert!(text.contains("• v a\n") && text.contains("+ v b\n"), "{text}");
        let coloured = draw(&[rows((0..10).flat_map(points).collect())], 32, 4, true).unwrap();
        assert!(coloured.contains("\u{1b}[34m⠉\u{1b}[0m"), "{coloured:?}");
    }

    #[test]
    fn rows_that_cannot_be_drawn_are_refused() {
        let text = StringArray::from(vec!["x"]);
        let batch = RecordBatch::try_from_iter([("s", Arc::new(text) as ArrayRef)]).unwrap();
        assert!(draw(&[batch], 80, 10, false).unwrap_err().to_string().contains("a chart needs a numeric column"));
        assert!(draw(&[rows(vec![(0, None, "a")])], 80, 10, false).unwrap_err().to_string().contains("no values"));
        assert!(draw(&[], 80, 10, false).is_err());
    }

    #[test]
    fn rows_without_times_are_drawn_in_order_and_lines_beyond_eight_are_counted() {
        let ids = StringArray::from_iter_values((0..10).map(|i| format!("h{i}")));
        let numbers = Int64Array::from_iter_values(0..10);
        let batch =
            RecordBatch::try_from_iter([("h", Arc::new(ids) as ArrayRef), ("n", Arc::new(numbers) as ArrayRef)]);
        let text = draw(&[batch.unwrap()], 60, 6, false).unwrap();
        assert!(text.contains("… 2 more lines are not drawn") && text.contains("@ n h7"), "{text}");
    }

    #[test]
    fn numbers_on_the_axis_are_short() {
        let texts = [0.1 + 0.2, 1.0 / 3.0 * 1e9, 12.0, -1e-9 / 3.0, 123456.0].map(short);
        assert_eq!(texts, ["0.300", "3.333e8", "12", "-3.333e-10", "123456"]);
    }
}
