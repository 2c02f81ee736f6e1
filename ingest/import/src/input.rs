//! The bytes of a file: opened several times, decompressed, bounded.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use tidelake_format::{Error, Result};

pub use crate::progress::{Progress, unwatched};
use crate::ranges::{Ranges, Sequential};

/// First bytes of gzip and zstd.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// File formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON object per line.
    Ndjson,
    /// InfluxDB line protocol.
    Line,
    /// Apache Parquet.
    Parquet,
}

impl FileFormat {
    /// The format that the extension of a file names, `.gz` and `.zst` ignored.
    pub fn of(path: &Path) -> Option<Self> {
        let ending = |path: &Path| path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let mut found = ending(path);
        if matches!(found.as_str(), "gz" | "zst") {
            found = ending(Path::new(path.file_stem().unwrap_or_default()));
        }
        match found.as_str() {
            "csv" => Some(FileFormat::Csv),
            "ndjson" | "jsonl" | "json" => Some(FileFormat::Ndjson),
            "lp" | "line" | "txt" => Some(FileFormat::Line),
            "parquet" => Some(FileFormat::Parquet),
            _ => None,
        }
    }

    /// The word for the position of a row: "row" or "line".
    pub fn place(self) -> &'static str {
        if self == FileFormat::Parquet { "row" } else { "line" }
    }
}

impl FromStr for FileFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "csv" => Ok(FileFormat::Csv),
            "ndjson" => Ok(FileFormat::Ndjson),
            "line" => Ok(FileFormat::Line),
            "parquet" => Ok(FileFormat::Parquet),
            other => Err(Error::invalid("unknown format")
                .with("expected", "csv, ndjson, line or parquet")
                .with("found", format!("{other:?}"))),
        }
    }
}

/// A file, which is read several times.
#[derive(Debug, Clone)]
pub struct Input {
    /// The name in messages; empty if messages need none.
    pub name: String,
    place: Place,
    /// The most decompressed bytes; more are an error.
    limit: u64,
    /// Whether the file may end within a compressed block.
    is_cut: bool,
}

#[derive(Debug, Clone)]
enum Place {
    Path(PathBuf),
    Open(Arc<File>),
    Ranges(Arc<dyn Ranges>),
}

/// An opened input.
pub(crate) enum Content {
    File(Arc<File>),
    Ranges(Arc<dyn Ranges>),
}

impl Input {
    /// A file by its path. It is opened when it is read.
    pub fn path(path: PathBuf) -> Self {
        Self { name: path.display().to_string(), place: Place::Path(path), limit: u64::MAX, is_cut: false }
    }

    /// An open file, read from its first byte.
    pub fn open(name: impl Into<String>, file: File) -> Self {
        Self { name: name.into(), place: Place::Open(Arc::new(file)), limit: u64::MAX, is_cut: false }
    }

    /// A file that is read in ranges.
    pub fn ranges(name: impl Into<String>, ranges: Arc<dyn Ranges>) -> Self {
        Self { name: name.into(), place: Place::Ranges(ranges), limit: u64::MAX, is_cut: false }
    }

    /// The same input with at most this many bytes after decompression.
    #[must_use]
    pub fn at_most(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// The first part of a larger file: it may end anywhere.
    #[must_use]
    pub fn cut(self) -> Self {
        Self { is_cut: true, ..self }
    }

    /// What decides whether this is still the same content: a path, or the version of a file that is read in ranges. Nothing for
    /// an input that cannot be opened again.
    pub fn origin(&self) -> Option<Origin<'_>> {
        match &self.place {
            Place::Path(path) => Some(Origin::Path(path)),
            Place::Ranges(ranges) => Some(Origin::Version(ranges.version())),
            Place::Open(_) => None,
        }
    }

    /// Opens the input.
    ///
    /// # Errors
    /// NotFound or Invalid if it cannot be opened.
    pub(crate) fn content(&self) -> Result<Content> {
        match &self.place {
            Place::Ranges(ranges) => Ok(Content::Ranges(ranges.clone())),
            Place::Open(file) => Ok(Content::File(file.clone())),
            Place::Path(path) => {
                let opened = File::open(path)
                    .map_err(|e| unreadable("cannot open the file", &e).with("file", path.display()))?;
                let is_directory = opened.metadata().is_ok_and(|metadata| metadata.is_dir());
                if is_directory {
                    return Err(Error::invalid(
                        "expected a file, found a directory: name its files, such as 'data/*.csv'",
                    ));
                }
                Ok(Content::File(Arc::new(opened)))
            }
        }
    }

