package main

import (
	"context"
	"errors"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
)

const (
	// loadLimit is how long producers send at the most: who is slow gets fewer
	// records, so that a run ends.
	loadLimit = 4 * time.Second
	// warmShare is the part of a load that each contender gets before the clock
	// runs, and warmLimit how long.
	warmShare = 8
	warmLimit = time.Second
	// killRecords are sent at killRate before SIGKILL.
	killRecords = 4000
	killRate    = 2000
	// killPause is how long after the last record was taken the signal comes.
	killPause = 100 * time.Millisecond
	// idlePause is how long a program has been up when its memory at rest is read.
	idlePause = time.Second
	// quietWait is how long to wait for something to arrive before it is lost:
	// three times as long as any peer waits for its next attempt.
	quietWait = 3 * time.Second
	// rateShare is how many of a hundred records a rate is taken over. The last few
	// may lie in a batch that waits for more: that is the configured patience of a
	// program, a second in docket, and a column of its own.
	rateShare = 99
	// countPause is the time between two questions to the destination, which knows
	// by itself when the last record came.
	countPause = 20 * time.Millisecond
	// sizePause is the time between two looks at the size of a file, which is all
	// that tells when it was written.
	sizePause = time.Millisecond
)

// figures are what one measurement of one contender has given, by the key of the
// column.
type figures map[string]float64

// intake measures how fast records are taken while the sink is down, and whether all
// of them are there when it comes up.
func (l *lab) intake(ctx context.Context, c contender) (figures, error) {
	s, err := l.newStand(c, false, 2*l.records)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if err := s.warm(ctx); err != nil {
		return nil, err
	}
	var p produced
	cpu, err := s.cpuOf(func() (err error) {
		p, err = s.load(ctx, l.records, 0, loadLimit)
		return err
	})
	if err != nil {
		return nil, err
	}
	peak, err := s.running.Memory("VmHWM")
	if err != nil {
		return nil, err
	}
	if err := s.openSink(ctx); err != nil {
		return nil, err
	}
	got, err := s.arrived(ctx)
	return figures{"rate": p.rate(), "cpu": ofMillion(cpu, p.Records), "peak": peak, "lost": float64(s.sent - got.Records)}, err
}

// throughHTTP measures the way from the producers to an HTTP server.
func (l *lab) throughHTTP(ctx context.Context, c contender) (figures, error) {
	return l.through(ctx, c, false)
}

// throughFile measures the way from the producers to a file.
func (l *lab) throughFile(ctx context.Context, c contender) (figures, error) {
	return l.through(ctx, c, true)
}

func (l *lab) through(ctx context.Context, c contender, toFile bool) (figures, error) {
	s, err := l.newStand(c, toFile, 0)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if !toFile {
		if err := s.openSink(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if err := host.Sleep(ctx, idlePause); err != nil {
		return nil, err
	}
	idle, err := s.running.Memory("VmRSS")
	if err != nil {
		return nil, err
	}
	f, err := s.endToEnd(ctx)
	if err != nil {
		return nil, err
	}
	f["idle"] = idle
	if f["peak"], err = s.running.Memory("VmHWM"); err != nil || !toFile {
		return f, err
	}
	s.kill()
	found, err := countFiles(s.at.Export)
	if err != nil {
		return nil, err
	}
	f["lost"] = float64(s.sent - found.Records)
	return f, found.whole()
}

// endToEnd measures from the first write of a producer to the arrivals.
func (s *stand) endToEnd(ctx context.Context) (figures, error) {
	if err := s.warm(ctx); err != nil {
		return nil, err
	}
	before, err := s.arrived(ctx)
	if err != nil {
		return nil, err
	}
	var p produced
	var after count
	cpu, err := s.cpuOf(func() (err error) {
		if p, err = s.load(ctx, s.lab.records, 0, loadLimit); err == nil {
			after, err = s.arrived(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	rate, all, err := s.pace(ctx, p.Began, before.Records, after.Records)
	if err != nil {
		return nil, err
	}
	return figures{
		"rate": rate, "all": all, "cpu": ofMillion(cpu, after.Records-before.Records), "lost": float64(s.sent - after.Records),
	}, nil
}

// pace is how many records a second have arrived since began, when there were before
// of them, until 99 of 100 had; and how long it took until there were after of them,
// in milliseconds.
func (s *stand) pace(ctx context.Context, began int64, before, after int) (rate, all float64, err error) {
	times := s.written
	if s.sink != nil {
		if err := s.sink.ask(ctx, timesPath, &times); err != nil {
			return 0, 0, err
		}
	}
	most := (after - before) * rateShare / 100
	mostAt, err := times.at(before + most)
	if err != nil {
		return 0, 0, err
	}
	allAt, err := times.at(after)
	if err != nil {
		return 0, 0, err
	}
	if most == 0 || mostAt <= began {
		return 0, 0, errors.New("nothing has arrived after the first write")
	}
	return float64(most) / time.Duration(mostAt-began).Seconds(), float64(allAt-began) / 1e6, nil
}

// warm gives the contender a part of the load before anything is measured.
func (s *stand) warm(ctx context.Context) error {
	_, err := s.load(ctx, s.lab.records/warmShare, 0, warmLimit)
	return err
}

// killed measures what SIGKILL loses while the sink is down.
func (l *lab) killed(ctx context.Context, c contender) (figures, error) {
	s, err := l.newStand(c, false, 0)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if _, err := s.load(ctx, killRecords, killRate, loadLimit); err != nil {
		return nil, err
	}
	if err := host.Sleep(ctx, killPause); err != nil {
		return nil, err
	}
	s.kill()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if err := s.openSink(ctx); err != nil {
		return nil, err
	}
	got, err := s.arrived(ctx)
	return figures{"sent": float64(s.sent), "lost": float64(s.sent - got.Records), "again": float64(got.Again)}, err
}

// arrived waits until everything that was sent has arrived, or nothing more does.
func (s *stand) arrived(ctx context.Context) (count, error) {
	var now count
	last, pause := time.Now(), countPause
	if s.sink == nil {
		pause = sizePause
	}
	err := host.Poll(ctx, pause, func() (bool, error) {
		c, err := s.look(ctx)
		if err != nil {
			return false, err
		}
		if c.Records > now.Records {
			last = time.Now()
			if s.sink == nil {
				s.written = append(s.written, arrival{c.Records, last.UnixNano()})
			}
		}
		now = c
		return now.Records >= s.sent || time.Since(last) > s.lab.quiet, nil
	})
	if err != nil {
		return now, err
	}
	return now, now.whole()
}

// look is what has arrived by now; of files it looks at the size alone.
func (s *stand) look(ctx context.Context) (count, error) {
	if s.sink != nil {
		var c count
		err := s.sink.ask(ctx, countPath, &c)
		return c, err
	}
	size, err := exportSize(s.at.Export)
	return count{Records: int(size / record.Bytes)}, err
}

// cpuOf is the processor time of the contender while work is done.
func (s *stand) cpuOf(work func() error) (time.Duration, error) {
	before, err := s.running.CPUTime()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := s.running.CPUTime()
	return after - before, err
}

func ofMillion(cpu time.Duration, records int) float64 { return cpu.Seconds() / float64(records) * 1e6 }
