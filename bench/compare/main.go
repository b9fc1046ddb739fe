// Command compare says whether this tree is slower than an older commit:
//
//	make bench-compare BASE=HEAD~1                        everything, some five minutes
//	make bench-compare BASE=v1.2.0 COUNT=10               more pairs, finer differences
//	go run -C bench ./compare -base HEAD~1 -only single -bench '^$'
//
// It builds docket and the Go benchmarks of both trees, lets them run in turn, pair
// after pair, and gives the results to benchstat. It fails if a figure became worse
// by more than a bound and benchstat takes the difference for significant. What is
// on the disk counts as this tree, committed or not.
//
// One program loads and measures both binaries of docket, that of this tree. So a
// base must understand the configuration that "make bench" writes today, and what
// an experiment measures of packages of its own process is not compared.
//
// Benchstat calls a difference significant that chance alone would make in one
// comparison of twenty, and here are some thirty: one that is close to the bound is
// worth a second run, with more pairs, before it is believed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

// errWorse is what run returns when it has shown that something became worse.
var errWorse = errors.New("this tree is slower than its base")

func main() { process.Main("compare", run) }

// options are what the command line says.
type options struct {
	base      string
	count     int
	only      string
	packages  string
	bench     string
	benchtime string
	bound     float64
	keep      string
	benchstat string
}

// usualBenchmarks are those of the code that every record goes through.
const usualBenchmarks = `^BenchmarkValid$/^(record|escapes)$/^rawjson$|^BenchmarkAppendLine$/^docket$|^BenchmarkCopy$|` +
	`^BenchmarkNormalize$/^(docket|gatekeeper_admission)$|^BenchmarkNext$/^500$|^BenchmarkDeliver$`

func parseOptions(args []string) (o options, err error) {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.StringVar(&o.base, "base", "", "the `REVISION` to compare with")
	flags.IntVar(&o.count, "count", 6, "how many pairs are measured")
	flags.StringVar(&o.only, "only", "growing,single,http,idle", "what docket has to do, comma-separated, or nothing: "+watchedNames())
	flags.StringVar(&o.packages, "packages", "decision/rawjson,decision,exporter/queue,exporter", "packages whose Go benchmarks are run, comma-separated")
	flags.StringVar(&o.bench, "bench", usualBenchmarks, "run only the Go benchmarks that match this regular `EXPRESSION`")
	flags.StringVar(&o.benchtime, "benchtime", "200ms", "run each Go benchmark so long")
	flags.Float64Var(&o.bound, "bound", 5, "fail if something became worse by more than so many `PERCENT`")
	flags.StringVar(&o.keep, "keep", "", "leave base.txt and head.txt, what benchstat reads, in `DIRECTORY`")
	flags.StringVar(&o.benchstat, "benchstat", "", "the `PROGRAM` benchstat (default: .cache/bin/benchstat of the repository)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.base == "":
		return o, errors.New("compare with what? Name a commit, a branch or a tag: make bench-compare BASE=HEAD~1")
	case o.count < 1:
		return o, errors.New("-count must be at least 1")
	case o.bound < 0:
		return o, errors.New("-bound must not be negative")
	}
	for _, name := range fields(o.only) {
		if watched[name] == nil {
			return o, fmt.Errorf("-only: there is no %q, only %s", name, watchedNames())
		}
	}
	return o, nil
}

// fields returns the items of a comma-separated list, none for an empty one.
func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// fewPairs are too few for benchstat to find any difference significant.
const fewPairs = 3

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	return trial.Run(ctx, func(t *trial.T) {
		w := newWorkshop(t, o)
		w.build()
		w.measure()
		table, changes := w.benchstat()
		fmt.Fprintf(out, "%s\n\n", table)
		if o.count <= fewPairs {
			fmt.Fprintf(out, "no verdict: with -count %d no difference can be called significant; with 6 it can\n", o.count)
			return
		}
		trial.Check(judge(out, changes, o.bound/100))
	})
}

// judge says what became worse by more than bound, a fraction of the base, and
// returns errWorse if anything did.
func judge(out io.Writer, changes []change, bound float64) error {
	worse := 0
	for _, c := range changes {
		loss, known := c.loss()
		if !known {
			fmt.Fprintf(out, "not judged: %s: whether more %s is better is unknown\n", c.name, c.unit)
			continue
		}
		if !c.significant || loss <= bound {
			continue
		}
		worse++
		fmt.Fprintf(out, "WORSE: %s: %.4g -> %.4g %s, %s (%s)\n", c.name, c.base, c.head, c.unit, percent(loss), c.p)
	}
	if worse > 0 {
		fmt.Fprintf(out, "%d of %d figures became worse by more than %s\n", worse, len(changes), percent(bound))
		return errWorse
	}
	fmt.Fprintf(out, "no regression: none of %d figures became worse by more than %s\n", len(changes), percent(bound))
	return nil
}

func percent(fraction float64) string {
	if math.IsInf(fraction, 1) {
		return "from nothing"
	}
	return fmt.Sprintf("%.3g %%", 100*fraction)
}
