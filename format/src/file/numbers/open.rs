//! Opens pages: decompresses them and decodes what is needed of them.

use bytes::Bytes;

use super::{
    CachedPage, Kind, Numbers, Page, StoredPage, bad,
    cached::Narrow,
    decode::{hybrid, packed_bytes, plain, raw, split},
    steps::{Steps, even},
};
use crate::{
    error::{Error, Result},
    file::page_cache::CachedChunk,
};

impl Numbers {
    /// The chunk in the cache that has room for a page.
    pub(super) fn will_hold(&self, page: &StoredPage) -> Option<&CachedChunk> {
        self.cached.as_deref().filter(|chunk| chunk.has_room(page.rows.len() * self.held_bytes))
    }

    /// Opens a page. Decodes its numbers up to the last requested row, except differences, which [`each_page`](Self::each_page)
    /// decodes; wholly if a cache will hold it. The page has requested rows up to `end` at least; `buffer` is reused for numbers.
    pub(super) fn open(&self, page: &StoredPage, end: usize, mut buffer: Vec<i64>) -> Result<Page> {
        // Another pass may have decoded it after this one had read it.
        if let Some(known) = self.cached.as_ref().and_then(|chunk| chunk.page(page.at)) {
            return Ok(Page::Whole(known.clone()));
        }
        let stored = page.stored.as_ref().ok_or_else(|| Error::internal("a page was neither read nor held"))?;
        let rows = page.rows.len();
        let holder = self.will_hold(page);
        let wanted = match holder {
            Some(_) => rows,
            None => {
                let requested = self.rows.partition_point(|range| range.start < page.rows.end);
                let last = requested.checked_sub(1).and_then(|at| self.rows.get(at)).map_or(end, |range| range.end);
                last.min(page.rows.end).saturating_sub(page.rows.start)
            }
        };
        let raw = raw(stored, self.is_compressed)?;
        let mut start = 0;
        if self.has_levels {
            // Skip the definition levels: according to the footer, no value is null.
            let len = raw.first_chunk::<4>().map(|len| u32::from_le_bytes(*len) as usize);
            start = len
                .and_then(|len| len.checked_add(4))
                .filter(|s| *s <= raw.len())
                .ok_or_else(|| bad("truncated definition levels"))?;
        }
        let opened = match &self.dictionary {
            None if self.kind == Kind::Split => Page::Numbers(split(&raw[start..], self.width, rows, wanted)?),
            None if self.kind == Kind::Plain => Page::Numbers(plain(&raw[start..], self.width, rows, wanted)?),
            None => match even(&raw[start..], rows) {
                Some((first, step)) => Page::Whole(CachedPage::Even(first, step)),
                None => {
                    // Not a new vector of zeros: for zeroed memory the allocator has the system replace the pages, and each costs a
                    // fault. Numbers are written before they are read, so only what the vector lacks is filled.
                    buffer.resize(rows, 0);
                    let body = raw.slice(start..);
                    Page::Steps(Steps::new(&body, rows)?, body, buffer)
                }
            },
            Some(dictionary) => Page::Whole(self.codes(raw, start, rows, wanted, dictionary.len())?),
        };
        let Some(chunk) = holder else { return Ok(opened) };
        let whole = match opened {
            Page::Whole(page) => page,
            Page::Numbers(numbers) => CachedPage::Numbers(Narrow::new(&numbers)),
            Page::Steps(mut steps, body, mut numbers) => {
                steps.decode(&body, rows, |_| true, &mut numbers)?;
                CachedPage::Numbers(Narrow::new(&numbers[..rows]))
            }
        };
        chunk.put(page.at, &whole);
        Ok(Page::Whole(whole))
    }

    /// The first `wanted` codes of a page of `rows` rows, which follow the byte `start` of `raw` and are indexes into a dictionary of
    /// `entries` values.
    fn codes(&self, raw: Bytes, start: usize, rows: usize, wanted: usize, entries: usize) -> Result<CachedPage> {
        let width = raw.get(start).copied().filter(|w| *w <= 8).ok_or_else(|| bad("an invalid code width"))?;
        let body = start + 1;
        let (raw, codes) = match packed_bytes(&raw[body..], rows).filter(|_| width == 8) {
            // Uncompressed pages are parts of the buffer that was read, which a cache must not hold.
            Some(codes) if self.cached.is_some() && !self.is_compressed => {
                let codes = Bytes::copy_from_slice(&raw[body + codes.start..body + codes.end]);
                let all = 0..codes.len();
                (codes, all)
            }
            Some(codes) => (raw, body + codes.start..body + codes.end),
            None => {
                let codes = hybrid(&raw[body..], width, wanted)?;
                let all = 0..codes.len();
                (codes.into(), all)
            }
        };
        // `fold` over values is vectorized; `max` over references is not.
        let largest = raw[codes.clone()].iter().fold(0, |largest: u8, code| largest.max(*code));
        if largest as usize >= entries && !codes.is_empty() {
            return Err(bad("a code outside the dictionary"));
        }
        Ok(CachedPage::Codes(raw, codes))
    }
}
