// Command bench measures docket against the plain program that does only the
// unavoidable part on the same disk, and says which targets are met.
//
//	go run -C bench .                                        print the table
//	go run -C bench . -only ingest,queue -rounds 3           part of it
//	go run -C bench . -large=false                           without those that need 5 GB of disk
//	go run -C bench . -only ingest -profile DIR              and a CPU profile of docket
//	go run -C bench . -json FILE -markdown FILE              keep the results, write the page
//	go run -C bench . -from FILE -markdown FILE              write the page again, without measuring
//
// Absolute figures of a shared machine drift by a factor of two to four within
// an hour. So each round runs every program once, ratios are taken within the
// round, and what is shown is the median of the rounds with the least and the
// greatest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the program, or what it is in the processes that it starts: the
// producers, the server to compare with, what fills a queue, the
// destinations, and the plain programs that deliver to them.
func run(ctx context.Context, args []string) error {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case produceCommand:
		return process.Answer(ctx, args[1:], os.Stdout, load.run)
	case answerCommand:
		return answerMain(args[1:])
	case walSidecarCommand:
		return walSidecarMain(ctx, args[1:])
	case tryLogCommand:
		return tryLogMain(ctx, args[1:], os.Stdout)
	case fillCommand:
		return fillMain(ctx, args[1:])
	case receiveCommand:
		return destinationMain(os.Stdin, os.Stdout, serveHTTP)
	case brokerCommand:
		return destinationMain(os.Stdin, os.Stdout, serveKafka)
	case postLoopCommand:
		return process.Answer(ctx, args[1:], os.Stdout, postLoop.run)
	case produceLoopCommand:
		return process.Answer(ctx, args[1:], os.Stdout, produceLoop.run)
	}
	return benchMain(ctx, args, os.Stdout)
}

// options are what the command line says.
type options struct {
	rounds  int
	records int
	only    string
	large   bool
	dir     string
	docket  string
	profile string
	files   report.Files
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "how often everything is measured")
	flags.IntVar(&o.records, "records", 200_000, "records of 1 KB in each measurement under load")
	flags.StringVar(&o.only, "only", "", "measure only these, comma-separated: "+strings.Join(names(experiments()), ","))
	flags.BoolVar(&o.large, "large", true, "measure with a backlog of 5 GB as well, which takes room on the disk meanwhile")
	flags.StringVar(&o.dir, "dir", "", "directory on the disk to measure (default: .cache of the repository)")
	flags.StringVar(&o.docket, "docket", "", "measure the program `BINARY` instead of one built from this tree")
	o.files.Flags(flags)
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of docket, under the load alone, to `DIR`/EXPERIMENT.pprof for each of "+
		"ingest, growing, http, kafka, export and what shares their load; sampling then costs docket a little")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.rounds < 1:
		return o, errors.New("-rounds must be at least 1")
	case o.records < producers*linesInFlight:
		return o, fmt.Errorf("-records must be at least %d: fewer are in flight all at once", producers*linesInFlight)
	}
	return o, nil
}

func benchMain(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	r, err := results(ctx, o)
	if err != nil {
		return err
	}
	return o.files.Write(out, r)
}

// results measures, or reads what was measured before.
func results(ctx context.Context, o options) (*outcome, error) {
	if o.files.From != "" {
		return readOutcome(o.files.From)
	}
	chosen, err := choose(experiments(), o.only, o.large)
	if err != nil {
		return nil, err
	}
	l, err := newLab(ctx, o)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	for _, e := range chosen {
		if e.check == nil {
			continue
		}
		if err := e.check(l); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	r, err := measure(ctx, l, chosen, o.rounds)
	if err != nil {
		return nil, err
	}
	return r, l.mergeProfiles(ctx, chosen)
}

func needsLarge(e experiment) bool { return e.Large }

// measure runs the experiments one after another, round after round.
func measure(ctx context.Context, l *lab, chosen []experiment, rounds int) (*outcome, error) {
	r := &outcome{Head: report.Head{Machine: l.Machine, Rounds: rounds, Records: l.records}, Experiments: chosen}
	began := time.Now()
	for round := range rounds {
		for i := range chosen {
			e := &chosen[i]
			fmt.Fprintf(os.Stderr, "round %d of %d: %s%s\n", round+1, rounds, e.Name, timeLeft(time.Since(began), round*len(chosen)+i, rounds*len(chosen)))
			values, err := runOnce(ctx, l, e)
			if ctx.Err() != nil {
				return nil, errors.New("interrupted")
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
			if err := e.add(values); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
		}
	}
	return r, nil
}

// timeLeft says how long the rest takes when done of all took so long.
func timeLeft(took time.Duration, done, all int) string {
	if done == 0 {
		return ""
	}
	left := took / time.Duration(done) * time.Duration(all-done)
	return ", about " + left.Round(time.Second).String() + " left"
}

// onceWait bounds one run of one experiment, whatever hangs.
const onceWait = 2 * time.Minute

func runOnce(ctx context.Context, l *lab, e *experiment) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, onceWait)
	defer cancel()
	l.experiment = e.Name
	return e.run(l, ctx)
}

// choose returns the experiments that the list names, all of them for an empty
// one but those that must be named, and leaves out those that need the large backlog unless large is set.
func choose(all []experiment, list string, large bool) ([]experiment, error) {
	if list != "" {
		wanted := strings.Split(list, ",")
		for _, name := range wanted {
			if !slices.Contains(names(all), name) {
				return nil, fmt.Errorf("-only: there is no %q, only %s", name, strings.Join(names(all), ", "))
			}
		}
		all = slices.DeleteFunc(all, func(e experiment) bool { return !slices.Contains(wanted, e.Name) })
	} else {
		all = slices.DeleteFunc(all, func(e experiment) bool { return e.Named })
	}
	if !large {
		all = slices.DeleteFunc(all, needsLarge)
	}
	if len(all) == 0 {
		return nil, errors.New("-only names nothing that -large=false does not leave out")
	}
	return all, nil
}
