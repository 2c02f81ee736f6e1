//! Scans decimal numbers in text and returns their exact values.

/// A scanned number.
#[derive(Debug, Clone, Copy)]
pub struct Number {
    /// Offset of the first byte, including the sign.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
    /// Whether the number has a `-`.
    pub negative: bool,
    /// Whether the number has neither point nor exponent.
    pub integral: bool,
    /// All digits as one integer without the point; meaningless for more than 19 digits.
    mantissa: u64,
    /// Number of digits, including those after the point.
    digits: usize,
    /// Number of digits after the point.
    fraction: usize,
    /// Whether the number has an exponent.
    exponent: bool,
    /// Whether the exponent lacks digits.
    torn: bool,
}

/// The powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

impl Number {
    /// Scans `[-]digits[.digits][e[±]digits]` from `start` to the first byte that is not part of it.
    #[inline]
    pub fn scan(bytes: &[u8], start: usize) -> Self {
        let negative = bytes.get(start) == Some(&b'-');
        let mut at = start + usize::from(negative);
        let mut mantissa = 0_u64;
        let mut digits = at;
        while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
            at += 1;
        }
        digits = at - digits;
        let mut number = Self {
            start,
            end: at,
            negative,
            integral: true,
            mantissa,
            digits,
            fraction: 0,
            exponent: false,
            torn: false,
        };
        if matches!(bytes.get(at), Some(b'.' | b'e' | b'E')) {
            number.scan_rest(bytes);
        }
        number
    }

    #[inline]
    fn scan_rest(&mut self, bytes: &[u8]) {
        self.integral = false;
        let mut at = self.end;
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            let first = at;
            while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
                self.mantissa = self.mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
                at += 1;
            }
            self.fraction = at - first;
            self.digits += self.fraction;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            self.exponent = true;
            at += 1;
            at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
            let first = at;
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            self.torn = at == first;
        }
        self.end = at;
    }

    /// Whether the scan found a number: at least one digit, and digits in any exponent.
    pub fn is_number(&self) -> bool {
        self.digits > 0 && !self.torn
    }

    /// The value of an integral number; `None` beyond 128 bits.
    #[inline]
    pub fn integer(&self, bytes: &[u8]) -> Option<i128> {
        if self.digits <= 19 {
            let value = i128::from(self.mantissa);
            return Some(if self.negative { -value } else { value });
        }
        std::str::from_utf8(&bytes[self.start..self.end]).ok()?.parse().ok()
    }

    /// The value of an integral number of at most 18 digits.
    #[inline]
    pub fn short_integer(&self) -> Option<i64> {
        if self.digits > 18 || !self.integral || self.digits == 0 {
            return None;
        }
        let value = self.mantissa as i64;
        Some(if self.negative { -value } else { value })
    }

    /// The nearest double; infinite if the number is too large.
    #[inline]
    pub fn double(&self, bytes: &[u8]) -> Option<f64> {
        if !self.exponent && self.digits <= 15 && self.digits > 0 {
            // Both operands are exact, so the quotient is the nearest double.
            let value = self.mantissa as f64 / POWERS[self.fraction];
            return Some(if self.negative { -value } else { value });
        }
        fast_float2::parse(&bytes[self.start..self.end]).ok()
    }

    /// The nearest 32-bit float; infinite if the number is too large.
    #[inline]
    pub fn float(&self, bytes: &[u8]) -> Option<f32> {
        if !self.exponent && self.digits <= 19 && self.fraction <= 10 && self.digits > 0 {
            let power = POWERS[self.fraction] as u64;
            let (whole, rest) =
                if self.fraction == 0 { (self.mantissa, 0) } else { (self.mantissa / power, self.mantissa % power) };
            let value = if rest == 0 && whole < 1 << 24 {
                Some(whole as f32)
            } else if self.mantissa < 1 << 24 {
                // Powers of ten up to 1e10 are exact in 32 bits too.
                Some(self.mantissa as f32 / POWERS[self.fraction] as f32)
            } else {
                None
            };
            if let Some(value) = value {
                return Some(if self.negative { -value } else { value });
            }
        }
        fast_float2::parse(&bytes[self.start..self.end]).ok()
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn every_value_is_what_the_standard_library_reads() {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..200_000 {
            let mut text = String::new();
            if rng.random_bool(0.3) {
                text.push('-');
            }
            let digits = |rng: &mut StdRng, most| {
                (0..rng.random_range(1..=most)).map(|_| (b'0' + rng.random_range(0..10)) as char).collect::<String>()
            };
            text += &digits(&mut rng, 12);
            if rng.random_bool(0.7) {
                text += ".";
                text += &if rng.random_bool(0.3) { "0".repeat(rng.random_range(1..8)) } else { digits(&mut rng, 12) };
            }
            if rng.random_bool(0.1) {
                text += &format!("e{}", rng.random_range(-60..60));
            }
            let number = Number::scan(text.as_bytes(), 0);
            assert_eq!(number.end, text.len());
            let double: f64 = text.parse().unwrap();
            let float: f32 = text.parse().unwrap();
            assert_eq!(number.double(text.as_bytes()).unwrap().to_bits(), double.to_bits(), "{text}");
            assert_eq!(number.float(text.as_bytes()).unwrap().to_bits(), float.to_bits(), "{text}");
            if number.integral {
                assert_eq!(number.integer(text.as_bytes()), text.parse().ok(), "{text}");
            }
        }
    }

    #[test]
    fn long_integers_are_exact_or_absent() {
        for text in ["18446744073709551615", "-9223372036854775809", "00000000000000000000000000001"] {
            assert_eq!(Number::scan(text.as_bytes(), 0).integer(text.as_bytes()), text.parse().ok());
        }
        let huge = "9".repeat(60);
        assert_eq!(Number::scan(huge.as_bytes(), 0).integer(huge.as_bytes()), None);
        for torn in ["", "-", ".", "1e", "1e+", "-.", "e5"] {
            assert!(!Number::scan(torn.as_bytes(), 0).is_number(), "{torn}");
        }
    }
}
