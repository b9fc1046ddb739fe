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
//
// To add an experiment, describe its rows in experiments.yaml and name the method
// of lab that measures them in experiments.go.
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

	"github.com/docket-export/docket/bench/load"
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

// Commands of this program in the processes that it starts.
const (
	produceCommand     = "produce"     // producers
	tryLogCommand      = "trylog"      // a process that logs
	fillCommand        = "fill"        // what fills a queue
	answerCommand      = "answer"      // the server to compare with
	walSidecarCommand  = "walsidecar"  // the sidecar to compare with
	postLoopCommand    = "postloop"    // the plain program that delivers over HTTP
	produceLoopCommand = "produceloop" // and to Kafka
)

var commands = map[string]func(ctx context.Context, args []string, out io.Writer) error{
	produceCommand:     process.Answer(load.Load.Run),
	tryLogCommand:      process.Answer(tryLogLoad.run),
	fillCommand:        process.Answer(backlogFill.run),
	answerCommand:      answerMain,
	walSidecarCommand:  walSidecarMain,
	postLoopCommand:    process.Answer(postLoop.run),
	produceLoopCommand: process.Answer(produceLoop.run),
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](ctx, args[1:], os.Stdout)
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	r, err := results(ctx, o)
	if err != nil {
		return err
	}
	return o.files.Write(os.Stdout, r)
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
	case o.records < load.Producers*load.Window:
		return o, fmt.Errorf("-records must be at least %d: fewer are in flight all at once", load.Producers*load.Window)
	}
	return o, nil
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
	for i := range chosen {
		if err := l.check(ctx, &chosen[i]); err != nil {
			return nil, err
		}
	}
	r, err := measure(ctx, l, chosen, o.rounds)
	if err != nil {
		return nil, err
	}
	return r, l.mergeProfiles(ctx, chosen)
}

// measure runs the experiments one after another, round after round.
func measure(ctx context.Context, l *lab, chosen []experiment, rounds int) (*outcome, error) {
	r := &outcome{Head: report.Head{Machine: l.Machine, Rounds: rounds, Records: l.records}, Experiments: chosen}
	began := time.Now()
	for round := range rounds {
		for i := range chosen {
			e := &chosen[i]
			fmt.Fprintf(os.Stderr, "round %d of %d: %s%s\n", round+1, rounds, e.Name, timeLeft(time.Since(began), round*len(chosen)+i, rounds*len(chosen)))
			v, err := l.once(ctx, e)
			if ctx.Err() != nil {
				return nil, errors.New("interrupted")
			}
			if err == nil {
				err = e.add(v)
			}
			if err != nil {
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

// choose returns the experiments that the list names, all of them for an empty
// one, and leaves out those that need the large backlog unless large is set.
func choose(all []experiment, list string, large bool) ([]experiment, error) {
	if list != "" {
		wanted := strings.Split(list, ",")
		for _, name := range wanted {
			if !slices.Contains(names(all), name) {
				return nil, fmt.Errorf("-only: there is no %q, only %s", name, strings.Join(names(all), ", "))
			}
		}
		all = slices.DeleteFunc(all, func(e experiment) bool { return !slices.Contains(wanted, e.Name) })
	}
	if !large {
		all = slices.DeleteFunc(all, func(e experiment) bool { return e.Large })
	}
	if len(all) == 0 {
		return nil, errors.New("-only names nothing that -large=false does not leave out")
	}
	return all, nil
}
