// pgx: all its ways to run a query, batches, pipelines, COPY, savepoints, cancelling by context, notifications.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"paceline/drivers/say"
)

var ctx = context.Background()

func main() {
	setup := connect(nil)
	exec(setup, "CREATE TABLE shared (id int PRIMARY KEY, hits int NOT NULL); INSERT INTO shared VALUES (1, 0)")
	say.Must(setup.Close(ctx))
	say.Run(client, alone)
}

func connect(change func(*pgx.ConnConfig)) *pgx.Conn {
	config := say.Got(pgx.ParseConfig(os.Args[1]))
	if change != nil {
		change(config)
	}
	return say.Got(pgx.ConnectConfig(ctx, config))
}

func client(report *say.Report) {
	table := fmt.Sprintf("rows%d", report.Number)
	conn := connect(func(config *pgx.ConnConfig) {
		config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
			report.Say("notice", notice.Severity, notice.Code, notice.Message)
		}
	})
	exec(conn, "CREATE TABLE "+table+" (id int PRIMARY KEY, note text)")
	types(conn, report)
	transactions(conn, report, table)
	prepared(conn, report, table)
	batches(conn, report, table)
	pipeline(conn, report, table)
	copies(conn, report, table)
	session(conn, report)
	for range 20 {
		say.Got(conn.Exec(ctx, "UPDATE shared SET hits = hits + $1 WHERE id = $2", 1, 1))
	}
	say.Must(conn.Close(ctx))
}

func exec(conn *pgx.Conn, sql string) {
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	say.Must(err)
}

func fail(report *say.Report, err error) {
	var told *pgconn.PgError
	if !errors.As(err, &told) {
		say.Must(fmt.Errorf("not an error of the server: %w", err))
	}
	report.Say("error", told.Code, told.Message, told.Position)
}

func types(conn *pgx.Conn, report *say.Report) {
	moment := time.Date(2024, 2, 29, 12, 0, 0, 1000, time.UTC)
	ways := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	for _, way := range ways {
		rows := say.Got(conn.Query(ctx, "SELECT $1::int8, $2::text, $3::timestamptz, $4::bytea, $5::bool, $6::float8, $7::text, $8::numeric::text",
			way, int64(-1<<63), "Grüße, 世界 'quoted' \\ \n", moment, []byte{0, 1, 255}, true, 1.5, nil, "1.50"))
		for rows.Next() {
			report.Say("types", way, say.Got(rows.Values()))
		}
		say.Must(rows.Err())
	}
	var numbers []*int32
	var texts []string
	var document map[string]any
	var id [16]byte
	row := conn.QueryRow(ctx, "SELECT $1::int4[], $2::text[], $3::jsonb, $4::uuid", []int32{1, 2}, []string{"a,b", `"`, ""},
		map[string]any{"a": 1, "b": nil}, "00010203-0405-0607-0809-0a0b0c0d0e0f")
	say.Must(row.Scan(&numbers, &texts, &document, &id))
	report.Say("arrays", *numbers[0], *numbers[1], texts, document, id)
	var text string
	var data []byte
	big := conn.QueryRow(ctx, "SELECT $1::text, $2::bytea", strings.Repeat("ü", say.Big/2), make([]byte, say.Big))
	say.Must(big.Scan(&text, &data))
	report.Say("big", text, len(data))
}

func transactions(conn *pgx.Conn, report *say.Report, table string) {
	fail(report, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		say.Got(tx.Exec(ctx, "INSERT INTO "+table+" VALUES (1, 'undone')"))
		_, err := tx.Exec(ctx, "SELECT 1 / $1::int", 0)
		_, next := tx.Exec(ctx, "SELECT 1")
		fail(report, next)
		return err
	}))
	options := pgx.TxOptions{IsoLevel: pgx.Serializable}
	say.Must(pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		say.Got(tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, 'kept')", 1))
		fail(report, pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, 'twice')", 1)
			return err
		}))
		return nil
	}))
	report.Say("rows", count(conn, table))
}