    /// Size in bytes, as stored.
    ///
    /// # Errors
    /// As [`Input::reader`].
    pub fn bytes(&self) -> Result<u64> {
        match self.content()? {
            Content::File(file) => {
                let metadata = file.metadata().map_err(|e| unreadable("cannot read the size of the file", &e))?;
                Ok(metadata.len())
            }
            Content::Ranges(ranges) => Ok(ranges.bytes()),
        }
    }

    /// Reads the file from its start, decompressed if it is gzip or zstd.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn reader(&self, progress: &Progress) -> Result<Box<dyn Read + Send>> {
        let broken = |e: io::Error| unreadable("cannot read the file", &e);
        let (raw, packing): (Box<dyn Read + Send>, _) = match self.content()? {
            Content::File(file) => {
                let packing = Packing::of_file(&file).map_err(broken)?;
                (Box::new(At { file, at: 0, progress: progress.clone() }), packing)
            }
            Content::Ranges(ranges) => {
                let mut raw = Sequential::new(ranges, progress.clone());
                let packing = Packing::of(raw.peek().map_err(broken)?);
                (Box::new(raw), packing)
            }
        };
        let plain: Box<dyn Read + Send> = match packing {
            Packing::None => return Ok(raw),
            Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(256 << 10, raw))),
            Packing::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(raw);
                Box::new(decoder.map_err(|e| unreadable("cannot decompress the file", &e))?)
            }
        };
        Ok(Box::new(Unpacked { inner: plain, left: self.limit, limit: self.limit, is_cut: self.is_cut }))
    }

    /// Whether the file is compressed as a whole.
    ///
    /// # Errors
    /// As [`Input::reader`].
    pub(crate) fn is_packed(&self) -> Result<bool> {
        let found = match self.content()? {
            Content::File(file) => Packing::of_file(&file),
            Content::Ranges(ranges) if ranges.bytes() == 0 => Ok(Packing::None),
            Content::Ranges(ranges) => ranges.begin(0..ranges.bytes().min(4))().map(|first| Packing::of(&first)),
        };
        Ok(found.map_err(|e| unreadable("cannot read the file", &e))? != Packing::None)
    }
}

/// What identifies the content of an input that can be opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A file by its path.
    Path(&'a Path),
    /// The version of a file that is read in ranges.
    Version(&'a str),
}

/// The compression of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    fn of(first: &[u8]) -> Self {
        match () {
            () if first.starts_with(&GZIP) => Self::Gzip,
            () if first.starts_with(&ZSTD) => Self::Zstd,
            () => Self::None,
        }
    }

    fn of_file(file: &File) -> io::Result<Self> {
        let mut first = [0; 4];
        let read = file.read_at(&mut first, 0)?;
        Ok(Self::of(&first[..read]))
    }
}

/// Copies a stream into a temporary file that has no name: it disappears with its last handle.
///
/// # Errors
/// The stream or the temporary directory fails.
pub fn spool(mut from: impl Read, name: &str) -> Result<Input> {
    let mut file = temporary()?;
    io::copy(&mut from, &mut file).map_err(|e| unreadable("cannot copy the input to a temporary file", &e))?;
    file.flush().map_err(|e| unreadable("cannot write a temporary file", &e))?;
    Ok(Input::open(name, file))
}

/// The first part of a larger file, without its last record, which is probably incomplete.
///
/// # Errors
/// The file cannot be read.
pub fn whole_records(input: Input, format: FileFormat) -> Result<Input> {
    if format == FileFormat::Parquet {
        return Ok(input);
    }
    let input = if input.is_packed()? { spool(input.clone().cut().reader(&unwatched())?, &input.name)? } else { input };
    let reader = input.reader(&unwatched())?;
    let broken = |e: io::Error| unreadable("cannot read the file", &e);
    let end = if format == FileFormat::Csv {
        let mut reader = csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(reader);
        let (mut record, mut last) = (csv::ByteRecord::new(), 0);
        loop {
            let begin = reader.position().byte();
            match reader.read_byte_record(&mut record) {
                Ok(true) => last = begin,
                Ok(false) => break last,
                Err(error) => return Err(Error::invalid("the file cannot be read").with("reason", &error)),
            }
        }
    } else {
        let (mut reader, mut at, mut last) = (reader, 0, 0);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = reader.read(&mut buffer).map_err(broken)?;
            if read == 0 {
                break last;
            }
            if let Some(newline) = buffer[..read].iter().rposition(|byte| *byte == b'\n') {
                last = at + newline as u64 + 1;
            }
            at += read as u64;
        }
    };
    match input.content()? {
        Content::File(file) => file.set_len(end).map_err(broken)?,
        Content::Ranges(_) => return Err(Error::internal("a remote file cannot be cut")),
    }
    Ok(input)
}

