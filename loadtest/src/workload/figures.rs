//! Published figures of the papers, for comparison.
//!
//! Their machine: i3-7100 (2 cores, 4 threads), 8 GB, one hard disk, server and clients together.
//! 1e8 rows (10 000 devices × 10 000 rows); queries in seconds, warm.

use super::{Function, Question};

/// Rows written per second: one table of a paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WriteFigures {
    /// The system that the paper measured.
    pub system: &'static str,
    /// Rows per request, and rows per second with 1, 2, … 7 clients.
    pub rows: &'static [(usize, [u64; 7])],
}

/// The write matrices of the three systems.
pub const WRITES: [WriteFigures; 3] = [
    WriteFigures {
        system: "TDengine",
        rows: &[
            (1, [26_824, 43_699, 55_137, 62_869, 64_529, 68_647, 72_277]),
            (100, [415_800, 734_484, 895_522, 976_085, 1_087_902, 1_171_074, 1_192_199]),
            (500, [479_846, 882_612, 1_083_032, 1_195_100, 1_269_196, 1_364_256, 1_417_004]),
            (1000, [500_751, 914_494, 1_121_914, 1_239_157, 1_367_989, 1_418_104, 1_476_560]),
            (2000, [512_820, 1_055_520, 1_174_164, 1_306_904, 1_426_635, 1_458_434, 1_477_208]),
        ],
    },
    WriteFigures {
        system: "Cassandra",
        rows: &[
            (1, [3_515, 4_925, 5_529, 5_991, 6_331, 6_380, 6_597]),
            (10, [35_998, 35_542, 35_124, 34_135, 35_077, 35_886, 36_102]),
            (50, [31_743, 49_423, 51_626, 55_752, 57_282, 56_815, 55_831]),
            (100, [38_328, 50_387, 54_519, 56_940, 57_853, 59_335, 61_708]),
            (500, [30_417, 36_264, 38_078, 39_066, 39_459, 39_758, 39_918]),
            (1000, [21_555, 25_293, 26_224, 26_559, 26_765, 26_511, 26_693]),
        ],
    },
    WriteFigures {
        system: "OpenTSDB",
        rows: &[
            (1, [2_370, 2_474, 2_572, 2_710, 2_497, 2_436, 2_371]),
            (10, [18_393, 22_828, 22_656, 22_924, 22_507, 23_200, 23_099]),
            (30, [37_463, 45_649, 45_735, 46_342, 46_795, 46_675, 44_908]),
            (50, [45_255, 53_222, 50_503, 54_475, 54_543, 54_283, 54_970]),
            (80, [48_794, 56_386, 54_564, 56_999, 57_198, 57_318, 57_272]),
        ],
    },
];

impl WriteFigures {
    /// Rows per second in one cell of the table, if the paper has it.
    pub fn cell(&self, rows_per_request: usize, clients: usize) -> Option<u64> {
        let (_, cells) = self.rows.iter().find(|(rows, _)| *rows == rows_per_request)?;
        cells.get(clients.checked_sub(1)?).copied()
    }
}

/// TDengine's seconds for q2, q3 and q4 at 10, 20, … 100 %.
pub const TDENGINE: [(&str, [f64; 10]); 8] = [
    ("q2 count", [0.018, 0.026, 0.016, 0.018, 0.017, 0.024, 0.024, 0.027, 0.030, 0.033]),
    ("q2 avg", [0.007, 0.014, 0.015, 0.020, 0.024, 0.038, 0.044, 0.050, 0.057, 0.060]),
    ("q2 sum", [0.006, 0.010, 0.019, 0.018, 0.031, 0.036, 0.034, 0.037, 0.043, 0.046]),
    ("q2 max", [0.007, 0.013, 0.015, 0.020, 0.025, 0.030, 0.035, 0.039, 0.045, 0.049]),
    ("q2 min", [0.006, 0.010, 0.016, 0.024, 0.032, 0.039, 0.045, 0.041, 0.043, 0.049]),
    ("q2 spread", [0.007, 0.010, 0.015, 0.019, 0.033, 0.038, 0.046, 0.052, 0.059, 0.066]),
    ("q3", [0.030, 0.028, 0.031, 0.041, 0.069, 0.066, 0.077, 0.091, 0.102, 0.123]),
    ("q4", [0.237, 0.472, 0.653, 0.902, 1.134, 1.422, 1.753, 1.784, 2.085, 2.549]),
];

