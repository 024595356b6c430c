//! A work-queue consumer: worker ADDRESS GROUP TOPIC COUNT.
//!
//! Each record is answered for by itself and has its own durable result; the program ends when COUNT records are finished.
use std::collections::HashMap;
use std::error::Error;

use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use stubs::sharebroker::delivery::v1::{AcknowledgeType, Acknowledgement};
use stubs::sharebroker::gateway::v1::consume_request::Subscribe;
use stubs::sharebroker::gateway::v1::share_record::Payload;
use stubs::sharebroker::gateway::v1::share_service_client::ShareServiceClient;
use stubs::sharebroker::gateway::v1::ConsumeRequest;

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
    let mut client = ShareServiceClient::connect(format!("http://{address}")).await?;

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
    let mut stream = client.consume(UnboundedReceiverStream::new(outgoing)).await?.into_inner();

    let mut last = HashMap::new(); // by the id of an acknowledgement: whether the record is then finished
    let (mut id, mut finished) = (0, 0);
    while finished < count {
        let answer = stream.message().await?.ok_or("the server ended the stream")?;
        let mut acknowledgements = Vec::new();
        for record in answer.records {
            let text = match record.payload {
                Some(Payload::Text(text)) => text,
                _ => String::new(),
            };
            println!("{} {} {} {text}", record.partition, record.offset, record.delivery_count);
            let verdict = decide(&text, record.delivery_count);
            id += 1;
            last.insert(id, verdict != AcknowledgeType::Release);
            acknowledgements.push(Acknowledgement {
                id,
                topic_id: record.topic_id,
                partition: record.partition,
                first_offset: record.offset,
                lock_token: record.lock_token,
                r#type: verdict.into(),
                ..Default::default()
            });
        }
        if !acknowledgements.is_empty() {
            let credit = acknowledgements.len() as i32;
            requests.send(ConsumeRequest { acknowledgements, credit, ..Default::default() })?;
        }
        for result in answer.results {
            if result.error_code != 0 {
                return Err(format!("not applied: {}", result.error_message).into());
            }
            finished += usize::from(last[&result.id]);
        }
    }
    Ok(())
}

/// Accepts, but rejects what is bad, and releases a "later" for a second try.
fn decide(text: &str, deliveries: i32) -> AcknowledgeType {
    match text {
        _ if text.starts_with("bad") => AcknowledgeType::Reject,
        _ if text.starts_with("later") && deliveries == 1 => AcknowledgeType::Release,
        _ => AcknowledgeType::Accept,
    }
}
