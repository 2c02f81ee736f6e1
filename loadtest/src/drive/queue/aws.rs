//! Signed requests to SQS, with endpoint and credentials from the environment.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use axum::http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Limited};
use object_store::{
    ClientOptions,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredentialProvider},
    client::{HttpClient, HttpConnector, HttpRequestBody, ReqwestConnector},
};

/// Timeout of one request.
const LIMIT: Duration = Duration::from_secs(20);
/// Maximum size of a reply, in bytes.
const MOST: usize = 1 << 20;

/// The queues of an account.
#[derive(Debug, Clone)]
pub(super) struct Sqs {
    client: HttpClient,
    credentials: AwsCredentialProvider,
    region: String,
    url: String,
}

impl Sqs {
    /// Creates a client from the AWS credential variables, `AWS_REGION` (default us-east-1) and `AWS_ENDPOINT_URL`.
    ///
    /// # Errors
    /// Incomplete or inconsistent settings.
    pub(super) fn from_env() -> Result<Self> {
        let builder = AmazonS3Builder::from_env().with_bucket_name("none");
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
        let options = ClientOptions::new().with_allow_http(endpoint.is_some()).with_timeout(LIMIT);
        let client = ReqwestConnector::default().connect(&options).context("a client of SQS")?;
        let store = builder.with_allow_http(endpoint.is_some()).build().context("the settings of AWS")?;
        let url = match endpoint {
            Some(url) => format!("{}/", url.trim_end_matches('/')),
            None => format!("https://sqs.{region}.amazonaws.com/"),
        };
        Ok(Self { client, credentials: Arc::clone(store.credentials()), region, url })
    }

    /// Sends a request of SQS's JSON protocol and returns its reply.
    ///
    /// # Errors
    /// No reply in time, or an error reply; the error contains its beginning.
    pub(super) async fn post(&self, action: &str, body: String) -> Result<Vec<u8>> {
        let mut request = Request::post(&self.url).body(HttpRequestBody::from(body)).context("the queue's address")?;
        let target = HeaderValue::from_str(&format!("AmazonSQS.{action}")).context("an action")?;
        request.headers_mut().insert("x-amz-target", target);
        let json = HeaderValue::from_static("application/x-amz-json-1.0");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        let credential = self.credentials.get_credential().await.context("credentials")?;
        AwsAuthorizer::new(&credential, "sqs", &self.region).authorize(&mut request, None);
        let reply = self.client.execute(request).await.with_context(|| format!("ask {}", self.url))?;
        let status = reply.status();
        let body = Limited::new(reply.into_body(), MOST).collect().await;
        let body = body.map_err(|e| anyhow::anyhow!("{e}")).context("read the reply")?.to_bytes();
        if !status.is_success() {
            bail!("{action}: {status}: {}", String::from_utf8_lossy(&body[..body.len().min(300)]));
        }
        Ok(body.to_vec())
    }
}
