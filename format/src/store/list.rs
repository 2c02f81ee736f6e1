//! Listing: sorted, relative to the root, with page and request counts.

use futures::{TryStreamExt, future::try_join_all};
use object_store::{
    ObjectMeta, ObjectStore,
    list::{PaginatedListOptions, PaginatedListStore},
    path::Path,
};

use super::{Store, failed};
use crate::error::{Error, Result};

impl Store {
    /// Every object under `prefix` (whole path segments), sorted by key; locations are relative to the root.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        let shared = &self.shared;
        match &shared.pages {
            Some(pages) => {
                let first = self.page(pages.as_ref(), &self.below(prefix)?, None, None).await?;
                self.sorted(self.rest(pages.as_ref(), first).await?)
            }
            None => {
                let path = self.path(prefix)?;
                let listed = self.retried("list", prefix, || async {
                    shared.counters.list();
                    shared.object.list(Some(&path)).try_collect().await
                });
                self.sorted(listed.await?)
            }
        }
    }

    /// [`Store::list`] for names that begin with a random hexadecimal digit: a list of more than one page continues as
    /// 16 concurrent lists, one per digit.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub async fn list_by_digit(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        let Some(pages) = &self.shared.pages else { return self.list(prefix).await };
        let base = self.below(prefix)?;
        let first = self.page(pages.as_ref(), &base, None, None).await?;
        if first.token.is_none() {
            return self.sorted(first.objects);
        }
        let parts = (0..16).map(|digit| {
            let base = format!("{base}{digit:x}");
            async move {
                let first = self.page(pages.as_ref(), &base, None, None).await?;
                self.rest(pages.as_ref(), first).await
            }
        });
        self.sorted(try_join_all(parts).await?.into_iter().flatten().collect())
    }

    /// The object with the smallest key directly under `prefix`, in one request.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn first(&self, prefix: &str) -> Result<Option<ObjectMeta>> {
        let shared = &self.shared;
        if let Some(pages) = &shared.pages {
            let page = self.page(pages.as_ref(), &self.below(prefix)?, None, Some(1)).await?;
            return Ok(self.sorted(page.objects)?.into_iter().next());
        }
        if let Some(directory) = &shared.directory {
            shared.counters.list();
            return directory.first(&self.path(prefix)?).map_err(|e| failed(prefix, e));
        }
        Ok(self.list(prefix).await?.into_iter().next())
    }

    /// The prefix of the keys below `prefix` in the underlying store.
    fn below(&self, prefix: &str) -> Result<String> {
        let path = self.path(prefix)?;
        Ok(if path.as_ref().is_empty() { String::new() } else { format!("{path}/") })
    }

    async fn page(
        &self,
        pages: &dyn PaginatedListStore,
        prefix: &str,
        token: Option<String>,
        max_keys: Option<usize>,
    ) -> Result<Page> {
        let found = self.retried("list", prefix, || async {
            self.shared.counters.list();
            let options = PaginatedListOptions { page_token: token.clone(), max_keys, ..Default::default() };
            pages.list_paginated(Some(prefix), options).await
        });
        let found = found.await?;
        Ok(Page { prefix: prefix.to_owned(), objects: found.result.objects, token: found.page_token })
    }

    async fn rest(&self, pages: &dyn PaginatedListStore, mut page: Page) -> Result<Vec<ObjectMeta>> {
        let mut objects = Vec::new();
        loop {
            objects.append(&mut page.objects);
            let Some(token) = page.token.take() else { return Ok(objects) };
            page = self.page(pages, &page.prefix, Some(token), None).await?;
        }
    }

    fn sorted(&self, mut objects: Vec<ObjectMeta>) -> Result<Vec<ObjectMeta>> {
        for object in &mut objects {
            let relative = object.location.prefix_match(&self.shared.prefix).map(Path::from_iter);
            object.location = relative.ok_or_else(|| {
                Error::internal("the store listed an object outside the root").with("key", &object.location)
            })?;
        }
        objects.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok(objects)
    }
}

struct Page {
    prefix: String,
    objects: Vec<ObjectMeta>,
    token: Option<String>,
}
