//! Actions: prepared statements, session options and cancellation. `arrow-flight` lacks the session messages; they are defined here
//! as in `Flight.proto`.

use std::{collections::HashMap, str::FromStr, sync::Arc};

use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
    sql::{ActionCancelQueryRequest, ActionCancelQueryResult, Any, Command, ProstMessageExt},
};
use chrono_tz::Tz;
use prost::Message;
use tidelake_format::{Error, Result, access::Right};
use tonic::{codegen::Bytes, metadata::MetadataMap};

use super::{
    handle::Handle,
    service::{FlightSql, command},
    sessions,
};
use crate::{engine::Prepared, session::Session};
use tidelake_protocol::CATALOG;

const CREATE_PREPARED: &str = "CreatePreparedStatement";
const CLOSE_PREPARED: &str = "ClosePreparedStatement";
const SET_OPTIONS: &str = "SetSessionOptions";
const GET_OPTIONS: &str = "GetSessionOptions";
const CLOSE_SESSION: &str = "CloseSession";
const CANCEL: &str = "CancelFlightInfo";
/// Name of [`CANCEL`] before Arrow 13.
const CANCEL_QUERY: &str = "CancelQuery";

/// An action of this server.
struct Known {
    name: &'static str,
    /// The right to call the action. Rights for its effect are checked where it runs.
    right: Right,
    description: &'static str,
}

/// The supported actions. Any other is refused.
const ACTIONS: [Known; 7] = [
    Known {
        name: CREATE_PREPARED,
        right: Right::AnyUser,
        description: "Prepares a statement: ActionCreatePreparedStatementRequest to ActionCreatePreparedStatementResult.",
    },
    Known {
        name: CLOSE_PREPARED,
        right: Right::AnyUser,
        description: "Closes a prepared statement: ActionClosePreparedStatementRequest.",
    },
    Known {
        name: SET_OPTIONS,
        right: Right::AnyUser,
        description: "Sets catalog, schema (the database), time_zone, aggregate_levels or tag_encoding of the session; a cookie holds them.",
    },
    Known {
        name: GET_OPTIONS,
        right: Right::AnyUser,
        description: "Returns catalog, schema, time_zone, aggregate_levels and tag_encoding of the session.",
    },
    Known { name: CLOSE_SESSION, right: Right::AnyUser, description: "Ends the session: removes its cookie." },
    Known {
        name: CANCEL,
        right: Right::AnyUser,
        description: "Cancels the queries of a FlightInfo's tickets: CancelFlightInfoRequest to CancelFlightInfoResult.",
    },
    Known {
        name: CANCEL_QUERY,
        right: Right::AnyUser,
        description: "CancelFlightInfo of older clients: ActionCancelQueryRequest to ActionCancelQueryResult.",
    },
];

/// The actions with their descriptions, for ListActions.
pub(super) fn list() -> Vec<ActionType> {
    let action =
        |known: &Known| ActionType { r#type: known.name.to_owned(), description: known.description.to_owned() };
    ACTIONS.iter().map(action).collect()
}

/// Looks up an action and checks the caller's right to it.
///
/// # Errors
/// [`Kind::Unsupported`](crate::Kind::Unsupported) for an unknown action, [`Kind::Forbidden`](crate::Kind::Forbidden).
fn permitted(session: &Session, name: &str) -> Result<&'static str> {
    let known = ACTIONS
        .iter()
        .find(|known| known.name == name)
        .ok_or_else(|| Error::unsupported("unsupported action").with("action", crate::error::shorten(name)))?;
    known.right.check(&session.principal)?;
    Ok(known.name)
}

/// Value of a session option.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SessionOptionValue {
    #[prost(oneof = "OptionValue", tags = "1, 2, 3, 4, 5")]
    pub(super) value: Option<OptionValue>,
}

/// The types of option values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum OptionValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(sfixed64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Texts(TextList),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TextList {
    #[prost(string, repeated, tag = "1")]
    values: Vec<String>,
}

