// Command peers measures docket beside what people use today, rsyslog and syslog-ng
// from Debian's packages, at the same work and in the same minutes.
//
//	go run -C bench ./peers                                  print the tables
//	go run -C bench ./peers -only rsyslog -rounds 1          docket and one of them
//	go run -C bench ./peers -json FILE -markdown FILE        keep the results, write the page
//	go run -C bench ./peers -from FILE -markdown FILE        write the page again, without measuring
//
// The packages are unpacked below .cache; nothing is installed, and no root is
// needed. Each round measures every program once, in another order, and quotients
// are taken within the round, as in "make bench".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	r, err := results(ctx, o)
	if err != nil {
		return err
	}
	return o.Write(out, r)
}

// options are what the command line says.
type options struct {
	report.Options
	only string
}

func parseOptions(args []string) (o options, err error) {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "measure only these beside docket, comma-separated: "+strings.Join(peerNames(peers()[1:]), ","))
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
func results(ctx context.Context, o options) (*outcome, error) {
	if o.From != "" {
		return readOutcome(o.From)
	}
	chosen, err := contenders(peers(), o.only)
	if err != nil {
		return nil, err
	}
	s, err := site.New(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	l := &lab{Site: s, records: o.Records, quiet: quietWait, installed: map[string]installation{}}
	if err := l.install(ctx, chosen); err != nil {
		return nil, err
	}
	if err := site.Warm(l.Disk, 2*l.records*record.Bytes); err != nil { // more than any measurement writes
		return nil, err
	}
	r, err := l.measureAll(ctx, chosen, o.Rounds)
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	return r, err
}

// install makes every peer that is chosen ready to start.
func (l *lab) install(ctx context.Context, chosen []contender) (err error) {
	for _, c := range chosen {
		if _, ok := l.installed[c.peer.Name]; ok {
			continue
		}
		in := installation{root: l.Short, version: "this tree"}
		if len(c.Packages) == 0 {
			err = site.Build(ctx, l.Root, filepath.Join(l.Short, c.peer.Name))
		} else {
			in, err = unpack(ctx, filepath.Join(l.Root, ".cache", "peers"), c.peer)
		}
		if err != nil {
			return err
		}
		l.installed[c.peer.Name] = in
	}
	return nil
}

// measureAll measures every contender in turn, round after round. Each round begins
// with another, so that none is always the first.
func (l *lab) measureAll(ctx context.Context, chosen []contender, rounds int) (*outcome, error) {
	r := &outcome{Head: report.Head{Machine: l.Machine, Rounds: rounds, Records: l.records}, Measures: work().Measures}
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
				f, err := l.once(ctx, m.Name, c)
				if err == nil {
					fmt.Fprintf(os.Stderr, "round %d of %d: %s: %s: %s\n", round+1, rounds, m.Name, c.key(), f.line(m.Columns))
					err = m.add(c.key(), f)
				}
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", m.Name, c.key(), err)
				}
			}
		}
	}
	return r, nil
}

// onceWait bounds one measurement of one contender, whatever hangs.
const onceWait = 2 * time.Minute

// once measures one contender.
func (l *lab) once(ctx context.Context, measure string, c contender) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, onceWait)
	defer cancel()
	err = trial.Run(ctx, func(t *trial.T) {
		at := *l
		at.T = t
		f = runs[measure](&at, c)
	})
	return f, err
}
