// A reader of Lumberjack v1 made of Node's zlib and the frames of the npm package lumberjack-protocol: each D frame that comes is
// made anew with the package and must be the same bytes, and each window is answered with the package's acknowledgement.
// Arguments: package directory, and a file that gets each window as one line of JSON. Prints its port; ends when its input does.
"use strict";
const fs = require("fs");
const net = require("net");
const path = require("path");
const zlib = require("zlib");
const lumberjack = require(path.join(process.argv[2], "node_modules/lumberjack-protocol/lib/lumberjack"));

function fail(reason) { console.error(reason); process.exit(1); }

// Returns the D frame at *at* of *data* as {sequence, pairs, end}, null where it is not whole.
function dataFrame(data, at) {
  if (data.length < at + 10) return null;
  const sequence = data.readUInt32BE(at + 2);
  let left = 2 * data.readUInt32BE(at + 6);
  let place = at + 10;
  const items = [];
  for (; left > 0; left--) {
    if (data.length < place + 4) return null;
    const end = place + 4 + data.readUInt32BE(place);
    if (data.length < end) return null;
    items.push(data.toString("utf8", place + 4, end));
    place = end;
  }
  const pairs = {};
  for (let i = 0; i < items.length; i += 2) pairs[items[i]] = items[i + 1];
  const anew = lumberjack.makeDataFrame(sequence, pairs);
  if (!anew.equals(data.subarray(at, place))) fail(`not the frame that lumberjack-protocol makes: ${JSON.stringify(pairs)}`);
  return { sequence, pairs, end: place };
}

function serve(socket) {
  let held = Buffer.alloc(0);
  let wanted = 0;
  let events = [];

  // Takes the whole frames of *data*, returns what is left over.
  function take(data) {
    let at = 0;
    while (data.length - at >= 6) {
      const kind = data.toString("latin1", at, at + 2);
      if (kind === "1W") {
        if (wanted !== events.length) fail("a window within another");
        wanted = data.readUInt32BE(at + 2);
        events = [];
        at += 6;
      } else if (kind === "1C") {
        const end = at + 6 + data.readUInt32BE(at + 2);
        if (data.length < end) break;
        if (take(zlib.inflateSync(data.subarray(at + 6, end))).length) fail("an envelope that ends within a frame");
        at = end;
      } else if (kind === "1D") {
        const frame = dataFrame(data, at);
        if (frame === null) break;
        at = frame.end;
        events.push(frame.pairs);
        if (frame.sequence !== events.length) fail(`number ${frame.sequence} where ${events.length} is due`);
        if (events.length === wanted) {
          fs.appendFileSync(process.argv[3], `${JSON.stringify(events)}\n`);
          socket.write(lumberjack.makeAckFrame(frame.sequence));
        }
      } else {
        fail(`a frame that begins ${JSON.stringify(kind)}`);
      }
    }
    return data.subarray(at);
  }

  socket.on("data", (data) => { held = take(Buffer.concat([held, data])); });
  socket.on("error", () => {});
}

const server = net.createServer(serve);
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
