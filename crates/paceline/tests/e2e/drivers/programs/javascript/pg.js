// node-postgres: simple and prepared queries, cursors, COPY streams, transactions, notices, notifications, its pool.
const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const { from, to } = require('pg-copy-streams');
const { url, BIG, SLEEP, SLEEPING, run } = require('./stage.js');

async function connect() {
  const client = new Client({ connectionString: url });
  await client.connect();
  return client;
}

async function setup() {
  const client = await connect();
  await client.query('CREATE TABLE shared (id int PRIMARY KEY, hits int NOT NULL); INSERT INTO shared VALUES (1, 0)');
  await client.end();
}

async function client(report) {
  const table = `rows${report.number}`;
  const connection = await connect();
  await connection.query(`CREATE TABLE ${table} (id int PRIMARY KEY, note text)`);
  for (const section of [types, errors, prepared, queued, cursor, copy, session, unusual]) {
    await section(connection, report, table);
  }
  for (let hit = 0; hit < 20; hit += 1) {
    await connection.query('UPDATE shared SET hits = hits + $1 WHERE id = $2', [1, 1]);
  }
  await connection.end();
}

async function types(connection, report) {
  const values = [
    ['int2', -32768], ['int8', '9223372036854775807'], ['numeric', '1234567890.0123456789'], ['float8', 1.5], ['bool', true],
    ['text', "Grüße, 世界 'quoted' \\ \n"], ['bytea', Buffer.from([0, 1, 255])], ['timestamptz', new Date(0)], ['date', '1999-12-31'],
    ['uuid', '00010203-0405-0607-0809-0a0b0c0d0e0f'], ['int4[]', [1, null, 3]], ['text[]', ['a,b', '"', null, '']],
    ['jsonb', { a: [1, null, 'ü'] }], ['interval', '3 days 4 seconds'], ['text', null],
  ];
  for (const [type, value] of values) {
    const { rows } = await connection.query(`SELECT $1::${type} AS value`, [value]);
    report.say('types', type, rows[0].value);
  }
  const binary = await connection.query({ text: 'SELECT $1::int4, $2::float8, $3::bool', values: [7, 2.5, true], rowMode: 'array', binary: true });
  report.say('binary', binary.rows);
  const text = 'ü'.repeat(BIG / 2);
  const data = Buffer.alloc(BIG, 'abcdefg');
  const big = await connection.query('SELECT $1::text AS text, $2::bytea AS data', [text, data]);
  report.say('big', big.rows[0].text, big.rows[0].data, big.fields.map((field) => field.name));
}

async function errors(connection, report, table) {
  await connection.query('BEGIN');
  await connection.query(`INSERT INTO ${table} VALUES (1, 'kept')`);
  await connection.query('SAVEPOINT here');
  for (const text of [`INSERT INTO ${table} VALUES (1, 'twice')`, 'SELECT 1']) {
    await connection.query(text).catch((error) => report.error(error));
  }
  await connection.query('ROLLBACK TO here');
  await connection.query('COMMIT');
  await connection.query('BEGIN');
  await connection.query(`DELETE FROM ${table}`);
  await connection.query('SELECT nothing').catch((error) => report.error(error));
  const end = await connection.query('COMMIT');
  report.say('end', end.command, (await connection.query(`SELECT * FROM ${table}`)).rows);
}

async function prepared(connection, report, table) {
  const found = [];
  for (let number = 0; number < 20; number += 1) {
    const question = { name: 'counted', text: `SELECT $1::int + count(*)::int AS n FROM ${table}`, values: [number] };
    found.push((await connection.query(question)).rows[0].n);
  }
  report.say('prepared', found);
  const wrong = { name: 'wrong', text: 'SELECT $1::int', values: ['x'] };
  await connection.query(wrong).catch((error) => report.error(error));
  report.say('after it', (await connection.query({ ...wrong, values: ['5'] })).rows);
}

// Handed over at once: the driver sends the next when the last one is answered.
async function queued(connection, report, table) {
  const inserts = Array.from({ length: 50 }, (_, n) =>
    connection.query(`INSERT INTO ${table} VALUES ($1, $2) RETURNING id`, [100 + n, `n${n}`]));
  report.say('queued', (await Promise.all(inserts)).map((result) => result.rows[0].id));
}

async function cursor(connection, report, table) {
  const walk = connection.query(new Cursor(`SELECT id FROM ${table} WHERE id >= $1 ORDER BY id`, [100]));
  report.say('cursor', await walk.read(3), (await walk.read(1000)).length, await walk.read(1));
  await walk.close();
  const cut = connection.query(new Cursor('SELECT generate_series(1, 100) AS n'));
  report.say('cut', await cut.read(2));
  await cut.close();
}

async function copy(connection, report, table) {
  const lines = Array.from({ length: 3000 }, (_, n) => `${1000 + n}\t${n % 3 === 0 ? '\\N' : `n${n}`}\n`);
  await pipeline(Readable.from(lines), connection.query(from(`COPY ${table} FROM STDIN`)));
  const blocks = [];
  const out = connection.query(to(`COPY (SELECT * FROM ${table} ORDER BY id) TO STDOUT`));
  for await (const block of out) blocks.push(block);
  report.say('copy', Buffer.concat(blocks));
  await pipeline(Readable.from(['not a number\tx\n']), connection.query(from(`COPY ${table} FROM STDIN`)))
    .catch((error) => report.error(error));
}

async function session(connection, report) {
  connection.on('notice', (notice) => report.say('notice', notice.severity, notice.code, notice.message));
  await connection.query("DO $$ BEGIN RAISE NOTICE 'heard'; RAISE WARNING 'twice'; END $$");
  await connection.query("SET TimeZone = 'Asia/Tokyo'");
  report.say('setting', (await connection.query('SHOW TimeZone')).rows);
  await connection.query('RESET TimeZone');
}

async function unusual(connection, report) {
  report.say('empty', (await connection.query('')).command, (await connection.query(';')).rows);
  const several = await connection.query("SELECT 1 AS a; SELECT 'two' AS b; UPDATE shared SET hits = hits");
  report.say('several', several.map((result) => [result.command, result.rowCount, result.rows]));
  await connection.query('SELECT 1; SELECT 1 / 0').catch((error) => report.error(error));
}

async function alone(report) {
  const connection = await connect();
  const observer = await connect();
  const { rows } = await observer.query('SELECT 1 AS warm');
  report.say('warm', rows);
  const slept = connection.query(SLEEP).catch((error) => report.error(error));
  while ((await observer.query(SLEEPING)).rows[0].n === 0);
  // The driver's own way: another client that is not connected yet.
  const other = new Client({ connectionString: url });
  other.cancel(connection, connection._getActiveQuery());
  await slept;
  const heard = new Promise((resolve) => { connection.once('notification', resolve); });
  await connection.query('LISTEN news');
  await observer.query("SELECT pg_notify('news', $1)", ['hello']);
  const { channel, payload } = await heard;
  report.say('heard', channel, payload);
  await connection.end();
  const pool = new Pool({ connectionString: url, max: 8 });
  const asked = Array.from({ length: 40 }, (_, n) => pool.query('SELECT $1::int AS n', [n]));
  report.say('pool', (await Promise.all(asked)).map((result) => result.rows[0].n));
  await pool.end();
  report.say('sum', (await observer.query('SELECT hits FROM shared')).rows);
  await observer.end();
}

run({ setup, client, alone });
