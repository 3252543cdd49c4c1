// Sends lines with the npm package lumberjack-protocol, as its streaming writers do: one W, then D frames, numbers running on.
// Arguments: package directory, port, directory of certificates, lines. Ends when the last line is acknowledged.
"use strict";
const fs = require("fs");
const path = require("path");
const [, , packages, port, certificates, count] = process.argv;
const ClientSocket = require(path.join(packages, "node_modules/lumberjack-protocol/lib/ClientSocket"));
const pem = (name) => fs.readFileSync(path.join(certificates, name));

const socket = new ClientSocket({ windowSize: 10 });
const acks = [];
socket.on("error", (error) => { console.error(error); process.exit(1); });
socket.on("end", () => { console.error("the receiver closed the connection"); process.exit(1); });
socket.on("ack", (sequence) => {
  acks.push(sequence);
  if (sequence === Number(count)) { console.log(JSON.stringify(acks)); process.exit(0); }
});
socket.on("connect", () => {
  for (let number = 0; number < Number(count); number++) {
    const data = { line: `zeile ${number} €`, host: "node", file: "/n.log", offset: number, service: "npm" };
    socket.writeDataFrame(data, (error) => { if (error) { console.error(error); process.exit(1); } });
  }
});
socket.connect({
  host: "127.0.0.1", port: Number(port), servername: "localhost",
  ca: pem("ca.pem"), cert: pem("client.pem"), key: pem("client.key"),
});
