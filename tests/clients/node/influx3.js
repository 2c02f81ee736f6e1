// influxdb3-js: line protocol in by HTTP, SQL out by Flight, on one port, of the server that CLIENT_URL names.
//
// CLIENT_TOKEN is a token for a server with authentication. The exit status is 1 if a step failed.
"use strict";

const assert = require("node:assert");
const { InfluxDBClient, Point, setLogger } = require("@influxdata/influxdb3-client");

const SECONDS = 90;
const START_MS = 1_563_249_700_000;
const START_NS = `${START_MS}000000`;
const { CLIENT_URL, CLIENT_TOKEN } = process.env;

let failed = 0;

async function step(name, run) {
  let note = "";
  let timer;
  try {
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done after ${SECONDS} s`)), SECONDS * 1000);
    });
    await Promise.race([run(), late]);
  } catch (error) {
    failed += 1;
    note = String(error.stack ?? error).split("\n").slice(0, 4).join(" | ");
  } finally {
    clearTimeout(timer);
  }
  console.log(JSON.stringify({ client: "influxdb3-js", step: name, ok: note === "", note }));
}

async function refused(part, run) {
  let message;
  try {
    await run();
  } catch (error) {
    message = `${error.statusCode ?? ""} ${error.message ?? error}`;
  }
  assert.ok(message !== undefined, `expected an error with '${part}', found none`);
  assert.ok(message.toLowerCase().includes(part.toLowerCase()), `expected an error with '${part}', found ${message}`);
}

async function rows(client, sql, database = "influx3js") {
  const found = [];
  for await (const row of client.query(sql, database)) found.push(row);
  return found;
}

function connect(token = CLIENT_TOKEN ?? "none") {
  return new InfluxDBClient({ host: CLIENT_URL, token, database: "influx3js" });
}

async function main() {
  // The client logs each error itself.
  setLogger({ error() {}, warn() {} });
  const client = connect();
  await rows(client, "drop database if exists influx3js");

  await step("write: a line, which makes the database", async () => {
    await client.write(`home,room=kitchen temperature=21.5,humidity=40i,open=true,note="a b" ${START_NS}`);
    const [row] = await rows(client, "select temperature, humidity, open, note, room from home");
    assert.deepEqual(
      { ...row, humidity: Number(row.humidity) },
      { temperature: 21.5, humidity: 40, open: true, note: "a b", room: "kitchen" },
    );
  });
  await step("write: points", async () => {
    const points = [];
    for (let i = 0; i < 300; i++) {
      points.push(Point.measurement("many").setTag("k", String(i % 3)).setIntegerField("v", i).setTimestamp(new Date(START_MS + i)));
    }
    await client.write(points);
    const found = await rows(client, "select k, count(*) c, sum(v) s from many group by k order by k");
    const sum = (k) => Array.from({ length: 100 }, (_, i) => k + 3 * i).reduce((a, b) => a + b, 0);
    assert.deepEqual(found.map((r) => [r.k, Number(r.c), Number(r.s)]), [0, 1, 2].map((k) => [String(k), 100, sum(k)]));
  });
  await step("write: every precision", async () => {
    for (const [precision, time] of [["s", START_MS / 1000], ["ms", START_MS], ["us", START_MS * 1000], ["ns", START_NS]]) {
      await client.write(`precise,p=${precision} v=1 ${time}`, "influx3js", undefined, { precision });
    }
    const found = await rows(client, "select count(distinct ts) c, count(*) n from precise");
    assert.deepEqual([Number(found[0].c), Number(found[0].n)], [1, 4]);
  });
  await step("write: compressed", async () => {
    const lines = Array.from({ length: 5000 }, (_, i) => `zipped v=${i}i ${START_MS + i}`);
    await client.write(lines, "influx3js", undefined, { precision: "ms", gzipThreshold: 100 });
    const [row] = await rows(client, "select count(*) c, sum(v) s from zipped");
    assert.deepEqual([Number(row.c), Number(row.s)], [5000, 12_497_500]);
  });
  await step("write: InfluxDB 3's own path, which noSync asks for, is not there", () =>
    refused("404", () => client.write(`quick v=1 ${START_NS}`, "influx3js", undefined, { noSync: true })));
  await step("write: errors", async () => {
    await refused("parse", () => client.write("bad line"));
    await refused("type", () => client.write(`home,room=kitchen humidity="text" ${START_NS}`));
  });
  await step("query: times", async () => {
    const [row] = await rows(client, "select ts from home");
    assert.equal(new Date(row.ts).getTime(), START_MS);
  });
  // Whole numbers arrive as BigInt, which the client's points omit without InfluxDB's type metadata.
  await step("query: points", async () => {
    const found = [];
    for await (const point of client.queryPoints("select ts, cast(v as double) v from many order by ts limit 3", "influx3js")) {
      found.push(Number(point.getField("v")));
    }
    assert.deepEqual(found, [0, 1, 2]);
  });
  await step("query: no rows", async () => assert.deepEqual(await rows(client, "select 1 as a where false"), []));
  await step("query: a million rows", async () => {
    let count = 0;
    let total = 0;
    for await (const row of client.query("select value from generate_series(1, 1000000)", "influx3js")) {
      count += 1;
      total += Number(row.value);
    }
    assert.deepEqual([count, total], [1_000_000, 500_000_500_000]);
  });
  await step("query: errors", async () => {
    await refused("nosuch", () => rows(client, "select * from nosuch"));
    await refused("syntax error", () => rows(client, "selekt 1"));
  });
  await step("server: its version", async () => assert.ok(await client.getServerVersion()));
  if (CLIENT_TOKEN) {
    await step("connect: a wrong token is refused, by both ways", async () => {
      const stranger = connect("wrong");
      await refused("", () => rows(stranger, "select 1"));
      await refused("", () => stranger.write(`home v=1 ${START_NS}`));
      await stranger.close();
    });
  }
  await client.close();
  process.exit(failed > 0 ? 1 : 0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
