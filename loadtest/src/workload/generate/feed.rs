//! Rows in the order in which a client writes them.

use super::{Device, Devices, Row, Sampler, text};
use anyhow::Result;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The order of rows within one client's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// All rows of a device, then the next device, as the papers' programs write.
    #[default]
    Device,
    /// One row of every device, then the next second, as devices report.
    Time,
}

/// Where rows come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Generated while writing.
    Generated(Devices, Order),
    /// Read from text files, in file order; each file belongs to one client.
    Files(Vec<PathBuf>),
}

impl Source {
    /// The text files of a directory, as [`text::write_files`] or the papers' generator left them.
    ///
    /// # Errors
    /// The directory cannot be read or has no such file.
    pub fn directory(dir: &Path) -> Result<Self> {
        Ok(Self::Files(text::files(dir)?))
    }

    /// Total rows, if known before reading.
    pub fn len(&self) -> Option<u64> {
        match self {
            Self::Generated(devices, _) => Some(devices.len()),
            Self::Files(_) => None,
        }
    }

    /// Whether the source is known to be empty.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Splits the rows into `clients` shares of whole devices (or files), as even as those allow; some may be empty.
    pub fn feeds(&self, clients: usize) -> Vec<Feed> {
        let clients = clients.max(1);
        let share = |total: usize, client: usize| total * client / clients..total * (client + 1) / clients;
        (0..clients)
            .map(|client| match self {
                Self::Generated(set, order) => {
                    let ids = share(set.devices as usize, client);
                    Feed(Inner::Generated(Generated::new(*set, *order, ids.start as u32 + 1..ids.end as u32 + 1)))
                }
                Self::Files(paths) => Feed(Inner::Text(text::Reader::new(paths[share(paths.len(), client)].to_vec()))),
            })
            .collect()
    }
}

/// One client's share of a [`Source`].
#[derive(Debug)]
pub struct Feed(Inner);

#[derive(Debug)]
enum Inner {
    Generated(Generated),
    Text(text::Reader),
}

impl Feed {
    /// Passes on the next `rows` rows (fewer at the end) in runs of one device each; returns the number of rows,
    /// 0 at the end.
    ///
    /// # Errors
    /// An unreadable text file or an invalid line.
    pub fn next(&mut self, rows: usize, each: &mut dyn FnMut(&Device, &[Row])) -> Result<usize> {
        match &mut self.0 {
            Inner::Generated(generated) => Ok(generated.next(rows, each)),
            Inner::Text(reader) => reader.next(rows, each),
        }
    }
}

/// Rows of a range of devices, generated on demand.
#[derive(Debug)]
struct Generated {
    set: Devices,
    order: Order,
    devices: Vec<(Device, Sampler)>,
    /// Position of the next row: index into `devices`, and its row number.
    at: (usize, u32),
    buffer: Vec<Row>,
}

impl Generated {
    fn new(set: Devices, order: Order, ids: Range<u32>) -> Self {
        let devices = ids.map(|devid| (Device::numbered(devid), Sampler::new(set.seed, devid))).collect();
        Self { set, order, devices, at: (0, 0), buffer: Vec::new() }
    }

    fn next(&mut self, rows: usize, each: &mut dyn FnMut(&Device, &[Row])) -> usize {
        let mut done = 0;
        while done < rows && self.at.0 < self.devices.len() && self.at.1 < self.set.rows {
            let (index, number) = self.at;
            let (device, sampler) = &self.devices[index];
            match self.order {
                Order::Device => {
                    let count = ((rows - done) as u64).min(u64::from(self.set.rows - number)) as u32;
                    self.buffer.clear();
                    self.buffer.extend((number..number + count).map(|number| sampler.row(number)));
                    each(device, &self.buffer);
                    done += count as usize;
                    self.at = if number + count == self.set.rows { (index + 1, 0) } else { (index, number + count) };
                }
                Order::Time => {
                    each(device, &[sampler.row(number)]);
                    done += 1;
                    self.at = if index + 1 == self.devices.len() { (0, number + 1) } else { (index + 1, number) };
                }
            }
        }
        done
    }
}
