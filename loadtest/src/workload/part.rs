//! Parts of the rows that queries cover, and the levels that may answer them.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use super::Question;
use crate::workload::generate::{Devices, FIRST_TS, STEP_MS};

const MINUTE_MS: i64 = 60_000;

/// Rows that a query covers, and levels that may answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// All rows.
    #[serde(rename = "all rows")]
    AllRows,
    /// Rows in the data set's time span; later rows may exist.
    #[serde(rename = "the data set's rows")]
    DataSet,
    /// Half of the data set's span, from the start of a minute to the end of one.
    #[serde(rename = "half of the span, whole minutes")]
    WholeMinutes,
    /// A span of the same length whose bounds are within minutes.
    #[serde(rename = "half of the span, minutes cut")]
    CutMinutes,
    /// All rows, without tag manifests and rollups.
    #[serde(rename = "all rows, none but the scan")]
    ScanAlone,
}

impl Part {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllRows => "all rows",
            Self::DataSet => "the data set's rows",
            Self::WholeMinutes => "half of the span, whole minutes",
            Self::CutMinutes => "half of the span, minutes cut",
            Self::ScanAlone => "all rows, none but the scan",
        }
    }

    /// Half-open time range, in milliseconds since 1970; `None` if later rows belong to the part.
    pub fn span(self, set: &Devices) -> Option<Range<i64>> {
        let length = i64::from(set.rows) * STEP_MS;
        let up = |ts: i64| (ts + MINUTE_MS - 1).div_euclid(MINUTE_MS) * MINUTE_MS;
        let start = up(FIRST_TS + length / 4);
        let minutes = start..start + (length / 2).div_euclid(MINUTE_MS) * MINUTE_MS;
        match self {
            Self::AllRows | Self::ScanAlone => None,
            Self::DataSet => Some(FIRST_TS..FIRST_TS + length),
            Self::WholeMinutes => Some(minutes),
            Self::CutMinutes => Some(minutes.start + 27_500..minutes.end + 33_500),
        }
    }

    /// Value of the header `aggregate-levels`; `None` for all levels.
    pub fn levels(self) -> Option<&'static str> {
        (self == Self::ScanAlone).then_some("scan")
    }

    /// The statement of a query over this part.
    pub fn sql(self, question: &Question, set: &Devices) -> String {
        self.span(set).map_or_else(|| question.sql(), |span| question.sql_within(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_minutes_are_whole_and_cut_ones_are_not() {
        let set = Devices { devices: 1, rows: 10_000, seed: 1 };
        let minutes = Part::WholeMinutes.span(&set).unwrap_or_default();
        assert_eq!((minutes.start % MINUTE_MS, minutes.end % MINUTE_MS), (0, 0));
        let cut = Part::CutMinutes.span(&set).unwrap_or_default();
        assert!(cut.start % MINUTE_MS != 0 && cut.end % MINUTE_MS != 0 && cut.start > minutes.start);
        let length = |span: &Range<i64>| (span.end - span.start) as f64 / (10_000 * STEP_MS) as f64;
        for span in [&minutes, &cut] {
            assert!((0.48..=0.5).contains(&length(span)), "{span:?}");
        }
        let whole = Part::DataSet.span(&set).unwrap_or_default();
        assert!(whole.start < minutes.start && cut.end < whole.end && length(&whole) == 1.0);
        assert_eq!(Part::AllRows.span(&set), None);
    }
}
