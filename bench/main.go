// Command bench measures docket against the plain program that does only the
// unavoidable part on the same disk, and says which targets are met.
//
//	go run -C bench .                                        print the table
//	go run -C bench . -only ingest,queue -rounds 3           part of it
//	go run -C bench . -large=false -kafka=false              without those that need 5 GB of disk, or java and mvn
//	go run -C bench . -gatekeeper=false                      without those that need the servers of make e2e
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
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/report"
	"github.com/docket-export/docket/bench/trial"
)

func main() { process.Main("bench", run) }

// Commands of this program in the processes that it starts.
const (
	produceCommand     = "produce"     // producers
	tryLogCommand      = "trylog"      // a process that logs
	fillCommand        = "fill"        // what fills a queue
	answerCommand      = "answer"      // the server to compare with
	engineCommand      = "engine"      // an admission engine
	walSidecarCommand  = "walsidecar"  // the sidecar to compare with
	postLoopCommand    = "postloop"    // the plain program that delivers over HTTP
	produceLoopCommand = "produceloop" // and to Kafka
)

var commands = map[string]func(ctx context.Context, args []string, out io.Writer) error{
	produceCommand:     process.Answer(load.Load.Run),
	tryLogCommand:      process.Answer(tryLogLoad.run),
	fillCommand:        process.Answer(backlogFill.run),
	answerCommand:      answerMain,
	engineCommand:      engineMain,
	walSidecarCommand:  walSidecarMain,
	postLoopCommand:    process.Answer(postLoop.run),
	produceLoopCommand: process.Answer(produceLoop.run),
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](ctx, args[1:], out)
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	return trial.Run(ctx, func(t *trial.T) { trial.Check(o.Write(out, results(t, o))) })
}

// options are what the command line says.
type options struct {
	report.Options
	only    string
	large   bool
	kafka   bool
	docket  string
	profile string

	gatekeeper bool
}

func parseOptions(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "measure only these, comma-separated: "+strings.Join(names(experiments()), ","))
	flags.BoolVar(&o.large, "large", true, "measure with a backlog of 5 GB as well, which takes room on the disk meanwhile")
	flags.BoolVar(&o.kafka, "kafka", true, "measure with a real Kafka as well, which java runs and mvn downloads once")
	flags.BoolVar(&o.gatekeeper, "gatekeeper", true, "measure beside a real Gatekeeper as well, which make e2e builds once")
	flags.StringVar(&o.docket, "docket", "", "measure the program `BINARY` instead of one built from this tree")
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of docket, under the load alone, to `DIR`/EXPERIMENT.pprof for each of "+
		"ingest, growing, http, kafka, modes, export and what shares their load; sampling then costs docket a little")
	// Fewer records would be in flight all at once.
	return o, o.Parse(flags, args, 5, load.Producers*load.Window, "")
}

// results measures, or reads what was measured before: the experiments one after
// another, round after round.
func results(t *trial.T, o options) *outcome {
	if o.From != "" {
		return trial.Must(readOutcome(o.From))
	}
	chosen := trial.Must(choose(experiments(), o))
	l := newLab(t, o)
	for i := range chosen {
		l.check(&chosen[i])
	}
	began := time.Now()
	for round := range o.Rounds {
		for i := range chosen {
			e := &chosen[i]
			fmt.Fprintf(os.Stderr, "round %d of %d: %s%s\n", round+1, o.Rounds, e.Name, process.TimeLeft(time.Since(began), round*len(chosen)+i, o.Rounds*len(chosen)))
			trial.Check(e.add(l.once(e)))
		}
	}
	l.mergeProfiles(chosen)
	return &outcome{Head: report.Head{Machine: l.Machine, Rounds: o.Rounds, Records: l.records}, Experiments: chosen}
}

// choose returns the experiments that -only lists, all of them without it, and leaves out those
// that need what other flags say is not to be had.
func choose(all []experiment, o options) ([]experiment, error) {
	if o.only != "" {
		wanted := strings.Split(o.only, ",")
		for _, name := range wanted {
			if !slices.Contains(names(all), name) {
				return nil, fmt.Errorf("-only: there is no %q, only %s", name, strings.Join(names(all), ", "))
			}
		}
		all = slices.DeleteFunc(all, func(e experiment) bool { return !slices.Contains(wanted, e.Name) })
	}
	all = slices.DeleteFunc(all, func(e experiment) bool {
		return e.Large && !o.large || e.Kafka && !o.kafka || e.Gatekeeper && !o.gatekeeper
	})
	if len(all) == 0 {
		return nil, errors.New("-only names nothing that -large=false, -kafka=false and -gatekeeper=false do not leave out")
	}
	return all, nil
}