/// `SetSessionOptionsRequest` and `GetSessionOptionsResult`, which have the same encoding.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SessionOptions {
    #[prost(map = "string, message", tag = "1")]
    pub(super) options: HashMap<String, SessionOptionValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    pub(super) errors: HashMap<String, OptionError>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OptionError {
    #[prost(enumeration = "OptionErrorValue", tag = "1")]
    pub(super) value: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(super) enum OptionErrorValue {
    Unspecified = 0,
    InvalidName = 1,
    InvalidValue = 2,
    Error = 3,
}

#[derive(Clone, PartialEq, Message)]
struct CloseSessionResult {
    /// 1: closed.
    #[prost(int32, tag = "1")]
    status: i32,
}

impl FlightSql {
    /// Runs an action. Returns the body of its result, where it has one, and adds headers to `reply`.
    ///
    /// # Errors
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) for an unsupported action (transactions, savepoints, Substrait plans),
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a body of the wrong type.
    pub(super) async fn act(
        &self,
        session: &Session,
        action: &Action,
        reply: &mut MetadataMap,
    ) -> Result<Option<Bytes>> {
        match permitted(session, &action.r#type)? {
            CREATE_PREPARED => {
                let result = self.create_prepared(session, unpack(&action.body)?).await?;
                Ok(Some(result.as_any().encode_to_vec().into()))
            }
            CLOSE_PREPARED => {
                self.close_prepared(session, &unpack(&action.body)?)?;
                Ok(None)
            }
            SET_OPTIONS => {
                let request: SessionOptions = message(&action.body)?;
                let mut session = session.clone();
                let errors = self.set_options(&mut session, request).await?;
                sessions::remember(&session, reply);
                Ok(Some(SetSessionOptionsResult { errors }.encode_to_vec().into()))
            }
            GET_OPTIONS => Ok(Some(options_of(session).encode_to_vec().into())),
            CLOSE_SESSION => {
                sessions::forget(reply);
                Ok(Some(CloseSessionResult { status: 1 }.encode_to_vec().into()))
            }
            CANCEL => {
                let request: CancelFlightInfoRequest = message(&action.body)?;
                self.cancel(session, request.info.unwrap_or_default())?;
                Ok(Some(CancelFlightInfoResult { status: CancelStatus::Cancelled.into() }.encode_to_vec().into()))
            }
            CANCEL_QUERY => {
                let request: ActionCancelQueryRequest = unpack(&action.body)?;
                self.cancel(session, message(&request.info)?)?;
                let result = ActionCancelQueryResult { result: CancelStatus::Cancelled.into() };
                Ok(Some(result.as_any().encode_to_vec().into()))
            }
            other => Err(Error::internal("action is listed but not implemented").with("action", other)),
        }
    }

    /// Cancels the queries of a FlightInfo's tickets that run on this node or wait for their DoGet. Only their user and
    /// administrators may.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) where no query was cancelled: all have ended, run on another node, or belong to
    /// another user.
    fn cancel(&self, session: &Session, info: FlightInfo) -> Result<()> {
        let mut found = false;
        for ticket in info.endpoint.into_iter().filter_map(|endpoint| endpoint.ticket) {
            let (handle, is_unasked) = match command(&ticket.ticket)? {
                Command::TicketStatementQuery(ticket) => {
                    let key = Handle::decode(&ticket.statement_handle)?.key();
                    let is_theirs = |plan: &Arc<Prepared>| session.principal.may_end(&plan.principal);
                    (key, self.plans.take_if(&key, self.now(), is_theirs).is_some())
                }
                Command::CommandPreparedStatementQuery(ticket) => {
                    (Handle::decode(&ticket.prepared_statement_handle)?.key(), false)
                }
                // Results of other commands are available at once.
                _ => continue,
            };
            if is_unasked {
                self.cancelled.insert(handle, (), size_of::<Handle>(), self.now());
            }
            found |= self.engine.cancel(session, &handle, is_unasked);
        }
        match found {
            true => Ok(()),
            false => Err(Error::not_found("no query of this FlightInfo is running on this node")),
        }
    }

    /// Applies the valid options and returns an error for each invalid one. An empty or missing value resets an option.
    async fn set_options(
        &self,
        session: &mut Session,
        request: SessionOptions,
    ) -> Result<HashMap<String, OptionError>> {
        let mut errors = HashMap::new();
        for (name, value) in request.options {
            let text = match value.value {
                Some(OptionValue::Text(text)) => text,
                None => String::new(),
                Some(_) => {
                    errors.insert(name, OptionError { value: OptionErrorValue::InvalidValue as i32 });
                    continue;
                }
            };
            let outcome = match name.as_str() {
                "catalog" if text.is_empty() || text == CATALOG => Ok(()),
                "catalog" => Err(OptionErrorValue::InvalidValue),
                "schema" if text.is_empty() => {
                    session.database = None;
                    Ok(())
                }
                "schema"
                    if self.engine.catalog(session).await?.database(&text).is_some()
                        || text == "information_schema" =>
                {
                    session.database = Some(text);
                    Ok(())
                }
                "schema" => Err(OptionErrorValue::InvalidValue),
                "time_zone" => match crate::request::time_zone(&text) {
                    Ok(zone) => {
                        session.time_zone = zone;
                        Ok(())
                    }
                    Err(_) => Err(OptionErrorValue::InvalidValue),
                },
                "aggregate_levels" => set_option(&mut session.levels, &text),
                "tag_encoding" => set_option(&mut session.tag_encoding, &text),
                _ => Err(OptionErrorValue::InvalidName),
            };
            if let Err(error) = outcome {
                errors.insert(name, OptionError { value: error as i32 });
            }
        }
        Ok(errors)
    }
}

