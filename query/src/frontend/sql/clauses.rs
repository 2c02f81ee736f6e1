//! Rewrites TDengine's clauses in the token stream before the SQL parser runs.
//!
//! `INTERVAL(..) [SLIDING(..)] [FILL(..)]` becomes `SORT BY __window(n)`, where n is an index into [`Clauses`], and a clause
//! `PARTITION BY a, b` becomes `DISTRIBUTE BY a, b`: the parser accepts both in every select at any nesting. Durations become
//! `INTERVAL '…'`, and TAGS is removed from `SELECT TAGS`. The text of each select item is kept, as it is the item's name. Clauses
//! that the parser would misread are refused here.

use std::{collections::HashMap, ops::Range};

use datafusion::{
    common::ScalarValue,
    sql::sqlparser::{
        keywords::Keyword,
        tokenizer::{Location, Token, TokenWithSpan},
    },
};
use tidelake_format::{Error, Result};
use tidelake_protocol::sql::Duration;

use super::{
    lex::{Tok, at, duration_at, is_keyword, word},
    mistakes,
};
use crate::plan::FillMode;

/// The function that represents a window in SORT BY.
pub(crate) const WINDOW: &str = "__window";

/// An INTERVAL clause with its SLIDING and FILL.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Window {
    pub(crate) interval: Duration,
    pub(crate) offset: Duration,
    /// The step of SLIDING; `interval` without SLIDING.
    pub(crate) sliding: Duration,
    /// `None` where windows without rows are omitted from the result.
    pub(crate) fill: Option<FillClause>,
    /// Position of the clause.
    pub(crate) place: Location,
}

/// `FILL(mode)` with a mode other than NONE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FillClause {
    pub(crate) mode: FillMode,
    /// Whether the mode has the suffix `_F`: the result has all windows of the time range even if none has a row.
    pub(crate) is_forced: bool,
    /// Position of the clause.
    pub(crate) place: Location,
}

/// Clauses that the parser cannot represent, by the position of their SELECT.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clauses {
    pub(crate) windows: Vec<Window>,
    /// The text of each select item, by the position of its SELECT.
    pub(crate) items: HashMap<(u64, u64), Vec<String>>,
    /// The positions of SELECTs that return one row per series (`SELECT TAGS`).
    pub(crate) tags: Vec<(u64, u64)>,
}

/// A position as a map key.
pub(crate) fn key(place: Location) -> (u64, u64) {
    (place.line, place.column)
}

/// The part of a select that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Items,
    From,
    Where,
    Partition,
    Windowed,
    Group,
    Tail,
}

/// A select that is being read.
#[derive(Debug)]
struct Select {
    place: Location,
    stage: Stage,
    /// The items so far, as ranges of token indices. The end of the last range is not set while the stage is Items.
    items: Vec<Range<usize>>,
}

struct Rewriter<'a> {
    sql: &'a str,
    tokens: &'a [Tok],
    i: usize,
    out: Vec<TokenWithSpan>,
    /// One level outside parentheses and one per open parenthesis.
    levels: Vec<Option<Select>>,
    clauses: Clauses,
}

/// Rewrites the tokens of one statement.
///
/// # Errors
/// Invalid for a misplaced clause or wrong arguments; Unsupported for clauses that are recognised but not supported.
pub(crate) fn rewrite(sql: &str, tokens: &[Tok]) -> Result<(Vec<TokenWithSpan>, Clauses)> {
    let mut rewriter = Rewriter {
        sql,
        tokens,
        i: 0,
        out: Vec::with_capacity(tokens.len() + 16),
        levels: vec![None],
        clauses: Clauses::default(),
    };
    while rewriter.i < tokens.len() {
        rewriter.step()?;
    }
    while let Some(level) = rewriter.levels.pop() {
        rewriter.finish(level);
    }
    Ok((rewriter.out, rewriter.clauses))
}

