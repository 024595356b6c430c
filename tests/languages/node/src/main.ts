// A work-queue consumer: node dist/main.js ADDRESS GROUP TOPIC COUNT.
//
// Acknowledges each record separately and waits for its durable result. The program ends when COUNT records or more are
// finished, or on SIGINT or SIGTERM. Before it ends, it receives the results of its acknowledgements; the server releases
// the other records.
import { readFileSync } from "node:fs";

import * as grpc from "@grpc/grpc-js";
import * as loader from "@grpc/proto-loader";

import type { Acknowledgement } from "./gen/sharebroker/delivery/v1/Acknowledgement";
import type { ConsumeResponse__Output } from "./gen/sharebroker/gateway/v1/ConsumeResponse";
import type { ShareRecord__Output } from "./gen/sharebroker/gateway/v1/ShareRecord";
import type { ProtoGrpcType } from "./gen/share";

const CREDIT = 10;
const [address, group, topic, count] = process.argv.slice(2);
if (!/^\d+$/.test(count ?? "")) {
  console.error("main.js ADDRESS GROUP TOPIC COUNT");
  process.exit(2);
}

const definition = loader.loadSync("sharebroker/gateway/v1/share.proto", {
  includeDirs: [new URL("../protos", import.meta.url).pathname],
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});
const { sharebroker } = grpc.loadPackageDefinition(definition) as unknown as ProtoGrpcType;
const client = new sharebroker.gateway.v1.ShareService(address, credentials());

const final = new Map<string, boolean>(); // by the id of an acknowledgement: whether the record is then finished
let id = 0;
let finished = 0;
let stopping = false;

const stream = client.Consume(authorization());
stream.write({ subscribe: { groupId: group, topics: [topic], decode: true, asText: true, clientId: "node" }, credit: CREDIT });
stream.on("error", (error: Error) => {
  console.error(error.message);
  process.exit(1);
});
stream.on("data", (answer: ConsumeResponse__Output) => {
  for (const result of answer.results) {
    if (result.errorMessage) {
      console.error(`not applied: ${result.errorMessage}`);
      process.exit(1);
    }
    finished += final.get(result.id) ? 1 : 0;
  }
  if (finished >= Number(count)) {
    stop();
  }
  if (answer.records.length > 0 && !stopping) {
    stream.write({ acknowledgements: answer.records.map(answered), credit: answer.records.length });
  }
});
stream.on("end", () => client.close());
process.on("SIGINT", stop);
process.on("SIGTERM", stop);

// Returns credentials for TLS if SHAREBROKER_CA names the file of the server's authority.
function credentials() {
  const authority = process.env.SHAREBROKER_CA;
  return authority ? grpc.credentials.createSsl(readFileSync(authority)) : grpc.credentials.createInsecure();
}

// Returns metadata with the access token or the user of the environment; TLS protects it.
function authorization() {
  const { SHAREBROKER_TOKEN_FILE: token, SHAREBROKER_USER: user, SHAREBROKER_CA: authority } = process.env;
  const metadata = new grpc.Metadata();
  if (!token && !user) {
    return metadata;
  }
  if (!authority) {
    console.error("a user or a token needs SHAREBROKER_CA");
    process.exit(1);
  }
  if (token) {
    metadata.set("authorization", `Bearer ${readFileSync(token, "utf8").trim()}`);
  } else {
    const [password] = readFileSync(process.env.SHAREBROKER_PASSWORD_FILE ?? "", "utf8").split("\n");
    metadata.set("authorization", `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`);
  }
  return metadata;
}

function stop() {
  if (!stopping) {
    stopping = true;
    stream.end();
  }
}

function answered(record: ShareRecord__Output): Acknowledgement {
  const verdict = decide(record.text ?? "", record.deliveryCount);
  final.set(String(++id), verdict !== "ACKNOWLEDGE_TYPE_RELEASE");
  console.log(record.partition, record.offset, record.deliveryCount, record.text);
  const { topicId, partition, offset: firstOffset, lockToken } = record;
  return { id, topicId, partition, firstOffset, lockToken, type: verdict };
}

// Accepts a record, but rejects "bad" ones and releases "later" ones at their first delivery.
function decide(text: string, deliveries: number) {
  if (text.startsWith("bad")) {
    return "ACKNOWLEDGE_TYPE_REJECT";
  }
  return text.startsWith("later") && deliveries === 1 ? "ACKNOWLEDGE_TYPE_RELEASE" : "ACKNOWLEDGE_TYPE_ACCEPT";
}
