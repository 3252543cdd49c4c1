// Uses S2's TypeScript SDK as its documentation says; prints one JSON object. Endpoints come from the
// environment. Requests go over HTTP/1.1 there, sessions over HTTP/2.
import { AppendInput, AppendRecord, S2, S2Environment } from "@s2-dev/streamstore";

const RECORDS = 50;
const seen = {};
const s2 = new S2({ ...S2Environment.parse(), accessToken: "any" });
await s2.basins.create({ basin: "from-typescript" });
const basin = s2.basin("from-typescript");
await basin.streams.create({ stream: "logs/app one" });
const stream = basin.stream("logs/app one");

const text = AppendRecord.string({ body: "hello", headers: [["k", "v"]] });
const bytes = AppendRecord.bytes({ body: new Uint8Array([255, 0]) });
seen.first = (await stream.append(AppendInput.create([text]))).end.seqNum;
seen.second = (await stream.append(AppendInput.create([bytes]))).end.seqNum;
const from = { from: { seqNum: 0 } };
const batch = await stream.read({ start: from, stop: { limits: { count: 2 } } }, { as: "bytes" });
seen.bytes = [...batch.records[1].body];

const session = await stream.appendSession();
const tickets = [];
for (let number = 0; number < RECORDS; number++) {
	const record = AppendRecord.string({ body: `record ${number}` });
	tickets.push(await session.submit(AppendInput.create([record])));
}
const acknowledged = await Promise.all(tickets.map((ticket) => ticket.ack()));
seen.acknowledged = acknowledged.map((ack) => ack.end.seqNum);
await session.close();

seen.read = [];
const limits = { count: RECORDS + 2 };
for await (const record of await stream.readSession({ start: from, stop: { limits } })) {
	seen.read.push(record.seqNum);
}
seen.tail = (await stream.checkTail()).tail.seqNum;
seen.streams = (await basin.streams.list()).streams.map((found) => found.name);
await basin.streams.delete({ stream: "logs/app one" });
console.log(JSON.stringify(seen));
process.exit(0);
