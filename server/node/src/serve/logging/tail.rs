//! The newest log lines, for clients that follow the log.

use std::{
    collections::VecDeque,
    fmt::{Debug, Write as _},
    sync::{Arc, LazyLock},
};

use chrono::{SecondsFormat, Utc};
use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Layer};

/// Lines kept for clients that begin to follow.
const KEPT: usize = 1_000;
/// Lines that a slow client may be behind; it then misses some.
const BEHIND: usize = 1_000;
/// Most bytes of a message or a field.
const LONGEST: usize = 4 << 10;

/// A log line.
#[derive(Debug, Clone, Serialize)]
pub(in crate::serve) struct Line {
    time: String,
    #[serde(serialize_with = "name")]
    pub(super) level: Level,
    target: String,
    message: String,
    fields: Map<String, Value>,
}

fn name<S: Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(level.as_str())
}

impl Line {
    /// Target, message and fields, as the console shows them.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{} {}", self.target, self.message);
        for (name, value) in &self.fields {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = write!(text, " {name}={value}");
        }
        text
    }

    #[cfg(test)]
    pub(super) fn of(level: Level, target: &str, message: &str, fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        Self { time: String::new(), level, target: target.to_owned(), message: message.to_owned(), fields }
    }
}

struct Tail {
    kept: Mutex<VecDeque<Arc<Line>>>,
    followers: broadcast::Sender<Arc<Line>>,
}

static TAIL: LazyLock<Tail> =
    LazyLock::new(|| Tail { kept: Mutex::default(), followers: broadcast::channel(BEHIND).0 });

/// The kept lines, oldest first, and a receiver of those that follow.
pub(in crate::serve) fn follow() -> (Vec<Arc<Line>>, broadcast::Receiver<Arc<Line>>) {
    // Locked while the receiver begins: no line is missing or repeated.
    let kept = TAIL.kept.lock();
    (kept.iter().cloned().collect(), TAIL.followers.subscribe())
}

/// Keeps the lines that its filter lets through.
pub(super) struct Keep;

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut texts = Texts::default();
        event.record(&mut texts);
        let line = Arc::new(Line {
            time: Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true),
            level: *event.metadata().level(),
            target: event.metadata().target().to_owned(),
            message: texts.message,
            fields: texts.fields,
        });
        let mut kept = TAIL.kept.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(line.clone());
        let _ = TAIL.followers.send(line); // an error means that nobody follows
    }
}

#[derive(Default)]
struct Texts {
    message: String,
    fields: Map<String, Value>,
}

impl Texts {
    fn put(&mut self, field: &Field, mut text: String) {
        text.truncate(text.floor_char_boundary(LONGEST));
        match field.name() {
            "message" => self.message = text,
            name => drop(self.fields.insert(name.to_owned(), Value::String(text))),
        }
    }
}

impl Visit for Texts {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.put(field, text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }
}