impl Rewriter<'_> {
    fn step(&mut self) -> Result<()> {
        let tok = &self.tokens[self.i];
        match &tok.token {
            Token::LParen => {
                self.levels.push(None);
                self.keep();
            }
            Token::RParen => {
                // The parser reports an unmatched parenthesis.
                if self.levels.len() > 1
                    && let Some(level) = self.levels.pop()
                {
                    self.finish(level);
                }
                self.keep();
            }
            Token::Comma => {
                let next = self.i + 1;
                if let Some(select) = self.select()
                    && select.stage == Stage::Items
                {
                    let here = next - 1;
                    if let Some(last) = select.items.last_mut() {
                        last.end = here;
                    }
                    select.items.push(next..next);
                }
                self.keep();
            }
            Token::Number(..) if duration_at(self.tokens, self.i).is_some() => {
                let duration = self.duration(self.i)?;
                self.emit(tok, word("INTERVAL"));
                self.emit(tok, Token::SingleQuotedString(duration.interval_text()));
                self.i += 2;
            }
            Token::Word(w) if w.quote_style.is_none() => self.word()?,
            Token::CustomBinaryOperator(sign) if sign == "=~" => return self.refuse_match(),
            Token::Eq if self.peek(1).is_some_and(|t| t.token == Token::Tilde && t.start == tok.end) => {
                return self.refuse_match();
            }
            _ => self.keep(),
        }
        Ok(())
    }

    fn word(&mut self) -> Result<()> {
        let tok = &self.tokens[self.i];
        // A word after a period is a name, even if it is a keyword.
        if self.previous().is_some_and(|t| t.token == Token::Period) {
            self.keep();
            return Ok(());
        }
        if is_keyword(tok, Keyword::SELECT) {
            return self.open_select();
        }
        let paren_next = self.peek(1).is_some_and(|t| t.token == Token::LParen);
        // TDengine's functions with parentheses, which the parser reads as keywords without.
        if paren_next
            && (["current_user", "session_user", "user"].iter().any(|name| tok.is_word(name))
                || tok.is_word("top") && self.previous().is_some_and(|t| is_keyword(t, Keyword::SELECT)))
        {
            self.emit(tok, Token::make_word(&self.sql[tok.start..tok.end], Some('"')));
            self.i += 1;
            return Ok(());
        }
        if tok.is_word("interval") && paren_next {
            return self.interval();
        }
        let Some(stage) = self.select().map(|s| s.stage) else {
            self.keep();
            return Ok(());
        };
        let by_next = self.peek(1).is_some_and(|t| is_keyword(t, Keyword::BY));
        let in_source = matches!(stage, Stage::From | Stage::Where | Stage::Partition | Stage::Windowed);
        if in_source && self.after_operand() {
            self.refuse_clause(tok, paren_next)?;
        }
        if by_next {
            for keyword in [Keyword::SORT, Keyword::DISTRIBUTE, Keyword::CLUSTER] {
                if is_keyword(tok, keyword) {
                    return Err(at(
                        Error::unsupported("not a clause of this SQL; ORDER BY sorts, PARTITION BY splits")
                            .with("found", self.text(self.i..self.i + 2)),
                        tok.span.start,
                    ));
                }
            }
            if is_keyword(tok, Keyword::PARTITION) && matches!(stage, Stage::From | Stage::Where) {
                self.advance(Stage::Partition);
                self.emit(tok, word("DISTRIBUTE"));
                self.i += 1;
                self.keep();
                return Ok(());
            }
        }
        if let Token::Word(w) = &tok.token {
            match w.keyword {
                Keyword::FROM if stage == Stage::Items && !self.is_distinct_from() => self.advance(Stage::From),
                Keyword::WHERE => self.advance_in_order(tok, stage, Stage::Where)?,
                Keyword::GROUP if by_next => self.advance_in_order(tok, stage, Stage::Group)?,
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT
                    if stage != Stage::Items || !self.paren_after_except() =>
                {
                    let level = self.levels.last_mut().and_then(Option::take);
                    self.finish(level);
                }
                Keyword::HAVING | Keyword::LIMIT | Keyword::OFFSET | Keyword::QUALIFY
                    if stage != Stage::Items || self.after_operand() =>
                {
                    self.advance(Stage::Tail);
                }
                Keyword::ORDER if by_next => self.advance(Stage::Tail),
                _ => {}
            }
        }
        self.keep();
        Ok(())
    }

    /// `SELECT [DISTINCT | ALL] [TAGS]`.
    fn open_select(&mut self) -> Result<()> {
        let place = self.tokens[self.i].span.start;
        self.keep();
        while self.tokens.get(self.i).is_some_and(|t| is_keyword(t, Keyword::DISTINCT) || is_keyword(t, Keyword::ALL)) {
            self.keep();
        }
        let starts_item = |t: &Tok| {
            (t.is_name() && !is_keyword(t, Keyword::FROM) && !is_keyword(t, Keyword::AS))
                || matches!(t.token, Token::Number(..) | Token::SingleQuotedString(_))
        };
        if self.tokens.get(self.i).is_some_and(|t| t.is_word("tags")) && self.peek(1).is_some_and(starts_item) {
            self.clauses.tags.push(key(place));
            self.i += 1;
        }
        let select = Select { place, stage: Stage::Items, items: vec![self.i..self.i] };
        let level = self.levels.last_mut().expect("the outermost level is never popped");
        let before = level.replace(select);
        self.finish(before);
        Ok(())
    }

    /// `INTERVAL(width [, offset]) [SLIDING(step)] [FILL(mode)]`.
    fn interval(&mut self) -> Result<()> {
        let tok = &self.tokens[self.i];
        let place = tok.span.start;
        let stage = self.select().map(|s| s.stage);
        let refuse = |message: &str| Err(at(Error::invalid(message).with("found", "INTERVAL("), place));
        match stage {
            Some(Stage::Group) => {
                return refuse("INTERVAL cannot be combined with GROUP BY; use PARTITION BY before it");
            }
            Some(Stage::Windowed) => return refuse("a query has one INTERVAL"),
            Some(Stage::From | Stage::Where | Stage::Partition) if self.after_operand() => {}
            _ => return refuse("INTERVAL(…) is a clause: expected it after FROM, WHERE or PARTITION BY"),
        }
        self.i += 2;
        let interval = self.argument("the width of INTERVAL")?;
        let offset = if self.take(&Token::Comma) {
            if self.tokens.get(self.i).is_some_and(|t| t.is_word("auto")) {
                return Err(at(Error::unsupported("INTERVAL(…, AUTO) is not supported; give an offset"), place));
            }
            self.argument("the offset of INTERVAL")?
        } else {
            Duration::ZERO
        };
        self.close("INTERVAL")?;
        let sliding = if self.call("sliding") {
            self.i += 2;
            let sliding = self.argument("the step of SLIDING")?;
            self.close("SLIDING")?;
            sliding
        } else {
            interval
        };
        let fill = if self.call("fill") { self.fill()? } else { None };
        let n = self.clauses.windows.len();
        self.clauses.windows.push(Window { interval, offset, sliding, fill, place });
        for token in
            [word("SORT"), word("BY"), word(WINDOW), Token::LParen, Token::Number(n.to_string(), false), Token::RParen]
        {
            self.emit(tok, token);
        }
        self.advance(Stage::Windowed);
        Ok(())
    }

    /// `FILL(mode)` or `FILL(VALUE, constant, …)`; `None` for the mode NONE.
    fn fill(&mut self) -> Result<Option<FillClause>> {
        let place = self.tokens[self.i].span.start;
        self.i += 2;
        let found = self.tokens.get(self.i).map(|t| self.sql[t.start..t.end].to_uppercase()).unwrap_or_default();
        self.i += 1;
        let (name, is_forced) = match found.strip_suffix("_F") {
            Some(name) => (name, true),
            None => (found.as_str(), false),
        };
        let mode = match name {
            "NONE" if !is_forced => None,
            "NULL" => Some(FillMode::Null),
            "VALUE" => Some(FillMode::Values(self.constants()?)),
            "PREV" => Some(FillMode::Previous),
            "NEXT" => Some(FillMode::Next),
            "NEAR" => Some(FillMode::Near),
            "LINEAR" => Some(FillMode::Linear),
            _ => {
                const MODES: [&str; 7] = ["NONE", "NULL", "VALUE", "PREV", "NEXT", "NEAR", "LINEAR"];
                let error = Error::invalid("this mode of FILL does not exist").with("found", &found);
                let of_influxql = (name == "PREVIOUS").then_some("PREV");
                let error = error.suggest_or(of_influxql, name, MODES);
                return Err(at(error.with("expected one of", MODES.join(", ")), place));
            }
        };
        self.close("FILL")?;
        Ok(mode.map(|mode| FillClause { mode, is_forced, place }))
    }

    /// The constants of FILL(VALUE, …), one per filled column.
    fn constants(&mut self) -> Result<Vec<ScalarValue>> {
        let mut constants = Vec::new();
        while self.take(&Token::Comma) {
            let is_negative = self.take(&Token::Minus);
            let constant = match self.tokens.get(self.i).map(|t| &t.token) {
                Some(Token::Number(digits, _)) => number(digits, is_negative),
                Some(Token::SingleQuotedString(text)) if !is_negative => Some(ScalarValue::Utf8(Some(text.clone()))),
                Some(Token::Word(w)) if !is_negative && w.quote_style.is_none() => match w.keyword {
                    Keyword::NULL => Some(ScalarValue::Null),
                    Keyword::TRUE => Some(ScalarValue::Boolean(Some(true))),
                    Keyword::FALSE => Some(ScalarValue::Boolean(Some(false))),
                    _ => None,
                },
                _ => None,
            };
            let Some(constant) = constant else {
                let (found, place) = self.found();
                let message = "FILL(VALUE, …) takes numbers, texts, TRUE, FALSE and NULL";
                return Err(at(Error::invalid(message).with("found", found), place));
            };
            constants.push(constant);
            self.i += 1;
        }
        if constants.is_empty() {
            let (found, place) = self.found();
            let message = "FILL(VALUE, …) needs a constant for each column with an aggregate: FILL(VALUE, 0)";
            return Err(at(Error::invalid(message).with("found", found), place));
        }
        Ok(constants)
    }

    /// Refuses InfluxQL's operator `=~`.
    fn refuse_match(&self) -> Result<()> {
        let error = Error::unsupported("=~ is not an operator of this SQL").with("found", "=~");
        Err(at(error.with("use", "~ 'regular expression'"), self.tokens[self.i].span.start))
    }

    /// Refuses unsupported and misplaced clauses, which the parser would misread as an alias with columns.
    fn refuse_clause(&self, tok: &Tok, paren_next: bool) -> Result<()> {
        if let Some(error) = mistakes::clauses::refuse(self.tokens, self.i) {
            return Err(at(error, tok.span.start));
        }
        let upper = self.sql[tok.start..tok.end].to_uppercase();
        let refuse = |error: Error| Err(at(error.with("found", &upper), tok.span.start));
        match upper.as_str() {
            "STATE_WINDOW" | "SESSION" | "EVENT_WINDOW" | "COUNT_WINDOW" | "TRUE_FOR" | "EXTERNAL_WINDOW"
                if paren_next || (upper == "EVENT_WINDOW" && self.peek(1).is_some_and(|t| t.is_word("start"))) =>
            {
                refuse(
                    Error::unsupported("this window clause is not supported").with("use", "INTERVAL(…) [SLIDING(…)]"),
                )
            }
            "SLIDING" if paren_next => refuse(Error::invalid("SLIDING(…) must follow INTERVAL(…) at once")),
            "FILL" if paren_next => {
                refuse(Error::invalid("FILL(…) must follow INTERVAL(…) or INTERVAL(…) SLIDING(…) at once"))
            }
            "RANGE" | "EVERY" if paren_next => {
                let instead = "WHERE ts >= … AND ts < … INTERVAL(1m) FILL(LINEAR), with _wstart as the time";
                refuse(Error::unsupported("RANGE and EVERY (INTERP) are not supported").with("use", instead))
            }
            "SLIMIT" | "SOFFSET" if self.peek(1).is_some_and(|t| matches!(t.token, Token::Number(..))) => {
                let instead = "LIMIT, or a condition on tags that selects the groups";
                refuse(Error::unsupported("SLIMIT and SOFFSET are not supported").with("use", instead))
            }
            _ => Ok(()),
        }
    }

    /// Reads a duration as the argument of a clause.
    fn argument(&mut self, what: &str) -> Result<Duration> {
        if duration_at(self.tokens, self.i).is_some() {
            let duration = self.duration(self.i)?;
            self.i += 2;
            return Ok(duration);
        }
        // TDengine also accepts a quoted duration.
        if let Some(Tok { token: Token::SingleQuotedString(text), span, .. }) = self.tokens.get(self.i) {
            let duration = Duration::parse(text).map_err(|e| at(e, span.start))?;
            self.i += 1;
            return Ok(duration);
        }
        let (found, place) = self.found();
        Err(at(
            Error::invalid(format!("{what} is a duration: expected a whole number and one of b u a s m h d w n y"))
                .with("found", found),
            place,
        ))
    }

    fn duration(&self, i: usize) -> Result<Duration> {
        let text = &self.sql[self.tokens[i].start..self.tokens[i + 1].end];
        Duration::parse(text).map_err(|e| at(e, self.tokens[i].span.start))
    }

    fn close(&mut self, what: &str) -> Result<()> {
        if self.take(&Token::RParen) {
            return Ok(());
        }
        let (found, place) = self.found();
        Err(at(Error::invalid(format!("expected ')' to close {what}(")).with("found", found), place))
    }

    fn found(&self) -> (String, Location) {
        match self.tokens.get(self.i) {
            Some(tok) => (self.sql[tok.start..tok.end].chars().take(40).collect(), tok.span.start),
            None => ("the end".to_owned(), self.tokens.last().map_or(Location::empty(), |t| t.span.end)),
        }
    }

    /// Whether the next tokens are `name (`.
    fn call(&self, name: &str) -> bool {
        self.tokens.get(self.i).is_some_and(|t| t.is_word(name))
            && self.peek(1).is_some_and(|t| t.token == Token::LParen)
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.tokens.get(self.i).is_some_and(|t| t.token == *token);
        self.i += usize::from(found);
        found
    }

    fn peek(&self, ahead: usize) -> Option<&Tok> {
        self.tokens.get(self.i + ahead)
    }

    fn previous(&self) -> Option<&Tok> {
        self.i.checked_sub(1).map(|i| &self.tokens[i])
    }

    /// Whether the token before this one ends an operand (a name, a value, a closing parenthesis), so that a clause may follow.
    fn after_operand(&self) -> bool {
        let Some(previous) = self.previous() else { return false };
        match &previous.token {
            Token::RParen
            | Token::RBracket
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_)
            | Token::Mul => true,
            Token::Word(w) => {
                w.quote_style.is_some()
                    || !matches!(
                        w.keyword,
                        Keyword::FROM
                            | Keyword::WHERE
                            | Keyword::AND
                            | Keyword::OR
                            | Keyword::NOT
                            | Keyword::BY
                            | Keyword::BETWEEN
                            | Keyword::LIKE
                            | Keyword::ILIKE
                            | Keyword::IN
                            | Keyword::IS
                            | Keyword::JOIN
                            | Keyword::ON
                            | Keyword::AS
                            | Keyword::CASE
                            | Keyword::WHEN
                            | Keyword::THEN
                            | Keyword::ELSE
                            | Keyword::SELECT
                            | Keyword::DISTINCT
                    )
            }
            _ => false,
        }
    }

    fn is_distinct_from(&self) -> bool {
        self.previous().is_some_and(|t| is_keyword(t, Keyword::DISTINCT))
            && self.i >= 2
            && (is_keyword(&self.tokens[self.i - 2], Keyword::IS) || is_keyword(&self.tokens[self.i - 2], Keyword::NOT))
    }

    /// Whether EXCEPT is that of `* EXCEPT (a)` in the select list, not a set operation.
    fn paren_after_except(&self) -> bool {
        self.previous().is_some_and(|t| t.token == Token::Mul)
            && self.peek(1).is_some_and(|t| t.token == Token::LParen)
            && self.peek(2).is_some_and(|t| !is_keyword(t, Keyword::SELECT))
    }

    fn select(&mut self) -> Option<&mut Select> {
        self.levels.last_mut().and_then(Option::as_mut)
    }

    fn advance(&mut self, stage: Stage) {
        let here = self.i;
        if let Some(select) = self.select() {
            if select.stage == Stage::Items
                && let Some(last) = select.items.last_mut()
            {
                last.end = here;
            }
            select.stage = stage;
        }
    }

    /// WHERE and GROUP BY are not accepted after PARTITION BY or INTERVAL, which are rewritten to clauses that come later.
    fn advance_in_order(&mut self, tok: &Tok, found: Stage, next: Stage) -> Result<()> {
        let message = match (found, next) {
            (Stage::Partition, Stage::Where) => "WHERE must stand before PARTITION BY",
            (Stage::Windowed, Stage::Where) => "WHERE must stand before INTERVAL",
            (Stage::Windowed, _) => "INTERVAL cannot be combined with GROUP BY; use PARTITION BY before it",
            (Stage::Partition, _) => "PARTITION BY cannot be combined with GROUP BY; name all keys in one of them",
            _ => {
                self.advance(next);
                return Ok(());
            }
        };
        Err(at(Error::invalid(message).with("found", &self.sql[tok.start..tok.end]), tok.span.start))
    }

    fn finish(&mut self, level: Option<Select>) {
        let Some(mut select) = level else { return };
        if select.stage == Stage::Items
            && let Some(last) = select.items.last_mut()
        {
            last.end = self.i;
        }
        let texts = select.items.into_iter().map(|range| self.text(range)).collect();
        self.clauses.items.insert(key(select.place), texts);
    }

    /// The text of a range of tokens. White space and comments between tokens become one space.
    fn text(&self, range: Range<usize>) -> String {
        let mut text = String::new();
        let mut end = None;
        for tok in &self.tokens[range.start..range.end.max(range.start)] {
            if end.is_some_and(|end| end < tok.start) {
                text.push(' ');
            }
            text.push_str(&self.sql[tok.start..tok.end]);
            end = Some(tok.end);
        }
        text
    }

    fn keep(&mut self) {
        self.out.push(self.tokens[self.i].to_parser());
        self.i += 1;
    }

    fn emit(&mut self, place: &Tok, token: Token) {
        self.out.push(place.with(token).to_parser());
    }
}

/// Parses a number: as an integer where it is one and fits 64 bits, else as a float.
fn number(digits: &str, is_negative: bool) -> Option<ScalarValue> {
    let text = if is_negative { format!("-{digits}") } else { digits.to_owned() };
    if let Ok(whole) = text.parse() {
        return Some(ScalarValue::Int64(Some(whole)));
    }
    match text.parse() {
        Ok(whole) => Some(ScalarValue::UInt64(Some(whole))),
        Err(_) => text.parse().ok().filter(|v: &f64| v.is_finite()).map(|value| ScalarValue::Float64(Some(value))),
    }
}
