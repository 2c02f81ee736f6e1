//! The papers' thermohygrometers at any scale; a seed always gives the same rows, and any part can be generated separately.
//!
//! A row is a pure function of (seed, device, row number): clients that write different devices and an oracle that
//! checks one of them share no state. Values are computed only by this module's integer arithmetic, so no new crate
//! version and no machine's mathematics library can change them.
//!
//! The model (TDengine's comparison with Cassandra and OpenTSDB, "About the dataset"):
//! device ids 1, 2, …; name `dev_<id>`; group id mod 100; one row a second from 1563249700000 ms;
//! temperature = trunc(centre + 35/3 · clip(gauss, −3, 3)), the device's centre uniform in 0..100, clamped to 35..=65;
//! humidity = trunc(centre + 17/3 · clip(gauss, −3, 3)), the device's centre uniform in 0..22.

pub(crate) mod digits;
pub mod encode;
mod feed;
pub(crate) mod random;
pub mod statements;
pub mod text;

pub use feed::{Feed, Order, Source};

use random::{Normal, mix};
use std::ops::Range;
use std::sync::LazyLock;

/// The supertable that every statement names.
pub const SUPERTABLE: &str = "devices";
/// Time of every device's first row, in milliseconds since 1970.
pub const FIRST_TS: i64 = 1_563_249_700_000;
/// Time between two rows of a device, in milliseconds.
pub const STEP_MS: i64 = 1_000;
/// Number of device groups: a device's group is its id modulo this.
pub const GROUPS: u32 = 100;

/// Spread of the temperature around its centre, both ways, in whole degrees.
const TEMPERATURE_RADIUS: i32 = 35;
/// Spread of the humidity around its centre, both ways.
const HUMIDITY_RADIUS: i32 = 17;

static TEMPERATURE: LazyLock<Normal> = LazyLock::new(|| Normal::new(TEMPERATURE_RADIUS));
static HUMIDITY: LazyLock<Normal> = LazyLock::new(|| Normal::new(HUMIDITY_RADIUS));

/// One measurement of one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Milliseconds since 1970.
    pub ts: i64,
    /// Whole degrees, 0..=100.
    pub temperature: i32,
    /// A whole number, −17..=38, stored as a float.
    pub humidity: f32,
}

/// The tags of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The device's number, from 1.
    pub devid: u32,
    /// `dev_<devid>`.
    pub devname: String,
    /// The group, 0..100.
    pub devgroup: u32,
}

impl Device {
    /// The tags that the papers' generator gives to a device number.
    pub fn numbered(devid: u32) -> Self {
        Self { devid, devname: format!("dev_{devid}"), devgroup: devid % GROUPS }
    }
}

/// A data set: `devices` × `rows`, chosen by `seed`.
///
/// # Example
/// ```
/// use tidelake_loadtest::Devices;
/// let set = Devices { devices: 1000, rows: 1000, seed: 1 };
/// assert_eq!(set.len(), 1_000_000);
/// assert_eq!(set.rows(7)[3], set.row(7, 3));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Devices {
    /// Number of devices; their ids are 1..=devices.
    pub devices: u32,
    /// Rows of each device.
    pub rows: u32,
    /// Random seed: equal seeds give equal rows.
    pub seed: u64,
}

/// Generator parameters of one device: its key and its two centres.
#[derive(Debug, Clone, Copy)]
struct Sampler {
    key: u64,
    temperature: i32,
    humidity: i32,
}

impl Sampler {
    fn new(seed: u64, devid: u32) -> Self {
        let key = mix(mix(seed.wrapping_add(random::GAMMA)) ^ u64::from(devid).wrapping_mul(random::GAMMA));
        let centres = mix(!key);
        let uniform = |bits: u64, n: u64| ((bits * n) >> 32) as i32;
        let temperature = uniform(centres >> 32, 100).clamp(TEMPERATURE_RADIUS, 100 - TEMPERATURE_RADIUS);
        let humidity = uniform(centres & 0xffff_ffff, 22);
        Self { key, temperature, humidity }
    }

    fn row(&self, number: u32) -> Row {
        let bits = mix(self.key.wrapping_add(random::GAMMA.wrapping_mul(u64::from(number) + 1)));
        Row {
            ts: FIRST_TS + i64::from(number) * STEP_MS,
            temperature: TEMPERATURE.value(self.temperature, (bits >> 32) as u32),
            humidity: HUMIDITY.value(self.humidity, bits as u32) as f32,
        }
    }
}

impl Devices {
    /// Rows in all.
    pub fn len(&self) -> u64 {
        u64::from(self.devices) * u64::from(self.rows)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids, ascending.
    pub fn ids(&self) -> Range<u32> {
        1..self.devices + 1
    }

    /// All rows of one device, oldest first.
    pub fn rows(&self, devid: u32) -> Vec<Row> {
        let mut rows = Vec::new();
        self.extend(devid, 0..self.rows, &mut rows);
        rows
    }

    /// Appends the rows `numbers` (0 is a device's first) of one device to `out`.
    pub fn extend(&self, devid: u32, numbers: Range<u32>, out: &mut Vec<Row>) {
        let sampler = Sampler::new(self.seed, devid);
        out.extend(numbers.map(|number| sampler.row(number)));
    }

    /// One row of one device; `number` 0 is its first.
    pub fn row(&self, devid: u32, number: u32) -> Row {
        Sampler::new(self.seed, devid).row(number)
    }
}

#[cfg(test)]
mod tests;