/// Sets an option to a text; an empty one resets it.
fn set_option<T: FromStr + Default>(option: &mut T, text: &str) -> Result<(), OptionErrorValue> {
    *option = match text {
        "" => T::default(),
        text => text.parse().map_err(|_| OptionErrorValue::InvalidValue)?,
    };
    Ok(())
}

/// The result of GetSessionOptions. ADBC reads its "current catalog" and "current schema" from it.
fn options_of(session: &Session) -> SessionOptions {
    let zone: Tz = session.time_zone;
    let mut options = HashMap::new();
    let mut set = |name: &str, text: &str| {
        let value = SessionOptionValue { value: Some(OptionValue::Text(text.to_owned())) };
        options.insert(name.to_owned(), value);
    };
    set("catalog", CATALOG);
    set("schema", session.database.as_deref().unwrap_or_default());
    set("time_zone", zone.name());
    set("aggregate_levels", &session.levels.to_string());
    set("tag_encoding", &session.tag_encoding.to_string());
    SessionOptions { options }
}

/// Decodes an action body that Flight SQL wraps in an `Any`.
fn unpack<M: ProstMessageExt>(body: &Bytes) -> Result<M> {
    let any: Any = message(body)?;
    let found = any.type_url.clone();
    any.unpack().ok().flatten().ok_or_else(|| {
        Error::invalid("action body has the wrong type")
            .with("expected", M::type_url())
            .with("found", crate::error::shorten(&found))
    })
}

fn message<M: Message + Default>(body: &Bytes) -> Result<M> {
    M::decode(body.clone()).map_err(|e| Error::invalid("action body cannot be decoded").with("reason", &e).source(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_messages_are_encoded_as_specified() {
        let value = SessionOptionValue { value: Some(OptionValue::Text("w1".into())) };
        let options = SessionOptions { options: [("schema".to_owned(), value)].into() };
        // field 1 { field 1 "schema", field 2 { field 1 "w1" } }
        let expected = [b"\x0a\x0e\x0a\x06schema\x12\x04\x0a\x02w1".as_slice()].concat();
        assert_eq!(options.encode_to_vec(), expected);
        assert_eq!(CloseSessionResult { status: 1 }.encode_to_vec(), [8, 1]);
        let error = OptionError { value: OptionErrorValue::InvalidValue as i32 };
        assert_eq!(error.encode_to_vec(), [8, 2]);
        assert_eq!(OptionError { value: OptionErrorValue::InvalidName as i32 }.encode_to_vec(), [8, 1]);
        assert_ne!(OptionErrorValue::Unspecified as i32, OptionErrorValue::Error as i32);
    }

    #[test]
    fn a_body_of_the_wrong_type_is_reported() {
        let any = arrow_flight::sql::CommandGetCatalogs::default().as_any().encode_to_vec();
        let e = unpack::<arrow_flight::sql::ActionClosePreparedStatementRequest>(&any.into()).unwrap_err();
        assert!(e.context("found").unwrap().ends_with("CommandGetCatalogs"));
    }
}