/// A temporary file without a name.
///
/// # Errors
/// Unavailable if the temporary directory has no room or is not writable.
pub fn temporary() -> Result<File> {
    tempfile::tempfile().map_err(|e| {
        Error::unavailable("cannot create a temporary file")
            .with("directory", std::env::temp_dir().display())
            .with("reason", &e)
            .source(e)
    })
}

/// An error of reading or writing a file.
pub(crate) fn unreadable(what: &str, error: &io::Error) -> Error {
    let error_of = match error.kind() {
        io::ErrorKind::NotFound => Error::not_found,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::unavailable,
        _ => Error::invalid,
    };
    error_of(what.to_owned()).with("reason", error)
}

/// A position of its own in an open file.
pub(crate) struct At {
    file: Arc<File>,
    at: u64,
    progress: Progress,
}

impl At {
    pub(crate) fn new(file: Arc<File>, at: u64) -> Self {
        Self { file, at, progress: unwatched() }
    }
}

impl Read for At {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = loop {
            match self.file.read_at(buffer, self.at) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.at += read as u64;
        (self.progress)(read as u64);
        Ok(read)
    }
}

impl Seek for At {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let moved = |from: u64, by: i64| {
            from.checked_add_signed(by).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
        };
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => moved(self.at, by)?,
            SeekFrom::End(by) => moved(self.file.metadata()?.len(), by)?,
        };
        Ok(self.at)
    }
}

/// Decompressed bytes, up to a limit.
struct Unpacked {
    inner: Box<dyn Read + Send>,
    left: u64,
    limit: u64,
    is_cut: bool,
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.inner.read(buffer) {
            Err(e) if self.is_cut && e.kind() == io::ErrorKind::UnexpectedEof => 0,
            read => read?,
        };
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!("the decompressed file is larger than the limit of {} bytes", self.limit))
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &Input) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        input.reader(&unwatched()).unwrap().read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn compressed_files_are_read_as_their_content() {
        let text = b"a,b\n1,2\n".repeat(1_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        for packed in [text.clone(), gzip.clone(), zstd::encode_all(&text[..], 1).unwrap()] {
            let input = spool(&packed[..], "x").unwrap();
            assert_eq!(read(&input).unwrap(), text);
            assert_eq!(read(&input).unwrap(), text, "a second time");
            assert_eq!(input.bytes().unwrap(), packed.len() as u64);
        }
        let cut = spool(&gzip[..gzip.len() / 2], "x").unwrap();
        assert!(read(&cut).is_err());
        assert!(text.starts_with(&read(&cut.cut()).unwrap()));
        let bounded = spool(&gzip[..], "x").unwrap().at_most(1_000);
        assert!(read(&bounded).unwrap_err().to_string().contains("1000 bytes"));
    }

    #[test]
    fn the_last_record_of_a_first_part_is_dropped() {
        for (format, text, expected) in [
            (FileFormat::Csv, &b"a,b\n1,2\n3,\"x\ny"[..], &b"a,b\n1,2\n"[..]),
            (FileFormat::Csv, b"a,b\n1,2\n3,4", b"a,b\n1,2\n"),
            (FileFormat::Line, b"m v=1 1\nm v=2 2", b"m v=1 1\n"),
            (FileFormat::Ndjson, b"{}\n{\"a\"", b"{}\n"),
        ] {
            let input = whole_records(spool(text, "").unwrap(), format).unwrap();
            assert_eq!(read(&input).unwrap(), expected);
        }
    }

    #[test]
    fn an_extension_names_the_format_whatever_the_compression() {
        for (name, expected) in [
            ("a.csv", Some(FileFormat::Csv)),
            ("a.CSV.gz", Some(FileFormat::Csv)),
            ("b/a.ndjson.zst", Some(FileFormat::Ndjson)),
            ("a.lp.gz", Some(FileFormat::Line)),
            ("a.parquet", Some(FileFormat::Parquet)),
            ("a.gz", None),
            ("csv", None),
        ] {
            assert_eq!(FileFormat::of(Path::new(name)), expected, "{name}");
        }
    }
}
