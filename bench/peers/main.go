// Command peers measures docket beside what people use today, at the same work and in
// the same minutes: rsyslog and syslog-ng from Debian's packages, Filebeat and the
// OpenTelemetry collector from their Go modules.
//
//	go run -C bench ./peers                                  print the tables
//	go run -C bench ./peers -only rsyslog -rounds 1          docket and one of them
//	go run -C bench ./peers -json FILE -markdown FILE        keep the results, write the page
//	go run -C bench ./peers -from FILE -chart FILE           draw the chart again, without measuring
//
// The peers are unpacked or built below .cache; nothing is installed, and no root is
// needed. Each round measures every program once, in another order, and quotients
// are taken within the round, as in "make bench".
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/report"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
)

func main() { process.Main("peers", run) }

// produceCommand is this program in the process of the producers.
const produceCommand = "produce"

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == produceCommand {
		return process.Answer(load.Load.Run)(ctx, args[1:], out)
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	return trial.Run(ctx, func(t *trial.T) {
		r := results(t, o)
		trial.Check(o.Write(out, r))
		if o.chart != "" {
			trial.Check(os.WriteFile(o.chart, []byte(r.chart()), 0o666))
		}
	})
}

// options are what the command line says.
type options struct {
	report.Options
	only, measures, chart, note string
}

func parseOptions(args []string) (o options, err error) {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "measure only these beside docket, comma-separated: "+strings.Join(peerNames(peers()[1:]), ","))
	flags.StringVar(&o.measures, "measure", "", "measure only this, comma-separated: "+strings.Join(measureNames(), ","))
	flags.StringVar(&o.note, "note", "", "what a reader of the page must know of this run, in a sentence")
	flags.StringVar(&o.chart, "chart", "", "draw the headlines to `FILE`, as SVG")
	return o, o.Parse(flags, args, 3, 1000, ", or what is sent within "+loadLimit.String())
}

// lab is where the peers are measured, with the programs.
type lab struct {
	*site.Site
	*trial.T               // the measurement that runs
	records  int           // in each measurement under load
	quiet    time.Duration // nothing must have arrived for so long to believe that nothing more will
	// installed is where each peer lies, by its name.
	installed map[string]installation
}

// results measures, or reads what was measured before.
func results(t *trial.T, o options) *outcome {
	if o.From != "" {
		return trial.Must(readOutcome(o.From))
	}
	chosen := trial.Must(contenders(peers(), o.only))
	measures := trial.Must(chosenMeasures(o.measures))
	l := &lab{Site: site.New(t, o.Dir), T: t, records: o.Records, quiet: quietWait, installed: map[string]installation{}}
	l.install(chosen)
	l.Warm(2 * l.records * record.Bytes) // more than any measurement writes
	r := l.measureAll(chosen, measures, o.Rounds)
	r.Note = o.note
	return r
}

// install makes every peer that is chosen ready to start.
func (l *lab) install(chosen []contender) {
	for _, c := range chosen {
		name := c.peer.Name
		if _, ok := l.installed[name]; ok {
			continue
		}
		cache := filepath.Join(l.Root, ".cache", "peers")
		switch {
		case len(c.Packages) > 0:
			l.installed[name] = unpack(l.T, cache, c.peer)
		case c.Module != "":
			l.installed[name] = build(l.T, cache, c.peer)
		default:
			site.Build(l.T, l.Root, filepath.Join(l.Short, name))
			l.installed[name] = installation{root: l.Short, version: "this tree"}
		}
	}
}

// measureAll measures every contender in turn, round after round. Each round begins
// with another, so that none is always the first.
func (l *lab) measureAll(chosen []contender, measures []measure, rounds int) *outcome {
	r := &outcome{Head: report.Head{Machine: l.Machine, Rounds: rounds, Records: l.records}, Measures: measures}
	for _, c := range chosen {
		r.Contenders = append(r.Contenders, entry{
			Key: c.key(), Peer: c.peer.Name, Setting: c.setting.Name, About: c.About, Version: l.installed[c.peer.Name].version,
		})
	}
	for round := range rounds {
		for i := range r.Measures {
			m := &r.Measures[i]
			for j := range chosen {
				c := chosen[(j+round)%len(chosen)]
				if slices.Contains(c.Skip, m.Name) {
					continue
				}
				f := l.once(m.Name, c)
				fmt.Fprintf(os.Stderr, "round %d of %d: %s: %s: %s\n", round+1, rounds, m.Name, c.key(), f.line(m.Columns))
				trial.Check(m.add(c.key(), f))
			}
		}
	}
	return r
}

// onceWait bounds one measurement of one contender, whatever hangs.
const onceWait = 2 * time.Minute

// once measures one contender.
func (l *lab) once(measure string, c contender) (f figures) {
	l.Part(measure+": "+c.key(), onceWait, func(t *trial.T) {
		at := *l
		at.T = t
		f = runs[measure](&at, c)
	})
	return f
}
