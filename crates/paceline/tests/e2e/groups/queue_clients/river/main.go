// River as an application uses it; the commands are described in ../mod.rs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// Order is a job.
type Order struct {
	Job int `json:"job"`
}

// Kind is its name in River's tables.
func (Order) Kind() string { return "order" }

type worker struct {
	river.WorkerDefaults[Order]
	pool *pgxpool.Pool
}

func (w *worker) Work(ctx context.Context, job *river.Job[Order]) error {
	_, err := w.pool.Exec(ctx, "INSERT INTO done (job) VALUES ($1)", job.Args.Job)
	return err
}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Args[1])
	if err == nil {
		err = run(ctx, pool, os.Args[2], os.Args[3:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, pool *pgxpool.Pool, command string, arguments []string) error {
	switch command {
	case "migrate":
		return migrate(ctx, pool)
	case "enqueue":
		return enqueue(ctx, pool, arguments[0], arguments[1])
	case "work":
		return work(ctx, pool)
	case "recover":
		return recoverJobs(ctx, pool)
	}
	return fmt.Errorf("there is no command %q", command)
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func enqueue(ctx context.Context, pool *pgxpool.Pool, first, last string) error {
	from, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	to, err := strconv.Atoi(last)
	if err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	for job := from; err == nil && job <= to; job++ {
		_, err = client.Insert(ctx, Order{Job: job}, nil)
	}
	return err
}

// newClient makes one that works, from what is special about it.
func newClient(pool *pgxpool.Pool, config river.Config) (*river.Client[pgx.Tx], error) {
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, &worker{pool: pool})
	return river.NewClient(riverpgxv5.New(pool), &config)
}

func work(ctx context.Context, pool *pgxpool.Pool) error {
	client, err := newClient(pool, river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 8}},
		// The one that recovers leads, without waiting for a dead leader's time to be up.
		LeaderElectionDisabled: true,
	})
	if err != nil {
		return err
	}
	asked, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	if err := client.Start(ctx); err != nil {
		return err
	}
	<-asked.Done()
	return client.Stop(ctx)
}

// atOnce retries without a pause.
type atOnce struct{}

func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

// recoverJobs lets River's maintenance rescue the jobs of workers that are gone, and returns when they can be had again.
func recoverJobs(ctx context.Context, pool *pgxpool.Pool) error {
	client, err := newClient(pool, river.Config{
		Queues:               map[string]river.QueueConfig{"none": {MaxWorkers: 1}},
		JobTimeout:           time.Millisecond,
		RescueStuckJobsAfter: time.Millisecond,
		RetryPolicy:          atOnce{},
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	for left := 1; left > 0 && err == nil; time.Sleep(10 * time.Millisecond) {
		err = pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state IN ('running', 'retryable')").Scan(&left)
	}
	if err != nil {
		return err
	}
	return client.Stop(ctx)
}
