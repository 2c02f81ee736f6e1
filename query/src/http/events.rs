//! `GET /api/v1/queries/{id}/events`: the progress of a statement as Server-Sent Events.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::{Path, RawQuery, State, rejection::PathRejection},
    http::{HeaderName, StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{Stream, stream};
use tidelake_protocol::http::{Api, routes};
use tidelake_routes::Caller;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::error;
use crate::{engine::Engine, tracked::Follower};

/// Time between two events.
const EVERY: Duration = Duration::from_millis(200);
/// Time between comments that keep an idle connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Duration of a stream. The client connects again, and its rights are checked again.
const LONGEST: Duration = Duration::from_secs(15 * 60);

pub(super) async fn events(
    State(engine): State<Engine>,
    Caller(principal): Caller,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Response {
    let Ok(Path(id)) = id else {
        return error::with_status(Api::Tidelake, StatusCode::BAD_REQUEST, &error::not_text());
    };
    let mut names = url::form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes());
    let checked = names.try_for_each(|(name, _)| routes::QUERY_EVENTS.check_parameter(&name));
    match checked.and_then(|()| engine.follow(&id, &principal)) {
        Ok(follower) => {
            let headers = [(header::CACHE_CONTROL, "no-store"), (HeaderName::from_static("x-accel-buffering"), "no")];
            (headers, Sse::new(followed(follower)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))).into_response()
        }
        Err(e) => error::response(Api::Tidelake, &e),
    }
}

/// `progress` events until the statement ends, then one `end` event.
fn followed(follower: Follower) -> impl Stream<Item = Result<Event, Infallible>> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let source = Source { follower, ticks, until: Instant::now() + LONGEST, is_over: false };
    stream::unfold(source, |mut source| async move { Some((Ok(source.next().await?), source)) })
}

struct Source {
    follower: Follower,
    ticks: Interval,
    until: Instant,
    is_over: bool,
}

impl Source {
    async fn next(&mut self) -> Option<Event> {
        if self.is_over || Instant::now() >= self.until {
            return None;
        }
        let tracked = &self.follower.tracked;
        tokio::select! {
            biased;
            () = tracked.ended() => {}
            _ = self.ticks.tick() => {}
        }
        self.is_over = tracked.is_ended();
        let name = if self.is_over { "end" } else { "progress" };
        Event::default().event(name).json_data(tracked.counts()).ok()
    }
}
