//! A work-queue consumer: worker ADDRESS GROUP TOPIC COUNT.
//!
//! Acknowledges each record separately and waits for its durable result. The program ends when COUNT records or more are
//! finished, or on SIGINT or SIGTERM. Before it ends, it receives the results of its acknowledgements; the server releases
//! the other records.
use std::collections::HashMap;
use std::env::var;
use std::error::Error;
use std::fs::read_to_string;

use base64::prelude::{Engine, BASE64_STANDARD};

use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig};
use tonic::Request;

use stubs::sharebroker::delivery::v1::{AcknowledgeType, Acknowledgement};
use stubs::sharebroker::gateway::v1::consume_request::Subscribe;
use stubs::sharebroker::gateway::v1::share_record::Payload;
use stubs::sharebroker::gateway::v1::share_service_client::ShareServiceClient;
use stubs::sharebroker::gateway::v1::{ConsumeRequest, ShareRecord};

mod stubs {
    include!(concat!(env!("OUT_DIR"), "/sharebroker.rs"));
}

const CREDIT: i32 = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, group, topic, count] = arguments.as_slice() else {
        return Err("worker ADDRESS GROUP TOPIC COUNT".into());
    };
    let count: usize = count.parse()?;
    let mut client = ShareServiceClient::new(connect(address).await?);

    let (requests, outgoing) = mpsc::unbounded_channel();
    requests.send(ConsumeRequest {
        subscribe: Some(Subscribe {
            group_id: group.clone(),
            topics: vec![topic.clone()],
            decode: true,
            as_text: true,
            client_id: "rust".into(),
            ..Default::default()
        }),
        credit: CREDIT,
        ..Default::default()
    })?;
    let mut request = Request::new(UnboundedReceiverStream::new(outgoing));
    if let Some(value) = authorization()? {
        request.metadata_mut().insert("authorization", value.parse()?);
    }
    let mut stream = client.consume(request).await.map_err(describe)?.into_inner();

    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut requests = Some(requests); // None once the program is stopping
    let mut last = HashMap::new(); // by the id of an acknowledgement: whether the record is then finished
    let mut finished = 0;
    loop {
        let answer = tokio::select! {
            _ = interrupt.recv() => { requests = None; continue }
            _ = terminate.recv() => { requests = None; continue }
            answer = stream.message() => answer.map_err(describe)?,
        };
        let Some(answer) = answer else { return Ok(()) };
        for result in answer.results {
            if result.error_code != 0 {
                return Err(format!("not applied: {}", result.error_message).into());
            }
            finished += usize::from(last[&result.id]);
        }
        if finished >= count {
            requests = None;
        }
        if let (Some(requests), false) = (&requests, answer.records.is_empty()) {
            requests.send(answered(answer.records, &mut last))?;
        }
    }
}

/// Returns a channel, over TLS if SHAREBROKER_CA names the file of the server's authority.
async fn connect(address: &str) -> Result<Channel, Box<dyn Error>> {
    let Ok(authority) = var("SHAREBROKER_CA") else {
        return Ok(Channel::from_shared(format!("http://{address}"))?.connect().await?);
    };
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read_to_string(authority)?));
    Ok(Channel::from_shared(format!("https://{address}"))?.tls_config(tls)?.connect().await?)
}

/// Returns the access token or the user of the environment as metadata; TLS protects it.
fn authorization() -> Result<Option<String>, Box<dyn Error>> {
    let (token, user) = (var("SHAREBROKER_TOKEN_FILE"), var("SHAREBROKER_USER"));
    if token.is_err() && user.is_err() {
        return Ok(None);
    }
    if var("SHAREBROKER_CA").is_err() {
        return Err("a user or a token needs SHAREBROKER_CA".into());
    }
    if let Ok(token) = token {
        return Ok(Some(format!("Bearer {}", read_to_string(token)?.trim())));
    }
    let content = read_to_string(var("SHAREBROKER_PASSWORD_FILE")?)?;
    let password = content.lines().next().unwrap_or_default();
    Ok(Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{password}", user?)))))
}

/// Returns a verdict for each record, and credit for as many more.
fn answered(records: Vec<ShareRecord>, last: &mut HashMap<u64, bool>) -> ConsumeRequest {
    let mut request = ConsumeRequest { credit: records.len() as i32, ..Default::default() };
    for record in records {
        let text = match record.payload {
            Some(Payload::Text(text)) => text,
            _ => String::new(),
        };
        println!("{} {} {} {text}", record.partition, record.offset, record.delivery_count);
        let verdict = decide(&text, record.delivery_count);
        let id = last.len() as u64 + 1;
        last.insert(id, verdict != AcknowledgeType::Release);
        request.acknowledgements.push(Acknowledgement {
            id,
            topic_id: record.topic_id,
            partition: record.partition,
            first_offset: record.offset,
            lock_token: record.lock_token,
            r#type: verdict.into(),
            ..Default::default()
        });
    }
    request
}

/// Returns the description of a failed call in one line.
fn describe(status: tonic::Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// Accepts a record, but rejects "bad" ones and releases "later" ones at their first delivery.
fn decide(text: &str, deliveries: i32) -> AcknowledgeType {
    match text {
        _ if text.starts_with("bad") => AcknowledgeType::Reject,
        _ if text.starts_with("later") && deliveries == 1 => AcknowledgeType::Release,
        _ => AcknowledgeType::Accept,
    }
}