func count(conn *pgx.Conn, table string) (n int) {
	say.Must(conn.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func prepared(conn *pgx.Conn, report *say.Report, table string) {
	described := say.Got(conn.Prepare(ctx, "counted", "SELECT $1::int + count(*) FROM "+table))
	report.Say("described", described.ParamOIDs, described.Fields[0].DataTypeOID, described.Fields[0].Name)
	found := make([]int, 20)
	for number := range found {
		say.Must(conn.QueryRow(ctx, "counted", number).Scan(&found[number]))
	}
	report.Say("prepared", found)
	say.Must(conn.Deallocate(ctx, "counted"))
	_, err := conn.Prepare(ctx, "wrong", "SELECT nothing FROM "+table)
	fail(report, err)
}

func batches(conn *pgx.Conn, report *say.Report, table string) {
	batch := &pgx.Batch{}
	for n := range 50 {
		batch.Queue("INSERT INTO "+table+" VALUES ($1, $2)", 100+n, fmt.Sprint(n))
	}
	batch.Queue("SELECT count(*) FROM " + table).QueryRow(func(row pgx.Row) error {
		var n int
		defer func() { report.Say("batch", n) }()
		return row.Scan(&n)
	})
	say.Must(conn.SendBatch(ctx, batch).Close())
	wrong := &pgx.Batch{}
	wrong.Queue("INSERT INTO "+table+" VALUES ($1, 'undone')", 900)
	wrong.Queue("INSERT INTO "+table+" VALUES ($1, 'twice')", 100)
	wrong.Queue("INSERT INTO "+table+" VALUES ($1, 'never run')", 901)
	fail(report, conn.SendBatch(ctx, wrong).Close())
	report.Say("rows", count(conn, table))
}

// pipeline sends by hand: two units, the first of which fails.
func pipeline(conn *pgx.Conn, report *say.Report, table string) {
	pipe := conn.PgConn().StartPipeline(ctx)
	pipe.SendPrepare("sent", "SELECT 10 / $1::int", nil)
	pipe.SendQueryPrepared("sent", [][]byte{[]byte("5")}, nil, nil)
	pipe.SendQueryPrepared("sent", [][]byte{[]byte("0")}, nil, nil)
	pipe.SendQueryParams("INSERT INTO "+table+" VALUES (950, 'never run')", nil, nil, nil, nil)
	say.Must(pipe.Sync())
	pipe.SendQueryPrepared("sent", [][]byte{[]byte("2")}, nil, nil)
	say.Must(pipe.Sync())
	for {
		result, err := pipe.GetResults()
		if err == nil && result == nil {
			break
		}
		switch result := result.(type) {
		case *pgconn.ResultReader:
			read := result.Read()
			if read.Err != nil {
				fail(report, read.Err)
				continue
			}
			report.Say("pipeline", read.Rows, read.CommandTag)
		case nil:
			fail(report, err)
		default:
			report.Say("pipeline", fmt.Sprintf("%T", result))
		}
	}
	say.Must(pipe.Close())
	report.Say("rows", count(conn, table))
}

func copies(conn *pgx.Conn, report *say.Report, table string) {
	rows := pgx.CopyFromSlice(3000, func(n int) ([]any, error) { return []any{1000 + n, "ü"}, nil })
	report.Say("copied", say.Got(conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "note"}, rows)))
	var out strings.Builder
	tag := say.Got(conn.PgConn().CopyTo(ctx, &out, "COPY (SELECT * FROM "+table+" ORDER BY id) TO STDOUT"))
	report.Say("copy", tag, out.String())
	_, err := conn.PgConn().CopyFrom(ctx, strings.NewReader("not a number\tx\n"), "COPY "+table+" FROM STDIN")
	fail(report, err)
	twice := pgx.CopyFromRows([][]any{{5000, "undone"}, {1000, "twice"}})
	_, err = conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "note"}, twice)
	fail(report, err)
	report.Say("rows", count(conn, table))
}

func session(conn *pgx.Conn, report *say.Report) {
	exec(conn, "DO $$ BEGIN RAISE NOTICE 'heard'; RAISE WARNING 'twice'; END $$")
	exec(conn, "SET TimeZone = 'Asia/Tokyo'")
	var zone string
	say.Must(conn.QueryRow(ctx, "SHOW TimeZone").Scan(&zone))
	report.Say("setting", zone, conn.PgConn().ParameterStatus("TimeZone"))
	exec(conn, "RESET TimeZone")
	report.Say("empty", say.Got(conn.Exec(ctx, "")), say.Got(conn.Exec(ctx, ";")))
	for _, result := range say.Got(conn.PgConn().Exec(ctx, "SELECT 1; SELECT 'two', NULL; ; SELECT WHERE false").ReadAll()) {
		report.Say("several", result.CommandTag, result.Rows)
	}
	_, err := conn.PgConn().Exec(ctx, "SELECT 1; SELECT 1 / 0; SELECT 2").ReadAll()
	fail(report, err)
}

func alone(report *say.Report) {
	conn, observer := connect(nil), connect(nil)
	slept := make(chan error)
	go func() {
		_, err := conn.Exec(ctx, say.Sleep)
		slept <- err
	}()
	var running int
	for running == 0 {
		say.Must(observer.QueryRow(ctx, say.Sleeping).Scan(&running))
	}
	say.Must(conn.PgConn().CancelRequest(ctx))
	fail(report, <-slept)
	exec(conn, "LISTEN news")
	say.Got(observer.Exec(ctx, "SELECT pg_notify('news', $1)", "hello"))
	heard := say.Got(conn.WaitForNotification(ctx))
	report.Say("heard", heard.Channel, heard.Payload)
	var hits int
	say.Must(observer.QueryRow(ctx, "SELECT hits FROM shared").Scan(&hits))
	report.Say("sum", hits)
	say.Must(conn.Close(ctx))
	say.Must(observer.Close(ctx))
}
