package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
)

// lab is where the peers are measured, with the programs.
type lab struct {
	*site.Site
	records int           // in each measurement under load
	quiet   time.Duration // nothing must have arrived for so long to believe that nothing more will
	// installed is where each peer lies, by its name.
	installed map[string]installation
}

// newLab makes a lab that is ready to measure. The caller closes it.
func newLab(ctx context.Context, o options, chosen []contender) (*lab, error) {
	s, err := site.New(ctx, o.dir)
	if err != nil {
		return nil, err
	}
	l := &lab{Site: s, records: o.records, quiet: quietWait, installed: map[string]installation{}}
	if err := l.install(ctx, chosen); err != nil {
		l.Close()
		return nil, err
	}
	// More than any measurement writes.
	if err := site.Warm(l.Disk, 2*l.records*record.Bytes); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// install makes every peer that is chosen ready to start.
func (l *lab) install(ctx context.Context, chosen []contender) error {
	for _, c := range chosen {
		if _, ok := l.installed[c.peer.name]; ok {
			continue
		}
		var in installation
		var err error
		if len(c.packages) == 0 {
			in = installation{root: l.Short, version: "this tree"}
			err = site.Build(ctx, l.Root, in.binary(c.peer.name))
		} else {
			in, err = unpack(ctx, filepath.Join(l.Root, ".cache", "peers"), c.peer)
		}
		if err != nil {
			return err
		}
		l.installed[c.peer.name] = in
	}
	return nil
}
