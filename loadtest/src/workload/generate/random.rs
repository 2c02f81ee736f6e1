//! Random numbers that never change: a counter-based generator and a table for truncated normal values.

/// The step of SplitMix64: 2⁶⁴ / golden ratio, odd.
pub(crate) const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads every input bit over the output.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Bits of a random number that choose an entry of the guide.
const GUIDE_BITS: u32 = 12;

/// The distribution of radius/3 · clip(gauss, −3, 3), as far as truncation to integers can see it.
///
/// Category 0 is the value −radius exactly (gauss ≤ −3), category 2·radius + 1 is radius exactly (gauss ≥ 3), and
/// category k between them is the open interval k−1−radius .. k−radius. A 32-bit uniform number falls into
/// category k when it is less than `ends[k]` and not less than `ends[k - 1]`.
#[derive(Debug)]
pub(super) struct Normal {
    radius: i32,
    /// First number of the category after each category; the last category holds the rest.
    ends: Vec<u32>,
    /// For each value of the highest bits, the category of the lowest number that has them.
    guide: Vec<u8>,
}

impl Normal {
    /// The table for one radius, 1..=100.
    pub(super) fn new(radius: i32) -> Self {
        let whole = 4_294_967_296.0_f64;
        let ends: Vec<u32> = (-radius..=radius)
            .map(|boundary| (cumulative(f64::from(boundary) * 3.0 / f64::from(radius)) * whole).round() as u32)
            .collect();
        let guide = (0..1u32 << GUIDE_BITS)
            .map(|high| ends.partition_point(|&end| end <= high << (32 - GUIDE_BITS)) as u8)
            .collect();
        Self { radius, ends, guide }
    }

    /// trunc(centre + value) for a uniform random number; truncation is towards zero, as a cast does it in C or Java.
    pub(super) fn value(&self, centre: i32, uniform: u32) -> i32 {
        let mut category = usize::from(self.guide[(uniform >> (32 - GUIDE_BITS)) as usize]);
        while self.ends.get(category).is_some_and(|&end| uniform >= end) {
            category += 1;
        }
        let floor = centre - self.radius + category.saturating_sub(1) as i32;
        let is_whole = category == 0 || category == self.ends.len();
        if floor < 0 && !is_whole { floor + 1 } else { floor }
    }
}

/// The normal distribution's cumulative probability at `x`, −3..=3, to about 1e-14.
///
/// The Taylor series of the error function: additions, multiplications and divisions alone, which every IEEE machine
/// rounds alike.
fn cumulative(x: f64) -> f64 {
    const ONE_OVER_SQRT_TWO_PI: f64 = 0.398_942_280_401_432_7;
    let mut power = x;
    let mut sum = x;
    for n in 1..60 {
        let n = f64::from(n);
        power *= -x * x / (2.0 * n);
        sum += power / (2.0 * n + 1.0);
    }
    0.5 + ONE_OVER_SQRT_TWO_PI * sum
}
