// What the JavaScript programs share: clients at work at once, whose lines are printed in order.
const { createHash } = require('node:crypto');

const CLIENTS = 4;
const url = process.argv[2];
const BIG = 1 << 20;
const SLEEP = 'SELECT pg_sleep(600)';
const SLEEPING = `SELECT count(*)::int AS n FROM pg_stat_activity
  WHERE datname = current_database() AND query = '${SLEEP}' AND state = 'active'`;

function shown(value) {
  const big = (typeof value === 'string' || Buffer.isBuffer(value)) && value.length > 1000;
  return big ? `${value.length} long, ${createHash('sha256').update(value).digest('hex')}` : JSON.stringify(value);
}

class Report {
  constructor(number) {
    this.number = number;
    this.lines = [];
  }

  say(section, ...values) {
    this.lines.push(`client ${this.number}: ${section}: ${values.map(shown).join(' ')}`);
  }

  // An error of the server; any other is the program's own and ends it.
  error(error) {
    if (!error.severity) throw error;
    this.say('error', error.code, error.message, error.position ?? null);
  }

  show() {
    console.log(this.lines.join('\n'));
  }
}

// Runs setup, then client(report) for all clients at once, then alone(report).
async function run({ setup, client, alone }) {
  await setup();
  const reports = Array.from({ length: CLIENTS }, (_, number) => new Report(number));
  await Promise.all(reports.map(client));
  reports.forEach((report) => report.show());
  const last = new Report('alone');
  await alone(last);
  last.show();
}

module.exports = { url, BIG, SLEEP, SLEEPING, run };
