#![allow(clippy::unwrap_used)]

use super::*;
use std::collections::BTreeMap;

/// The generator again, from its description alone: probabilities by numerical integration instead of a series, a search
/// through all boundaries instead of a table, and no shared code.
mod naive {
    pub(super) fn splitmix(z: u64) -> u64 {
        let z = u128::from(z);
        let m = u128::from(u64::MAX);
        let z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & m;
        let z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & m;
        (z ^ (z >> 31)) as u64
    }

    /// The probability that a normal variable is less than x, by Simpson's rule.
    pub(super) fn phi(x: f64) -> f64 {
        let steps = 2000;
        let width = x / steps as f64;
        let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let sum: f64 = (0..=steps)
            .map(|i| {
                let weight = if i == 0 || i == steps {
                    1.0
                } else if i % 2 == 1 {
                    4.0
                } else {
                    2.0
                };
                weight * density(i as f64 * width)
            })
            .sum();
        0.5 + sum * width / 3.0
    }

    /// Boundaries of a radius in units of 2^-32.
    pub(super) fn boundaries(radius: i32) -> Vec<u64> {
        (-radius..=radius)
            .map(|b| (phi(3.0 * f64::from(b) / f64::from(radius)) * 4294967296.0).round() as u64)
            .collect()
    }

    pub(super) fn value(boundaries: &[u64], radius: i32, centre: i32, uniform: u64) -> i32 {
        let passed = boundaries.iter().filter(|&&b| b <= uniform).count() as i32;
        if passed == 0 {
            return centre - radius;
        }
        if passed == 2 * radius + 1 {
            return centre + radius;
        }
        // Somewhere inside the interval: its middle truncates like all of it.
        (f64::from(centre - radius + passed) - 0.5).trunc() as i32
    }

    pub(super) fn row(seed: u64, devid: u64, number: u64) -> (i64, i32, f32) {
        const GAMMA: u64 = 0x9e3779b97f4a7c15;
        let key = splitmix(splitmix(seed.wrapping_add(GAMMA)) ^ devid.wrapping_mul(GAMMA));
        let centres = splitmix(u64::MAX - key);
        let centre = (((centres >> 32) * 100) >> 32) as i32;
        let temperature_centre = centre.clamp(35, 65);
        let humidity_centre = (((centres % (1 << 32)) * 22) >> 32) as i32;
        let bits = splitmix(key.wrapping_add((number + 1).wrapping_mul(GAMMA)));
        (
            1563249700000 + 1000 * number as i64,
            value(&boundaries(35), 35, temperature_centre, bits >> 32),
            value(&boundaries(17), 17, humidity_centre, bits % (1 << 32)) as f32,
        )
    }
}

#[test]
fn rows_equal_those_of_an_independent_implementation() {
    for seed in [0, 1, u64::MAX] {
        let set = Devices { devices: 300, rows: 20, seed };
        for devid in [1, 2, 99, 100, 101, 300] {
            for (number, row) in set.rows(devid).iter().enumerate() {
                let (ts, temperature, humidity) = naive::row(seed, u64::from(devid), number as u64);
                assert_eq!(*row, Row { ts, temperature, humidity }, "seed {seed} device {devid} row {number}");
                assert_eq!(*row, set.row(devid, number as u32));
            }
        }
    }
}

#[test]
fn the_first_devices_of_seed_one_never_change() {
    let set = Devices { devices: 10, rows: 1000, seed: 1 };
    // The expected value comes from a Python script of the same description, with `math.erfc` for the probabilities.
    // FNV-1a over ts, temperature and humidity of each row as little-endian 64-bit integers.
    let mut hash = 0xcbf29ce484222325_u64;
    for devid in set.ids() {
        for row in set.rows(devid) {
            for value in [row.ts, i64::from(row.temperature), row.humidity as i64] {
                for byte in value.to_le_bytes() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3);
                }
            }
        }
    }
    assert_eq!(hash, 14_530_678_432_380_833_941);
}

#[test]
fn a_device_is_the_same_in_a_larger_set() {
    let small = Devices { devices: 10, rows: 50, seed: 7 };
    let large = Devices { devices: 1000, rows: 80, seed: 7 };
    assert_eq!(small.rows(10)[..], large.rows(10)[..50]);
    assert_ne!(small.rows(10), Devices { seed: 8, ..small }.rows(10));
    assert_ne!(small.rows(9), small.rows(10));
}

#[test]
fn centres_values_and_clipping_follow_the_papers_model() {
    let set = Devices { devices: 2000, rows: 2000, seed: 42 };
    let (mut centres, mut clipped) = (BTreeMap::<i64, u32>::new(), 0_u32);
    let mut humidity_centres = BTreeMap::<i64, u32>::new();
    let mut squares = 0.0;
    for devid in set.ids() {
        let rows = set.rows(devid);
        assert!(rows.iter().all(|row| (0..=100).contains(&row.temperature) && (-17.0..=38.0).contains(&row.humidity)));
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / f64::from(set.rows);
        let temperature = mean(&mut rows.iter().map(|row| f64::from(row.temperature)));
        // Truncation of positive values takes half a degree off the mean.
        let centre = temperature + 0.5;
        assert!((34.0..=66.0).contains(&centre), "device {devid} has centre {centre}");
        *centres.entry(centre.round() as i64).or_default() += 1;
        let humidity = mean(&mut rows.iter().map(|row| f64::from(row.humidity)));
        *humidity_centres.entry((humidity + 0.5).round() as i64).or_default() += 1;
        squares += mean(&mut rows.iter().map(|row| (f64::from(row.temperature) - temperature).powi(2)));
        let low = rows.iter().map(|row| row.temperature).min().unwrap();
        let high = rows.iter().map(|row| row.temperature).max().unwrap();
        clipped += u32::from(high - low == 70);
    }
    // 0..=35 all become 35 and 65..=99 all become 65: 36 % and 35 % of the devices; the rest spread evenly.
    let near = |centre: i64| (centre - 1..=centre + 1).map(|c| centres.get(&c).copied().unwrap_or(0)).sum::<u32>();
    assert!((640..=860).contains(&near(35)) && (620..=840).contains(&near(65)), "{centres:?}");
    assert!(
        humidity_centres.len() >= 21 && humidity_centres.values().all(|&count| count < 250),
        "{humidity_centres:?}"
    );
    // The variance of 35/3 · gauss, clipped at three sigmas (which takes a hundredth off), plus that of rounding.
    let variance = squares / f64::from(set.devices);
    assert!((variance - (35.0_f64 / 3.0).powi(2)).abs() < 2.0, "{variance}");
    // 2.7 of 2000 rows lie on each end: nearly every device touches both.
    assert!(clipped > 1600, "{clipped} of 2000 devices touch both ends");
}

