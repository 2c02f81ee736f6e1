//! Values of the recorder's metrics, read from its text.

/// The samples of counters and gauges in Prometheus' text format.
#[derive(Debug)]
pub(super) struct Samples(Vec<Sample>);

#[derive(Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Samples {
    /// Parses the text; lines of another form are skipped.
    pub(super) fn of(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect())
    }

    /// The sum of a metric over its labels.
    pub(super) fn sum(&self, name: &str) -> u64 {
        self.0.iter().filter(|sample| sample.name == name).map(|sample| sample.value as u64).sum()
    }

    /// The values of a metric by one of its labels.
    pub(super) fn by_label<'a>(&'a self, name: &'a str, label: &'a str) -> impl Iterator<Item = (&'a str, u64)> + 'a {
        self.0.iter().filter(move |sample| sample.name == name).filter_map(move |sample| {
            let (_, value) = sample.labels.iter().find(|(known, _)| known == label)?;
            Some((value.as_str(), sample.value as u64))
        })
    }
}

/// Parses `name 1` or `name{label="value",…} 1`. Values of this program's labels contain no quotes and braces.
fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, labels)) = series.split_once('{') else {
        return Some(Sample { name: series.to_owned(), labels: Vec::new(), value });
    };
    let labels = labels.strip_suffix('}')?.split(',').filter_map(|label| {
        let (name, value) = label.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    });
    Some(Sample { name: name.to_owned(), labels: labels.collect(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_with_and_without_labels() {
        let text =
            "# HELP a Rows.\n# TYPE a counter\na 5\n\nb{step=\"fold\"} 2\nb{step=\"merge\",kind=\"x\"} 3\nc_sum 0.5\n";
        let samples = Samples::of(text);
        assert_eq!((samples.sum("a"), samples.sum("b"), samples.sum("missing")), (5, 5, 0));
        assert_eq!(samples.by_label("b", "step").collect::<Vec<_>>(), [("fold", 2), ("merge", 3)]);
    }
}
