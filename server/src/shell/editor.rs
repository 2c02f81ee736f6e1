//! The line editor: statements of several lines, with colours and completion.

use std::{borrow::Cow, cell::RefCell};

use rustyline::{
    Context, Helper, Hinter,
    completion::{Completer, Pair},
    highlight::{CmdKind, Highlighter},
    validate::{ValidationContext, ValidationResult, Validator},
};
use tokio::runtime::Handle;

use super::{
    complete::{Catalog, Offer, values},
    highlight::highlighted,
    script::is_complete,
};
use crate::client::Client;

/// What the editor knows about statements.
#[derive(Helper, Hinter)]
pub(super) struct ShellHelper {
    pub(super) catalog: Catalog,
    /// Asks for the values of tags.
    client: RefCell<Client>,
}

impl ShellHelper {
    pub(super) fn new(catalog: Catalog, client: Client) -> Self {
        Self { catalog, client: RefCell::new(client) }
    }
}

impl Completer for ShellHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, words) = match self.catalog.offer(&line[..pos], line) {
            Offer::Words(start, words) => (start, words),
            Offer::Values { start, table, column, prefix } => {
                let client = &mut *self.client.borrow_mut();
                let found = values(client, &table, &column, &prefix);
                let found = tokio::task::block_in_place(|| Handle::current().block_on(found));
                (start, found.into_iter().map(|value| format!("{}'", value.replace('\'', "''"))).collect())
            }
        };
        Ok((start, words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()))
    }
}

impl Highlighter for ShellHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        highlighted(line)
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl Validator for ShellHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_complete(context.input()) { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}
