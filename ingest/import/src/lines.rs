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
    /// The text of a point by its line in the file; empty if the part has no such line.
    pub fn text(&self, line: u64) -> String {
        let skipped = usize::try_from(line.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let mut lines = self.body.split_inclusive(|byte| *byte == b'\n').skip(skipped);
        let mut text = lines.next().unwrap_or_default().to_vec();
        while !balanced(&text) && text.len() < MOST_POINT {
            let Some(more) = lines.next() else { break };
            text.extend_from_slice(more);
        }
        String::from_utf8_lossy(&text).trim_end_matches(['\r', '\n']).to_owned()
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
            let start = part.body.len();
            if self.line(&mut part.body)? == 0 {
                break;
            }
            part.lines += 1;
            // A quote that is never closed spoils its own line only.
            while !balanced(&part.body[start..]) && part.body.len() - start < MOST_POINT {
                if self.line(&mut part.body)? == 0 {
                    break;
                }
                part.lines += 1;
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

/// Whether all quotes, except escaped ones, are closed.
fn balanced(line: &[u8]) -> bool {
    let (mut open, mut i) = (false, 0);
    while i < line.len() {
        match line[i] {
            b'\\' => i += 1,
            b'"' => open = !open,
            _ => {}
        }
        i += 1;
    }
    !open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_newline_does_not_end_a_line() {
        assert!(!balanced(b"m f=\"a\n"));
        assert!(balanced(b"m f=\"a\\\"b\" 1\n"));
        let mut parts = Parts::new(&b"m f=\"a\nb\" 1\nm f=2 2\nm f=3 3"[..]);
        let part = parts.next_part(5).unwrap();
        assert_eq!((part.body.len(), part.first, part.lines), (11, 1, 2));
        let part = parts.next_part(1_000).unwrap();
        assert_eq!((part.body.as_slice(), part.first, part.lines), (&b"m f=2 2\nm f=3 3"[..], 3, 2));
        assert_eq!((part.text(4), part.text(5)), ("m f=3 3".to_owned(), String::new()));
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
