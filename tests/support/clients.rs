//! Clients of the public protocols: HTTP and Flight SQL.

use std::time::Duration;

use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};

/// A reply of an HTTP endpoint.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The read-your-writes token, if any.
    pub token: Option<String>,
    /// All headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body.
    pub body: String,
}

impl Reply {
    /// The value of a header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("not JSON ({e}): {}", self.body))
    }
}

/// An HTTP client of one server.
#[derive(Clone)]
pub struct Http {
    client: reqwest::Client,
    url: String,
}

impl Http {
    /// A client with a timeout of two minutes per request.
    pub fn new(url: &str) -> Self {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(120)).build().expect("a client");
        Self { client, url: url.to_owned() }
    }

    /// Posts a body with headers.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Result<Reply, reqwest::Error> {
        let mut request = self.client.post(format!("{}{path}", self.url)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let reply = request.send().await?;
        let token = reply.headers().get("x-tidelake-token").and_then(|t| t.to_str().ok()).map(str::to_owned);
        let headers = reply.headers().clone();
        Ok(Reply { status: reply.status().as_u16(), token, headers, body: reply.text().await? })
    }

    /// Gets a path.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn get(&self, path: &str) -> Result<Reply, reqwest::Error> {
        let reply = self.client.get(format!("{}{path}", self.url)).send().await?;
        let headers = reply.headers().clone();
        Ok(Reply { status: reply.status().as_u16(), token: None, headers, body: reply.text().await? })
    }

    /// Runs a statement of TDengine's SQL at `/rest/sql` and returns its rows.
    ///
    /// # Panics
    /// When the reply is not code 0.
    pub async fn rest_sql(&self, sql: &str) -> Vec<Vec<Value>> {
        let reply = self.post("/rest/sql", &[], sql.to_owned()).await.expect("a reply");
        let json = reply.json();
        assert_eq!(json["code"], 0, "{sql}: {json}");
        let rows = json["data"].as_array().expect("rows");
        rows.iter().map(|row| row.as_array().expect("a row").clone()).collect()
    }

    /// Runs a statement at `/api/v1/sql` and returns its rows.
    ///
    /// # Panics
    /// When the reply is not 200.
    pub async fn sql(&self, sql: &str) -> Vec<Vec<Value>> {
        let reply = self.post("/api/v1/sql?format=json", &[], sql.to_owned()).await.expect("a reply");
        assert_eq!(reply.status, 200, "{sql}: {}", reply.body);
        let json = reply.json();
        let rows = json["data"].as_array().expect("rows");
        rows.iter().map(|row| row.as_array().expect("a row").clone()).collect()
    }

    /// Folds and merges now, as far as `until` says: `fold`, `due` or `full`.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn compact(&self, until: &str) -> Value {
        let reply = self.post(&format!("/api/v1/compact?until={until}"), &[], "").await.expect("a reply");
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    }
}

/// A Flight SQL client of one server.
pub struct Flight {
    client: FlightSqlServiceClient<Channel>,
}

impl Flight {
    /// Connects.
    ///
    /// # Panics
    /// When no server answers.
    pub async fn connect(url: &str) -> Self {
        let endpoint = Endpoint::from_shared(url.to_owned()).expect("a URL").connect_timeout(Duration::from_secs(10));
        let channel = endpoint.connect().await.expect("a connection");
        Self { client: FlightSqlServiceClient::new(channel) }
    }

    /// The client itself.
    pub fn client(&mut self) -> &mut FlightSqlServiceClient<Channel> {
        &mut self.client
    }

    /// Runs a statement; the rows in one batch.
    ///
    /// # Errors
    /// The server's message.
    pub async fn query(&mut self, sql: &str) -> Result<RecordBatch, String> {
        let info = self.client.execute(sql.to_owned(), None).await.map_err(|e| e.to_string())?;
        let schema: SchemaRef = info.clone().try_decode_schema().map_err(|e| e.to_string())?.into();
        let mut batches = Vec::new();
        for endpoint in info.endpoint {
            let ticket = endpoint.ticket.ok_or("an endpoint without a ticket")?;
            let stream = self.client.do_get(ticket).await.map_err(|e| e.to_string())?;
            batches.extend(stream.try_collect::<Vec<_>>().await.map_err(|e| e.to_string())?);
        }
        concat_batches(&schema, &batches).map_err(|e| e.to_string())
    }
}
