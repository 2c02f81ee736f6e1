//! Numbers as text, cheaply: the client shares the machine with the server that it measures.

/// Appends an integer in decimal.
pub(crate) fn push_int(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut left = value.unsigned_abs();
    while left >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(left % 100) as usize]);
        left /= 100;
    }
    if left > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + left as u8;
    }
    if value < 0 {
        out.push(b'-');
    }
    // An even number of digits ends in a pair whose first digit is never 0.
    out.extend_from_slice(&digits[at..]);
}

/// Appends a float in its shortest form; a whole number without a point.
pub(crate) fn push_f32(out: &mut Vec<u8>, value: f32) {
    if is_small_whole(value) {
        push_int(out, value as i64);
    } else {
        out.extend_from_slice(value.to_string().as_bytes());
    }
}

/// Appends a float with six decimals, as `%f` prints it.
pub(crate) fn push_f32_fixed(out: &mut Vec<u8>, value: f32) {
    if is_small_whole(value) {
        push_int(out, value as i64);
        out.extend_from_slice(b".000000");
    } else {
        out.extend_from_slice(format!("{value:.6}").as_bytes());
    }
}

/// Whether the value is a whole number that an integer prints alike (so not −0).
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
        for value in [0.0_f32, -0.0, 12.0, -17.0, 3.56, 1e10, 0.1, 999_999.0] {
            let (mut short, mut fixed) = (Vec::new(), Vec::new());
            push_f32(&mut short, value);
            push_f32_fixed(&mut fixed, value);
            assert_eq!(String::from_utf8(short).unwrap(), value.to_string());
            assert_eq!(String::from_utf8(fixed).unwrap(), format!("{value:.6}"));
        }
    }
}
