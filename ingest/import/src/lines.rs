//! Line protocol in parts of whole lines.

use std::io::{self, BufRead};

/// Longest point whose quoted text has line breaks, in bytes.
const MOST_POINT: usize = 1 << 20;

/// Some whole lines of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The lines.
    pub body: Vec<u8>,
    /// Number of the first line, from 1.
    pub first: u64,
    /// Number of lines.
    pub lines: u64,
}

impl Part {
    /// The texts of its points.
    pub fn texts(&self) -> Texts<'_> {
        let ends = self.body.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        Texts { part: self, starts: std::iter::once(0).chain(ends).collect() }
    }
}

/// Texts of points by their lines.
pub struct Texts<'a> {
    part: &'a Part,
    /// Offset of each line.
    starts: Vec<usize>,
}

impl Texts<'_> {
    /// The text of a point by its line in the file; empty if the part has no such line.
    pub fn get(&self, line: u64) -> String {
        let Some(first) = usize::try_from(line.saturating_sub(self.part.first)).ok() else { return String::new() };
        let Some(&start) = self.starts.get(first) else { return String::new() };
        let (mut quotes, mut end) = (Quotes::default(), start);
        for &next in self.starts[first + 1..].iter().chain([&self.part.body.len()]) {
            quotes.read(&self.part.body[end..next]);
            end = next;
            if !quotes.is_open || end - start >= MOST_POINT {
                break;
            }
        }
        String::from_utf8_lossy(&self.part.body[start..end]).trim_end_matches(['\r', '\n']).to_owned()
    }
}

/// Reads a file in parts.
pub struct Parts<R> {
    reader: R,
    next: u64,
}

impl<R: BufRead> Parts<R> {
    /// Starts at the first line.
    pub fn new(reader: R) -> Self {
        Self { reader, next: 1 }
    }

    /// Skips lines; returns the number of bytes skipped.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn skip(&mut self, lines: u64) -> io::Result<u64> {
        let mut bytes = 0;
        for _ in 0..lines {
            let skipped = self.reader.skip_until(b'\n')?;
            if skipped == 0 {
                break;
            }
            (bytes, self.next) = (bytes + skipped as u64, self.next + 1);
        }
        Ok(bytes)
    }

    /// The next lines, up to about `bytes`; an empty part at the end of the file. A line break inside a quoted text does not end
    /// a part.
    ///
    /// # Errors
    /// The file cannot be read, or a line is longer than `bytes` and 1 MiB.
    pub fn next_part(&mut self, bytes: usize) -> io::Result<Part> {
        let mut part = Part { body: Vec::with_capacity(bytes), first: self.next, lines: 0 };
        while part.body.len() < bytes {
            let (start, mut quotes) = (part.body.len(), Quotes::default());
            loop {
                let read = self.line(&mut part.body)?;
                if read == 0 {
                    break;
                }
                part.lines += 1;
                quotes.read(&part.body[part.body.len() - read..]);
                // A quote that is never closed must not hold the rest of the file.
                if !quotes.is_open || part.body.len() - start >= MOST_POINT {
                    break;
                }
            }
            if part.body.len() == start {
                break;
            }
        }
        self.next += part.lines;
        Ok(part)
    }

    fn line(&mut self, body: &mut Vec<u8>) -> io::Result<usize> {
        let most = 16 * MOST_POINT;
        let read = io::Read::take(&mut self.reader, most as u64).read_until(b'\n', body)?;
        if read == most && body.last() != Some(&b'\n') {
            return Err(io::Error::other(format!("a line is longer than {} MiB", most >> 20)));
        }
        Ok(read)
    }
}

/// Whether a quote is open after some bytes; escaped quotes do not count.
#[derive(Debug, Clone, Copy, Default)]
struct Quotes {
    is_open: bool,
    is_escaped: bool,
}

impl Quotes {
    fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_open = !self.is_open,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_newline_does_not_end_a_line() {
        let is_open = |text: &[u8]| {
            let mut quotes = Quotes::default();
            quotes.read(text);
            quotes.is_open
        };
        assert!(is_open(b"m f=\"a\n") && !is_open(b"m f=\"a\\\"b\" 1\n"));
        let mut parts = Parts::new(&b"m f=\"a\nb\" 1\nm f=2 2\nm f=3 3"[..]);
        let part = parts.next_part(5).unwrap();
        assert_eq!((part.body.len(), part.first, part.lines), (12, 1, 2));
        assert_eq!(part.texts().get(1), "m f=\"a\nb\" 1");
        let part = parts.next_part(1_000).unwrap();
        assert_eq!((part.body.as_slice(), part.first, part.lines), (&b"m f=2 2\nm f=3 3"[..], 3, 2));
        assert_eq!((part.texts().get(4), part.texts().get(5)), ("m f=3 3".to_owned(), String::new()));
        assert_eq!(parts.next_part(1_000).unwrap().lines, 0);
        let mut parts = Parts::new(&b"m f=1 1\nm f=2 2\nm f=3 3"[..]);
        assert_eq!(parts.skip(2).unwrap(), 16);
        assert_eq!(parts.next_part(1_000).unwrap(), Part { body: b"m f=3 3".to_vec(), first: 3, lines: 1 });
    }

    #[test]
    fn a_quote_that_is_never_closed_does_not_hold_the_rest_of_the_file() {
        let text = ["m f=\"a\n".to_owned(), "m f=1 1\n".repeat(500_000)].concat();
        let mut parts = Parts::new(text.as_bytes());
        let part = parts.next_part(100).unwrap();
        assert!(part.body.len() < 2 * MOST_POINT, "{}", part.body.len());
    }
}