/// TDengine's seconds for q1 of 1e6 rows, for groups 0, 10, … 90.
pub const TDENGINE_Q1: [f64; 10] = [0.235, 0.212, 0.218, 0.209, 0.210, 0.209, 0.209, 0.209, 0.216, 0.208];
/// Cassandra's seconds for q1 of 1e6 rows, for groups 0, 10, … 90.
pub const CASSANDRA_Q1: [f64; 10] = [3.92, 3.68, 3.65, 3.61, 3.69, 3.57, 3.55, 3.59, 3.66, 3.64];
/// OpenTSDB's fastest and slowest q1 of 1e6 rows, in seconds.
pub const OPENTSDB_Q1: (f64, f64) = (5.92, 7.51);

/// Bytes on disk for 1e8 rows.
pub const SIZES: [(&str, u64); 4] = [
    ("TDengine", 459_000_000),
    ("OpenTSDB", 2_300_000_000),
    ("Cassandra", 12_000_000_000),
    ("text files", 3_941_000_000),
];

/// Rows of the data set that the papers measured.
pub const ROWS: u64 = 100_000_000;

/// Figures of InfluxDB 1.4 and of Cassandra with aggregation at the client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FleetFigures {
    /// Loading with 4 workers.
    pub values_per_second: [u64; 2],
    /// On disk.
    pub bytes_per_value: [f64; 2],
    /// One host, one hour, 4 workers.
    pub mean_ms: [f64; 2],
}

/// InfluxData's published figures for the fleet of servers; on 16 processors, with the client on another machine.
pub const FLEET: FleetFigures =
    FleetFigures { values_per_second: [1_432_630, 103_912], bytes_per_value: [1.74, 20.3], mean_ms: [1.22, 1.59] };

/// TDengine's seconds for a query, if the paper has it.
pub fn tdengine_seconds(question: &Question) -> Option<f64> {
    let family = question.family();
    if let Question::Q1 { group } = question {
        return (group % 10 == 0).then(|| TDENGINE_Q1.get(*group as usize / 10).copied()).flatten();
    }
    let (_, cells) = TDENGINE.iter().find(|(name, _)| *name == family)?;
    let percent = question.scale() as usize;
    percent.is_multiple_of(10).then(|| cells.get((percent / 10).checked_sub(1)?).copied()).flatten()
}

/// Cassandra's and OpenTSDB's seconds for q2–q4 over all 1e8 rows (and q1 of group 0), if the papers have them.
pub fn others_seconds(question: &Question) -> (Option<f64>, Option<f64>) {
    match question {
        Question::Q1 { group } if group % 10 == 0 => (CASSANDRA_Q1.get(*group as usize / 10).copied(), None),
        Question::Q2 { function, percent: 100 } => match function {
            Function::Count => (Some(264.49), Some(66.72)),
            Function::Avg => (Some(290.97), Some(66.99)),
            Function::Sum => (Some(292.51), Some(66.59)),
            Function::Max => (Some(288.46), Some(67.29)),
            Function::Min => (Some(290.27), Some(66.67)),
            Function::Spread => (None, None),
        },
        Question::Q3 { percent: 100 } => (Some(308.89), Some(126.41)),
        Question::Q4 { percent: 100 } => (Some(303.51), Some(82.46)),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_finds_its_published_figure() {
        assert_eq!(tdengine_seconds(&Question::Q2 { function: Function::Avg, percent: 50 }), Some(0.024));
        assert_eq!(tdengine_seconds(&Question::Q4 { percent: 100 }), Some(2.549));
        assert_eq!(tdengine_seconds(&Question::Q1 { group: 10 }), Some(0.212));
        assert_eq!(tdengine_seconds(&Question::Q1 { group: 11 }), None);
        assert_eq!(tdengine_seconds(&Question::Q3 { percent: 15 }), None);
        assert_eq!(others_seconds(&Question::Q3 { percent: 100 }), (Some(308.89), Some(126.41)));
        assert_eq!(WRITES[0].cell(2000, 4), Some(1_306_904));
        assert_eq!(WRITES[0].cell(10, 4), None);
        assert_eq!(WRITES[2].cell(80, 7), Some(57_272));
    }
}
