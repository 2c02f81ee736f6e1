//! Cheap formatting of numbers: the client shares the machine with the measured server.

/// Room for one row's numbers and the short texts between them; a float may need 50 bytes.
const ROOM: usize = 192;

/// A short text built backwards, the order in which digits are computed, and copied once.
pub(crate) struct Backward {
    bytes: [u8; ROOM],
    at: usize,
}

impl Backward {
    /// Creates an empty text.
    pub(crate) fn new() -> Self {
        Self { bytes: [0; ROOM], at: ROOM }
    }

    /// Empties the text.
    pub(crate) fn clear(&mut self) {
        self.at = ROOM;
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Prepends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let start = self.at - bytes.len();
        self.bytes[start..self.at].copy_from_slice(bytes);
        self.at = start;
    }

    /// Prepends an integer in decimal.
    pub(crate) fn int(&mut self, value: i64) {
        let mut left = value.unsigned_abs();
        while left >= 10 {
            self.push(&PAIRS[(left % 100) as usize]);
            left /= 100;
        }
        // What is left is the first digit of an odd number of them; an even number ends in a pair, whose first is never 0.
        if left > 0 || value == 0 {
            self.push(&[b'0' + left as u8]);
        }
        if value < 0 {
            self.push(b"-");
        }
    }

    /// Prepends a float in its shortest form; a whole number without a point.
    pub(crate) fn float(&mut self, value: f32) {
        if is_small_whole(value) {
            self.int(value as i64);
        } else {
            self.push(value.to_string().as_bytes());
        }
    }

    /// Prepends a float with six decimals, as `%f` prints it.
    pub(crate) fn float_fixed(&mut self, value: f32) {
        if is_small_whole(value) {
            self.push(b".000000");
            self.int(value as i64);
        } else {
            self.push(format!("{value:.6}").as_bytes());
        }
    }
}

/// Appends an integer in decimal.
pub(crate) fn push_int(out: &mut Vec<u8>, value: i64) {
    let mut text = Backward::new();
    text.int(value);
    out.extend_from_slice(text.text());
}

/// Appends a float in its shortest form; a whole number without a point.
pub(crate) fn push_f32(out: &mut Vec<u8>, value: f32) {
    let mut text = Backward::new();
    text.float(value);
    out.extend_from_slice(text.text());
}

/// Whether the value is a whole number with the same text as an integer (so not −0).
fn is_small_whole(value: f32) -> bool {
    value.abs() < 1e6 && value.fract() == 0.0 && !(value == 0.0 && value.is_sign_negative())
}

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_the_standard_library_prints_them() {
        let mut values = vec![0, 1, 9, 10, 99, 100, 101, 1005, 1_563_249_700_000, i64::MAX, i64::MIN, -1, -10, -17];
        values.extend((0..60).map(|shift| 1_i64 << shift));
        for value in values {
            let mut out = Vec::new();
            push_int(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
        for value in [0.0_f32, -0.0, 12.0, -17.0, 3.56, 1e10, 0.1, 999_999.0, f32::MAX, f32::MIN] {
            let mut text = Backward::new();
            text.float(value);
            assert_eq!(std::str::from_utf8(text.text()).unwrap(), value.to_string());
            text.clear();
            text.float_fixed(value);
            assert_eq!(std::str::from_utf8(text.text()).unwrap(), format!("{value:.6}"));
        }
    }
}
