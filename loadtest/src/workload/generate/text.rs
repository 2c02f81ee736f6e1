//! The papers' text files: one row per line, `devid devname devgroup ts temperature humidity`, separated by spaces.
//!
//! The papers' generator names its files `testdata0.csv`, `testdata1.csv`, … and prints whole numbers; the reader also
//! takes a humidity with decimals. Files of that generator and of ours read the same.

use super::digits::{push_f32, push_int};
use super::{Device, Devices, Row};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Maximum length of a line, in bytes: far longer than any row; bounds memory for files that are not text.
const MAX_LINE: usize = 4096;
/// Devices in one file, as in the papers' 100 files of 100 devices.
const DEVICES_PER_FILE: u32 = 100;

/// Writes a data set as text files of 100 devices each, and returns the number of bytes.
///
/// The directory is created; files of these names in it are replaced. `progress` gets the number of rows written.
///
/// # Errors
/// Any error of the file system.
pub fn write_files(set: &Devices, dir: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64> {
    std::fs::create_dir_all(dir).with_context(|| format!("create directory {}", dir.display()))?;
    let (mut bytes, mut rows_done) = (0, 0);
    let (mut rows, mut line) = (Vec::new(), Vec::new());
    for (number, first) in set.ids().step_by(DEVICES_PER_FILE as usize).enumerate() {
        let path = dir.join(format!("testdata{number}.csv"));
        let write = |error| anyhow::Error::new(error).context(format!("write {}", path.display()));
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(write)?);
        for devid in first..(first + DEVICES_PER_FILE).min(set.devices + 1) {
            let device = Device::numbered(devid);
            rows.clear();
            set.extend(devid, 0..set.rows, &mut rows);
            for row in &rows {
                line.clear();
                push_line(&mut line, &device, row);
                file.write_all(&line).map_err(write)?;
                bytes += line.len() as u64;
            }
            rows_done += rows.len() as u64;
            progress(rows_done);
        }
        file.flush().map_err(write)?;
    }
    Ok(bytes)
}

fn push_line(line: &mut Vec<u8>, device: &Device, row: &Row) {
    push_int(line, i64::from(device.devid));
    line.push(b' ');
    line.extend_from_slice(device.devname.as_bytes());
    line.push(b' ');
    push_int(line, i64::from(device.devgroup));
    line.push(b' ');
    push_int(line, row.ts);
    line.push(b' ');
    push_int(line, i64::from(row.temperature));
    line.push(b' ');
    push_f32(line, row.humidity);
    line.push(b'\n');
}

/// The data files of a directory: names `testdata<number>.csv`, by number.
///
/// # Errors
/// The directory cannot be read, or holds no such file.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("read directory {}", dir.display()))? {
        let path = entry?.path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_prefix("testdata")?.strip_suffix(".csv")?.parse::<u64>().ok());
        found.extend(number.map(|number| (number, path)));
    }
    if found.is_empty() {
        bail!("no data in {}: expected files testdata0.csv, testdata1.csv, …", dir.display());
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Reads files one after the other.
#[derive(Debug)]
pub(super) struct Reader {
    /// Still to be opened, last first.
    waiting: Vec<PathBuf>,
    open: Option<(PathBuf, BufReader<File>, u64)>,
    line: Vec<u8>,
    /// The device of the last line that was read.
    device: Device,
    /// The row of that line, when the line belongs to the next run.
    held: Option<Row>,
    buffer: Vec<Row>,
}

impl Reader {
    pub(super) fn new(mut paths: Vec<PathBuf>) -> Self {
        paths.reverse();
        Self {
            waiting: paths,
            open: None,
            line: Vec::new(),
            device: Device::numbered(0),
            held: None,
            buffer: Vec::new(),
        }
    }

    pub(super) fn next(&mut self, rows: usize, each: &mut dyn FnMut(&Device, &[Row])) -> Result<usize> {
        let mut done = 0;
        while done < rows {
            let Some(first) = self.next_row()?.map(|(row, _)| row) else { break };
            let device = self.device.clone();
            self.buffer.clear();
            self.buffer.push(first);
            while done + self.buffer.len() < rows {
                match self.next_row()? {
                    Some((row, Same::Device)) => self.buffer.push(row),
                    Some((row, Same::Not)) => {
                        self.held = Some(row);
                        break;
                    }
                    None => break,
                }
            }
            done += self.buffer.len();
            each(&device, &self.buffer);
        }
        Ok(done)
    }

    /// The next row, and whether its device is that of the row before it.
    fn next_row(&mut self) -> Result<Option<(Row, Same)>> {
        if let Some(row) = self.held.take() {
            return Ok(Some((row, Same::Not)));
        }
        loop {
            let Some((path, reader, number)) = &mut self.open else {
                let Some(path) = self.waiting.pop() else { return Ok(None) };
                let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
                self.open = Some((path, BufReader::with_capacity(1 << 20, file), 0));
                continue;
            };
            self.line.clear();
            let limited = &mut std::io::Read::take(&mut *reader, MAX_LINE as u64);
            let read = limited.read_until(b'\n', &mut self.line).with_context(|| format!("read {}", path.display()))?;
            if read == 0 {
                self.open = None;
                continue;
            }
            *number += 1;
            let parsed = parse_line(&self.line).with_context(|| format!("{} line {number}", path.display()))?;
            let device = &mut self.device;
            if device.devid == parsed.devid && device.devname == parsed.devname && device.devgroup == parsed.devgroup {
                return Ok(Some((parsed.row, Same::Device)));
            }
            *device = Device { devid: parsed.devid, devname: parsed.devname.to_owned(), devgroup: parsed.devgroup };
            return Ok(Some((parsed.row, Same::Not)));
        }
    }
}

/// Whether two lines belong to the same device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Same {
    Device,
    Not,
}

/// One parsed line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line<'a> {
    /// The device's number.
    pub devid: u32,
    /// The device's name.
    pub devname: &'a str,
    /// The device's group.
    pub devgroup: u32,
    /// The measurement.
    pub row: Row,
}

/// Parses one line, with or without its end.
///
/// # Errors
/// Too few or too many words, or an invalid number.
pub fn parse_line(line: &[u8]) -> Result<Line<'_>> {
    let text = std::str::from_utf8(line).context("not UTF-8")?;
    let mut words = [""; 6];
    let mut count = 0;
    for word in text.split_ascii_whitespace() {
        if let Some(place) = words.get_mut(count) {
            *place = word;
        }
        count += 1;
    }
    if count != words.len() {
        bail!("expected 6 words (devid devname devgroup ts temperature humidity), found {count}");
    }
    let [devid, devname, devgroup, ts, temperature, humidity] = words;
    Ok(Line {
        devid: number("devid", devid)?,
        devname,
        devgroup: number("devgroup", devgroup)?,
        row: Row {
            ts: number("ts", ts)?,
            temperature: number("temperature", temperature)?,
            humidity: number("humidity", humidity)?,
        },
    })
}

fn number<T>(name: &str, word: &str) -> Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    word.parse().with_context(|| format!("{name}: expected a number, found {word:?}"))
}
