// Package say is what the Go programs share: clients at work at once, whose lines are printed in order.
package say

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"sync"
)

const (
	clients = 4
	// Big is the length of a big value.
	Big = 1 << 20
	// Sleep is a query that is to be cancelled.
	Sleep = "SELECT pg_sleep(600)"
	// Sleeping counts those that run.
	Sleeping = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'" +
		" AND query = 'SELECT pg_sleep(600)'"
)

// Report keeps the lines of one client until it is its turn.
type Report struct {
	Number int
	Name   string
	lines  []string
}

// Say adds a line.
func (r *Report) Say(section string, values ...any) {
	shown := make([]string, len(values))
	for i, value := range values {
		shown[i] = fmt.Sprintf("%+v", value)
		if len(shown[i]) > 1000 {
			shown[i] = fmt.Sprintf("%d bytes, %x", len(shown[i]), sha256.Sum256([]byte(shown[i])))
		}
	}
	r.lines = append(r.lines, fmt.Sprintf("client %s: %s: %s", r.Name, section, strings.Join(shown, " ")))
}

// Run runs client for all clients at once, then alone.
func Run(client, alone func(*Report)) {
	reports := make([]*Report, clients)
	var group sync.WaitGroup
	for number := range reports {
		report := &Report{Number: number, Name: fmt.Sprint(number)}
		reports[number] = report
		group.Go(func() { client(report) })
	}
	group.Wait()
	last := &Report{Name: "alone"}
	alone(last)
	for _, report := range append(reports, last) {
		fmt.Println(strings.Join(report.lines, "\n"))
	}
}

// Must ends the program on an unexpected error.
func Must(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		panic(err)
	}
}

// Got is Must for a value.
func Got[T any](value T, err error) T {
	Must(err)
	return value
}
