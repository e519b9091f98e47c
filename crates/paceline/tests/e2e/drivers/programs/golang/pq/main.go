// lib/pq under database/sql: pools, prepared statements, transactions, COPY IN, cancelling by context, a listener.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lib/pq"
	"paceline/drivers/say"
)

var (
	ctx = context.Background()
	url = os.Args[1] + "?sslmode=disable"
)

func main() {
	db := open()
	say.Got(db.Exec("CREATE TABLE shared (id int PRIMARY KEY, hits int NOT NULL); INSERT INTO shared VALUES (1, 0)"))
	say.Must(db.Close())
	say.Run(client, alone)
}

func open() *sql.DB {
	return say.Got(sql.Open("postgres", url))
}

func client(report *say.Report) {
	table := fmt.Sprintf("rows%d", report.Number)
	db := open()
	conn := say.Got(db.Conn(ctx))
	say.Got(conn.ExecContext(ctx, "CREATE TABLE "+table+" (id int PRIMARY KEY, note text)"))
	types(conn, report)
	transactions(conn, report, table)
	prepared(conn, report, table)
	copies(conn, report, table)
	session(conn, report)
	for range 20 {
		say.Got(conn.ExecContext(ctx, "UPDATE shared SET hits = hits + $1 WHERE id = $2", 1, 1))
	}
	say.Must(conn.Close())
	say.Must(db.Close())
}

func fail(report *say.Report, err error) {
	var told *pq.Error
	if !errors.As(err, &told) {
		say.Must(fmt.Errorf("not an error of the server: %w", err))
	}
	report.Say("error", told.Code, told.Message, told.Position)
}

func types(conn *sql.Conn, report *say.Report) {
	var (
		number  int64
		text    string
		moment  time.Time
		data    []byte
		truth   bool
		float   float64
		missing sql.NullString
		numbers []sql.NullInt64
		texts   []string
	)
	row := conn.QueryRowContext(ctx, "SELECT $1::int8, $2::text, $3::timestamptz, $4::bytea, $5::bool, $6::float8, $7::text, $8::int[], $9::text[]",
		int64(-1<<63), "Grüße, 世界 'quoted' \\ \n", time.Unix(0, 0), []byte{0, 255}, true, 1.5, nil, "{1,NULL}", pq.Array([]string{"a,b", `"`, ""}))
	say.Must(row.Scan(&number, &text, &moment, &data, &truth, &float, &missing, pq.Array(&numbers), pq.Array(&texts)))
	report.Say("types", number, text, moment.UTC(), data, truth, float, missing, numbers, texts)
	big := conn.QueryRowContext(ctx, "SELECT $1::text, $2::bytea", strings.Repeat("ü", say.Big/2), make([]byte, say.Big))
	say.Must(big.Scan(&text, &data))
	report.Say("big", text, len(data))
	report.Say("many", values(conn, "SELECT repeat('x', 100) FROM generate_series(1, 1000)"))
}

// values are those of a query's only column.
func values(conn *sql.Conn, query string, arguments ...any) (found []string) {
	rows := say.Got(conn.QueryContext(ctx, query, arguments...))
	for rows.Next() {
		var value string
		say.Must(rows.Scan(&value))
		found = append(found, value)
	}
	say.Must(rows.Err())
	return found
}

func transactions(conn *sql.Conn, report *say.Report, table string) {
	tx := say.Got(conn.BeginTx(ctx, nil))
	say.Got(tx.Exec("INSERT INTO " + table + " VALUES (1, 'undone')"))
	_, err := tx.Exec("SELECT 1 / $1::int", 0)
	fail(report, err)
	_, err = tx.Exec("SELECT 1")
	fail(report, err)
	say.Must(tx.Rollback())
	tx = say.Got(conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable}))
	say.Got(tx.Exec("INSERT INTO " + table + " VALUES (1, 'kept'); SAVEPOINT here"))
	_, err = tx.Exec("INSERT INTO "+table+" VALUES ($1, 'twice')", 1)
	fail(report, err)
	say.Got(tx.Exec("ROLLBACK TO here"))
	say.Must(tx.Commit())
	report.Say("rows", values(conn, "SELECT note FROM "+table))
}

func prepared(conn *sql.Conn, report *say.Report, table string) {
	statement := say.Got(conn.PrepareContext(ctx, "SELECT $1::int + count(*) FROM "+table))
	found := make([]int, 20)
	for number := range found {
		say.Must(statement.QueryRow(number).Scan(&found[number]))
	}
	say.Must(statement.Close())
	report.Say("prepared", found)
	_, err := conn.PrepareContext(ctx, "SELECT nothing FROM "+table)
	fail(report, err)
	insert := say.Got(conn.PrepareContext(ctx, "INSERT INTO "+table+" VALUES ($1, $2)"))
	for n := range 20 {
		affected := say.Got(insert.Exec(100+n, fmt.Sprint(n)))
		report.Say("inserted", say.Got(affected.RowsAffected()))
	}
	_, err = insert.Exec(100, "twice")
	fail(report, err)
	say.Must(insert.Close())
}

func copies(conn *sql.Conn, report *say.Report, table string) {
	for _, last := range []int{3000, 1000} {
		tx := say.Got(conn.BeginTx(ctx, nil))
		into := say.Got(tx.Prepare("COPY " + table + " (id, note) FROM STDIN"))
		for n := 1000; n < 3000; n++ {
			say.Got(into.Exec(n, "ü"))
		}
		say.Got(into.Exec(last, nil))
		if _, err := into.Exec(); err != nil {
			fail(report, err)
			say.Must(tx.Rollback())
			continue
		}
		say.Must(into.Close())
		say.Must(tx.Commit())
	}
	report.Say("copied", values(conn, "SELECT count(*) FROM "+table))
}

func session(conn *sql.Conn, report *say.Report) {
	say.Got(conn.ExecContext(ctx, "SET TimeZone = 'Asia/Tokyo'"))
	report.Say("setting", values(conn, "SHOW TimeZone"))
	say.Got(conn.ExecContext(ctx, "RESET TimeZone"))
	say.Got(conn.ExecContext(ctx, ""))
	rows := say.Got(conn.QueryContext(ctx, "SELECT 1; SELECT 2"))
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			var n int
			say.Must(rows.Scan(&n))
			report.Say("several", n)
		}
	}
	say.Must(rows.Close())
	_, err := conn.ExecContext(ctx, "SELECT 1; SELECT 1 / 0")
	fail(report, err)
}

func alone(report *say.Report) {
	db := open()
	cancellable, cancel := context.WithCancel(ctx)
	slept := make(chan error)
	go func() {
		_, err := db.ExecContext(cancellable, say.Sleep)
		slept <- err
	}()
	running := 0
	for running == 0 {
		say.Must(db.QueryRow(say.Sleeping).Scan(&running))
	}
	cancel()
	report.Say("cancelled", <-slept)
	listener := pq.NewListener(url, time.Second, time.Minute, nil)
	say.Must(listener.Listen("news"))
	say.Got(db.Exec("SELECT pg_notify('news', $1)", "hello"))
	for heard := range listener.Notify {
		if heard != nil {
			report.Say("heard", heard.Channel, heard.Extra)
			break
		}
	}
	say.Must(listener.Close())
	var hits int
	say.Must(db.QueryRow("SELECT hits FROM shared").Scan(&hits))
	report.Say("sum", hits)
	say.Must(db.Close())
}
