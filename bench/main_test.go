package bench

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	program = flag.String("docket", "../bin/docket", "measure this `binary`, of another tree for instance")
	diskOf  = flag.String("dir", "../.cache", "measure on the disk that `directory` is on")
	large   = flag.Bool("large", false, "measure with a backlog of 5 GB as well")
)

// job is what this program does in a process of its own: what loads docket must not share its memory,
// nor its processor time. Its fields are the argument, as JSON.
type job interface{ run() (done, error) }

// jobs lists them. A function, as some of them start others.
func jobs() []job {
	return []job{
		new(load), new(postLoop), new(produceLoop), new(walSidecar), new(plainSidecar), new(admissionEngine),
		new(shortWrite), new(concurrentReaders),
	}
}

// jobVariable names the job that a process is.
const jobVariable = "BENCH_JOB"

func TestMain(m *testing.M) {
	if name := os.Getenv(jobVariable); name != "" {
		if err := work(name, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

func nameOf(j job) string { return reflect.TypeOf(j).Elem().Name() }

func work(name, argument string) error {
	j := jobs()[slices.IndexFunc(jobs(), func(j job) bool { return nameOf(j) == name })]
	if err := json.Unmarshal([]byte(argument), j); err != nil {
		return err
	}
	d, err := j.run()
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(d))
}

// as returns the command and the environment of a process that does j.
func as(b testing.TB, j job) (env, command []string) {
	return []string{jobVariable + "=" + nameOf(j), "GORACE=halt_on_error=1"},
		[]string{must(os.Executable())(b), string(must(json.Marshal(j))(b))}
}

// perform returns what j has come to, once it is done.
func perform(b testing.TB, j job) (d done) {
	b.Helper()
	env, command := as(b, j)
	cmd := exec.CommandContext(b.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	check(b, err)
	check(b, json.Unmarshal(out, &d))
	return d
}

// done is what a job has come to.
type done struct {
	Records int   // that were taken
	Each    []int // of each producer
	// Began is the first write. Taken is when all was taken: acknowledged, or else read to the end of
	// the stream and the connection closed.
	Began, Taken time.Time
	CPU          time.Duration // of the process of the job
	// Waits are how long each record waited for its ack, with one in flight.
	Waits []time.Duration
}

func (d done) stint() stint { return stint{records: d.Records, took: d.Taken.Sub(d.Began), cpu: d.CPU} }

// timed has n goroutines run to their end.
func timed(n int, run func(i int) error) (d done, err error) {
	errs := make([]error, n)
	var running sync.WaitGroup
	d.Began = time.Now()
	for i := range n {
		running.Go(func() { errs[i] = run(i) })
	}
	running.Wait()
	d.Taken = time.Now()
	d.CPU = cpuTime(os.Getpid())
	return d, errors.Join(errs...)
}

// stint is what a program has come to, in one lap or in several.
type stint struct {
	records   int
	parts     float64 // commits, batches or requests that the records came in
	took, cpu time.Duration
}

func (s *stint) add(lap stint) {
	s.records, s.parts, s.took, s.cpu = s.records+lap.records, s.parts+lap.parts, s.took+lap.took, s.cpu+lap.cpu
}

func (s stint) report(b *testing.B) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(s.records)/s.took.Seconds(), "records/s")
	if s.cpu > 0 {
		b.ReportMetric(s.cpu.Seconds()*1e6/float64(s.records), "us-cpu/record")
	}
	if s.parts > 0 {
		b.ReportMetric(s.perPart(), "records/part")
	}
}

func (s stint) perPart() float64 { return float64(s.records) / s.parts }

// reportWaits reports the median and the 99th percentile.
func reportWaits(b *testing.B, waits []time.Duration) {
	slices.Sort(waits)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(waits[len(waits)/2].Nanoseconds())/1e3, "us-p50")
	b.ReportMetric(float64(waits[len(waits)*99/100].Nanoseconds())/1e3, "us-p99")
}

// sizes has run begin with a small backlog, and with one of 5 GB.
func sizes(b *testing.B, small string, records int, run func(b *testing.B, records int)) {
	b.Run("backlog="+small, func(b *testing.B) { run(b, records) })
	b.Run("backlog=5GB", func(b *testing.B) {
		if !*large {
			b.Skip("it needs 5 GB of disk: use -large")
		}
		run(b, 5_000_000)
	})
}

func check(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// must returns what ends b with the error, if there is one, and else returns v.
func must[V any](v V, err error) func(b testing.TB) V {
	return func(b testing.TB) V {
		b.Helper()
		check(b, err)
		return v
	}
}

// patience is far beyond anything that is waited for, on a busy machine too.
const patience = 3 * time.Minute

// until asks again after a pause until ok.
func until(b testing.TB, what string, pause time.Duration, ok func() bool) {
	b.Helper()
	for began := time.Now(); !ok(); time.Sleep(pause) {
		if time.Since(began) > patience {
			b.Fatal("no time is left to wait for " + what)
		}
	}
}

// scratch makes an empty directory on the disk, which has come to rest: what was written before must
// not be paid for by what is measured next.
func scratch(b *testing.B) string {
	b.Helper()
	check(b, os.MkdirAll(*diskOf, 0o755))
	dir := must(filepath.Abs(must(os.MkdirTemp(*diskOf, "bench-"))(b)))(b)
	b.Cleanup(func() { check(b, os.RemoveAll(dir)) })
	rest(b, dir)
	return dir
}

// settle waits until a queue has nothing to do: what was delivered is let go, and what comes next is
// prepared. Its directory shows that.
func settle(b *testing.B, dir string) {
	b.Helper()
	before := ""
	until(b, "the queue to have nothing to do", 250*time.Millisecond, func() bool {
		var now strings.Builder
		for _, entry := range must(os.ReadDir(dir))(b) {
			if info, err := entry.Info(); err == nil { // else it has just gone
				fmt.Fprintln(&now, info.Name(), info.Size(), info.ModTime())
			}
		}
		same := now.String() == before
		before = now.String()
		return same
	})
	rest(b, dir)
}
