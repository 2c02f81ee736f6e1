//! The figures and the log as Server-Sent Events.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, stream};
use serde::Serialize;
use tokio::{
    sync::{
        broadcast::{Receiver, error::RecvError},
        watch,
    },
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until},
};

use super::{
    super::logging::{tail, wanted::Wanted},
    Figures,
};

/// Time between two events with figures.
const EVERY: Duration = Duration::from_secs(1);
/// Time between comments that keep an idle connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Duration of a stream. The client connects again, and its rights are checked again.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// `node` events, one a second, up to `count`, and `log` events of the wanted lines: the newest at first, then each as it is logged.
pub(in crate::serve) fn events(
    figures: Figures,
    stopped: watch::Receiver<bool>,
    count: Option<u32>,
    wanted: Wanted,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (lines, followed) = tail::follow();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let earlier = lines.into_iter().filter(|line| wanted.has(line)).collect();
    let left = count.unwrap_or(u32::MAX);
    let source = Source { figures, stopped, ticks, left, wanted, earlier, followed, end: Instant::now() + LONGEST };
    let events = stream::unfold(source, |mut source| async move { Some((Ok(source.next().await?), source)) });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

struct Source {
    figures: Figures,
    stopped: watch::Receiver<bool>,
    ticks: Interval,
    /// Number of `node` events to send.
    left: u32,
    wanted: Wanted,
    earlier: VecDeque<Arc<tail::Line>>,
    followed: Receiver<Arc<tail::Line>>,
    end: Instant,
}

impl Source {
    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Event> {
        if let Some(line) = self.earlier.pop_front() {
            return event("log", &*line);
        }
        while self.left > 0 {
            tokio::select! {
                () = stopped(&mut self.stopped) => return None,
                () = sleep_until(self.end) => return None,
                _ = self.ticks.tick() => {
                    self.left -= 1;
                    return event("node", &*self.figures.node().await);
                }
                line = self.followed.recv() => match line {
                    Ok(line) if self.wanted.has(&line) => return event("log", &*line),
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                },
            }
        }
        None
    }
}

/// Waits until the server stops.
async fn stopped(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await; // an error means that the server is gone
}

fn event(name: &str, data: &impl Serialize) -> Option<Event> {
    Event::default().event(name).json_data(data).ok()
}
