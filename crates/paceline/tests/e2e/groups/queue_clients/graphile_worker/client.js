// graphile-worker as an application uses it; the commands are described in ../mod.rs.
'use strict';

const { Logger, makeWorkerUtils, run, runMigrations } = require('graphile-worker');

const [connectionString, command, ...range] = process.argv.slice(2);
// Standard output is nobody's, and only trouble is worth a line.
const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(message);
});

async function migrate() {
  await runMigrations({ connectionString, logger });
}

async function enqueue() {
  const [from, to] = range.map(Number);
  const utils = await makeWorkerUtils({ connectionString, logger });
  for (let job = from; job <= to; job++) await utils.addJob('order', { job });
  await utils.release();
}

async function work() {
  const runner = await run({
    connectionString,
    logger,
    concurrency: 8,
    // Longer than any test: who is not notified does not work.
    pollInterval: 3_600_000,
    noHandleSignals: true,
    taskList: {
      order: ({ job }, { query }) => query('INSERT INTO done (job) VALUES ($1)', [job]),
    },
  });
  process.on('SIGTERM', () => runner.stop());
  await runner.promise;
}

async function recover() {
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.withPgClient(async (client) => {
    const { rows } = await client.query('SELECT DISTINCT locked_by FROM graphile_worker.jobs WHERE locked_by IS NOT NULL');
    await utils.forceUnlockWorkers(rows.map((row) => row.locked_by));
  });
  await utils.release();
}

({ migrate, enqueue, work, recover })[command]().catch((error) => {
  console.error(error);
  process.exit(1);
});