#[test]
fn the_values_have_the_entropy_that_the_size_floor_is_computed_from() {
    let set = Devices { devices: 100, rows: 10_000, seed: 3 };
    let mut bits = 0.0;
    for devid in set.ids() {
        let rows = set.rows(devid);
        for column in [0, 1] {
            let mut counts = BTreeMap::<i64, u32>::new();
            for row in &rows {
                let value = if column == 0 { i64::from(row.temperature) } else { row.humidity as i64 };
                *counts.entry(value).or_default() += 1;
            }
            bits += counts.values().map(|&n| f64::from(n) / 1e4).map(|p| -p * p.log2()).sum::<f64>();
        }
    }
    let bytes_per_row = bits / 100.0 / 8.0;
    assert!((1.25..1.27).contains(&bytes_per_row), "{bytes_per_row} bytes a row");
}

#[test]
fn shares_of_any_number_of_clients_make_up_the_whole() {
    let set = Devices { devices: 11, rows: 7, seed: 5 };
    let expected: BTreeMap<(u32, i64), Row> =
        set.ids().flat_map(|id| set.rows(id).into_iter().map(move |row| ((id, row.ts), row))).collect();
    for order in [Order::Device, Order::Time] {
        for clients in [1, 3, 11, 20] {
            let mut found = BTreeMap::new();
            for mut feed in Source::Generated(set, order).feeds(clients) {
                let mut last = None;
                loop {
                    let mut count = 0;
                    let rows = feed
                        .next(5, &mut |device, rows| {
                            assert_eq!(*device, Device::numbered(device.devid));
                            count += rows.len();
                            for row in rows {
                                let key = match order {
                                    Order::Device => (i64::from(device.devid), row.ts),
                                    Order::Time => (row.ts, i64::from(device.devid)),
                                };
                                assert!(last < Some(key), "{order:?}");
                                last = Some(key);
                                assert!(found.insert((device.devid, row.ts), *row).is_none());
                            }
                        })
                        .unwrap();
                    assert_eq!(rows, count);
                    if rows == 0 {
                        break;
                    }
                }
            }
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn text_files_hold_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let set = Devices { devices: 230, rows: 9, seed: 5 };
    let mut heard = 0;
    let bytes = text::write_files(&set, dir.path(), &mut |rows| heard = rows).unwrap();
    assert_eq!(heard, set.len());
    let paths = text::files(dir.path()).unwrap();
    assert_eq!(paths.len(), 3);
    assert_eq!(bytes, paths.iter().map(|path| std::fs::metadata(path).unwrap().len()).sum::<u64>());
    let first = std::fs::read_to_string(&paths[0]).unwrap();
    let words: Vec<&str> = first.lines().next().unwrap().split(' ').collect();
    let row = set.row(1, 0);
    let (temperature, humidity) = (row.temperature.to_string(), row.humidity.to_string());
    assert_eq!(words, ["1", "dev_1", "1", "1563249700000", temperature.as_str(), humidity.as_str()]);

    let collect = |source: Source| {
        let mut rows = Vec::new();
        for mut feed in source.feeds(2) {
            while feed.next(4, &mut |device, run| rows.extend(run.iter().map(|row| (device.clone(), *row)))).unwrap()
                > 0
            {}
        }
        rows
    };
    let mut read = collect(Source::directory(dir.path()).unwrap());
    read.sort_by_key(|(device, row)| (device.devid, row.ts));
    assert_eq!(read, collect(Source::Generated(set, Order::Device)));
}

#[test]
fn a_bad_line_names_its_file_its_number_and_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Source::directory(dir.path()).unwrap_err().to_string().contains("testdata0.csv"));
    let path = dir.path().join("testdata0.csv");
    std::fs::write(&path, "1 dev_1 1 1563249700000 40 12.50\n1 dev_1 1 oops 40 12\n").unwrap();
    let mut feed = Source::directory(dir.path()).unwrap().feeds(1).remove(0);
    let mut rows = Vec::new();
    let error = format!("{:#}", feed.next(10, &mut |_, run| rows.extend_from_slice(run)).unwrap_err());
    assert!(error.contains("testdata0.csv line 2") && error.contains("ts") && error.contains("oops"), "{error}");
    assert!(text::parse_line(b"1 dev_1 1 1563249700000 40").unwrap_err().to_string().contains("found 5"));
    let line = text::parse_line(b"7 d7 3 5 -1 12.500000\r\n").unwrap();
    let row = Row { ts: 5, temperature: -1, humidity: 12.5 };
    assert_eq!(line, text::Line { devid: 7, devname: "d7", devgroup: 3, row });
}
