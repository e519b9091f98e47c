// postgres.js: everything prepared and pipelined; transactions, savepoints, cursors, cancelling, notifications. No COPY: its
// streams now and then come to a halt with PostgreSQL itself.
const postgres = require('postgres');
const { url, BIG, SLEEP, SLEEPING, run } = require('./stage.js');

const connect = (options) => postgres(url, { max: 1, onnotice: () => {}, ...options });
const failed = (report) => (error) => {
  if (!error.severity_local) throw error;
  report.say('error', error.code, error.message);
};

async function setup() {
  const sql = connect();
  await sql`CREATE TABLE shared (id int PRIMARY KEY, hits int NOT NULL)`;
  await sql`INSERT INTO shared VALUES (1, 0)`;
  await sql.end();
}

async function client(report) {
  const table = `rows${report.number}`;
  const sql = connect({ onnotice: (notice) => report.say('notice', notice.code, notice.message) });
  await sql`CREATE TABLE ${sql(table)} (id int PRIMARY KEY, note text)`;
  for (const section of [types, transactions, prepared, pipelined, cursors, session, unusual]) {
    await section(sql, report, table);
  }
  await Promise.all(Array.from({ length: 20 }, () => sql`UPDATE shared SET hits = hits + ${1} WHERE id = ${1}`));
  await sql.end();
}

async function types(sql, report) {
  report.say('types', await sql`SELECT ${-32768}::int2 a, ${'9223372036854775807'}::int8 b, ${'1.50'}::numeric c, ${true}::bool d`);
  report.say('types', await sql`SELECT ${"Grüße, 世界 'quoted' \\ \n"}::text a, ${null}::int b, ${new Date(0)}::timestamptz c`);
  report.say('arrays', await sql`SELECT ${[1, null, 3]}::int4[] a, ${['a,b', '"', null, '']}::text[] b, ${sql.array([1, 2])} c`);
  report.say('json', await sql`SELECT ${sql.json({ a: [1, null, 'ü'] })} a, ${Buffer.from([0, 255])}::bytea b`);
  const [big] = await sql`SELECT ${'ü'.repeat(BIG / 2)}::text AS text, ${Buffer.alloc(BIG, 'abcdefg')}::bytea AS data`;
  report.say('big', big.text, big.data);
}

async function transactions(sql, report, table) {
  await sql.begin(async (tx) => {
    await tx`INSERT INTO ${tx(table)} VALUES (1, 'undone')`;
    await tx`SELECT 1 / ${0}::int`;
  }).catch(failed(report));
  await sql.begin('isolation level repeatable read', async (tx) => {
    await tx`INSERT INTO ${tx(table)} VALUES (1, 'kept')`;
    await tx.savepoint((inner) => inner`INSERT INTO ${inner(table)} VALUES (1, 'twice')`).catch(failed(report));
    report.say('isolation', await tx`SHOW transaction_isolation`);
    // Sent together, within the transaction.
    report.say('together', await Promise.all([2, 3, 4].map((id) => tx`INSERT INTO ${tx(table)} VALUES (${id}, 'kept') RETURNING id`)));
  });
  report.say('rows', await sql`SELECT * FROM ${sql(table)} ORDER BY id`);
}

async function prepared(sql, report, table) {
  const found = [];
  for (let number = 0; number < 20; number += 1) {
    const [row] = await sql`SELECT ${number}::int + count(*)::int AS n FROM ${sql(table)}`;
    found.push(row.n);
  }
  const described = await sql`SELECT id, note FROM ${sql(table)} WHERE id = ${1}`.describe();
  report.say('prepared', found, described.types, described.columns.map((column) => [column.name, column.type]));
}

// Many at once on one connection; some of them fail.
async function pipelined(sql, report, table) {
  const asked = Array.from({ length: 50 }, (_, n) => sql`INSERT INTO ${sql(table)} VALUES (${100 + (n % 40)}, ${`n${n}`}) RETURNING id`);
  const answers = await Promise.allSettled(asked);
  report.say('pipelined', answers.map((answer) => answer.value?.[0].id ?? answer.reason.code));
  report.say('rows', await sql`SELECT count(*)::int FROM ${sql(table)}`);
}

async function cursors(sql, report) {
  const parts = [];
  await sql`SELECT generate_series(1, 25) AS n`.cursor(10, (rows) => { parts.push(rows.length); });
  for await (const [row] of sql`SELECT generate_series(1, 25) AS n`.cursor()) {
    if (row.n === 3) break;
    parts.push(row.n);
  }
  await sql`SELECT generate_series(1, 5) AS n`.forEach((row) => { parts.push(row.n); });
  report.say('cursor', parts);
}

async function session(sql, report) {
  await sql.unsafe("DO $$ BEGIN RAISE NOTICE 'heard'; END $$");
  await sql`SET TimeZone = 'Asia/Tokyo'`;
  report.say('setting', await sql`SHOW TimeZone`, sql.parameters.TimeZone);
  await sql`RESET TimeZone`;
}

async function unusual(sql, report) {
  report.say('empty', await sql.unsafe(';').simple());
  report.say('several', await sql.unsafe("SELECT 1 AS a; SELECT 'two' AS b").simple());
  await sql.unsafe('SELECT 1; SELECT 1 / 0').simple().catch(failed(report));
}

async function alone(report) {
  const sql = connect();
  const observer = connect();
  await observer`SELECT 1`;
  const sleeping = sql.unsafe(SLEEP);
  const slept = sleeping.catch(failed(report));
  while ((await observer.unsafe(SLEEPING))[0].n === 0);
  sleeping.cancel();
  await slept;
  let told;
  const heard = new Promise((resolve) => { told = resolve; });
  await sql.listen('news', told);
  await observer.notify('news', 'hello');
  report.say('heard', await heard);
  report.say('sum', await observer`SELECT hits FROM shared`);
  await sql.end();
  await observer.end();
}

run({ setup, client, alone });
