package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
)

const (
	// loadLimit is how long producers send at the most: a slow program gets fewer
	// records, so that a run ends.
	loadLimit = 4 * time.Second
	// warmShare is the part of a load that each contender gets before the clock
	// runs, and warmLimit how long.
	warmShare = 8
	warmLimit = time.Second
	// killLimit is when SIGKILL comes, while producers send killRate records a second: a
	// rate at which every peer reads what they write. It is between two writes.
	killLimit = 3980 * time.Millisecond
	killRate  = 200
	// settlePause is between the last record of a backlog and SIGKILL.
	settlePause = time.Second
	// idlePause is how long a program has been up when its memory at rest is read.
	idlePause = time.Second
	// quietWait is how long to wait for something to arrive before it is lost:
	// three times as long as any peer waits for its next attempt.
	quietWait = 3 * time.Second
	// rateShare is how many of a hundred records a rate is taken over. The last few
	// may lie in a batch that waits for more: that is a setting of the program, a
	// second in docket, and a column of its own.
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

// runs measure one contender, by the name of the measure.
var runs = map[string]func(*lab, contender) figures{
	"intake": (*lab).intake,
	"http":   func(l *lab, c contender) figures { return l.through(c, false) },
	"file":   func(l *lab, c contender) figures { return l.through(c, true) },
	"kill":   (*lab).killed,
	"start":  (*lab).started,
}

// intake measures how fast records are taken while the sink is down, and whether all
// of them are there when it comes up.
func (l *lab) intake(c contender) figures {
	s := l.newStand(c, false, 2*l.records)
	s.start()
	s.load(l.records/warmShare, warmLimit)
	var d load.Done
	cpu := s.running.CPUOf(func() { d = s.load(l.records, loadLimit) })
	peak := s.running.Memory("VmHWM")
	s.openSink()
	return figures{"rate": float64(d.Records) / d.Took().Seconds(), "cpu": ofMillion(cpu, d.Records), "peak": peak, "lost": float64(s.sent - s.arrived().Records)}
}

// through measures the way from the producers to an HTTP server, or to a file.
func (l *lab) through(c contender, toFile bool) figures {
	s := l.newStand(c, toFile, 0)
	if !toFile {
		s.openSink()
	}
	s.start()
	l.Sleep(idlePause)
	idle := s.running.Memory("VmRSS")
	f := s.endToEnd()
	f["idle"], f["peak"] = idle, s.running.Memory("VmHWM")
	if toFile {
		s.running.Kill()
		found := countFiles(s.at.Export)
		f["lost"] = float64(s.sent - found.Records)
		found.check()
	}
	return f
}

// endToEnd measures from the first write of a producer to the arrivals. Its rate is that
// of 99 of 100 records.
func (s *stand) endToEnd() figures {
	s.load(s.lab.records/warmShare, warmLimit)
	before := s.arrived().Records
	var began time.Time
	after := 0
	cpu := s.running.CPUOf(func() {
		began = s.load(s.lab.records, loadLimit).Began
		after = s.arrived().Records
	})
	times := s.written
	if s.sink != nil {
		_, times = s.sink.read()
	}
	most := (after - before) * rateShare / 100
	mostTook, allTook := times.at(before+most).Sub(began), times.at(after).Sub(began)
	if most == 0 || mostTook <= 0 {
		trial.Check(errors.New("nothing has arrived after the first write"))
	}
	return figures{
		"rate": float64(most) / mostTook.Seconds(), "all": float64(allTook) / 1e6,
		"cpu": ofMillion(cpu, after-before), "lost": float64(s.sent - after),
	}
}

func ofMillion(cpu time.Duration, records int) float64 { return cpu.Seconds() / float64(records) * 1e6 }

// killed measures what SIGKILL in the middle of a load loses while the sink is down: of
// what was acknowledged or, where there are no acks, written.
func (l *lab) killed(c contender) figures {
	s := l.newStand(c, false, 0)
	s.start()
	d := s.send(load.Load{Records: load.Producers << 20, Rate: killRate, Limit: killLimit, Kill: s.running.ID()})
	s.running.Kill() // it waits for the end
	s.start()
	s.openSink()
	got := s.await(func(count) bool { return s.sink.missing(d.Each) == 0 })
	return figures{"sent": float64(d.Records), "lost": float64(s.sink.missing(d.Each)), "again": float64(got.Again)}
}

// started measures the start over a backlog, after SIGKILL: until the socket takes
// connections, and until the first record is at the sink.
func (l *lab) started(c contender) figures {
	s := l.newStand(c, false, 0)
	s.start()
	s.load(l.records, loadLimit)
	l.Sleep(settlePause)
	s.running.Kill()
	s.openSink()
	began := time.Now()
	s.start()
	listening := time.Since(began)
	got := s.arrived()
	_, times := s.sink.read()
	return figures{
		"backlog": float64(got.Records), "listening": listening.Seconds() * 1000, "first": times.at(1).Sub(began).Seconds() * 1000,
		"peak": s.running.Memory("VmHWM"),
	}
}

// stand is a contender that is measured, with what it sends to and what it keeps.
type stand struct {
	contender
	lab     *lab
	at      place
	running *process.Process
	sink    *census  // of the destination; nil: that is down, or a file
	next    int      // number of the next record of each producer
	sent    int      // records of all loads so far
	written arrivals // in files, as far as arrived has looked
}

// newStand makes a place for c. With toFile it writes files there; else it sends
// to a destination that is down until openSink. In memory, its queue holds so many
// records; 0: its default.
func (l *lab) newStand(c contender, toFile bool, memoryRecords int) *stand {
	dir := l.Scratch(l.T)
	s := &stand{contender: c, lab: l}
	s.at = place{
		Setting: c.setting.Name, Directory: filepath.Join(dir, "data"), File: filepath.Join(dir, c.Template),
		MemoryRecords: memoryRecords, Socket: filepath.Join(l.Short, "peer.sock"), Admin: process.FreeAddress(),
	}
	trial.Check(os.Mkdir(s.at.Directory, 0o700))
	if toFile {
		s.at.Export = filepath.Join(dir, "export")
		trial.Check(os.Mkdir(s.at.Export, 0o700))
	}
	var err error
	s.at.Host, s.at.Port, err = net.SplitHostPort(process.FreeAddress())
	trial.Check(err)
	trial.Check(os.WriteFile(s.at.File, []byte(trial.Must(c.config(s.at))), 0o600))
	return s
}

// start starts the contender and returns when its socket takes connections.
func (s *stand) start() {
	if err := os.Remove(s.at.Socket); !errors.Is(err, os.ErrNotExist) {
		trial.Check(err)
	}
	in := s.lab.installed[s.peer.Name]
	words := trial.Must(s.commandLine(in, s.at))
	s.running = process.Start(s.lab.T, in.libraries(), words[0], words[1:]...)
	process.AwaitSocket(s.lab.T, s.at.Socket, time.Millisecond)
}

// openSink brings up the destination.
func (s *stand) openSink() { s.sink = receive(s.lab.T, net.JoinHostPort(s.at.Host, s.at.Port)) }

// load makes the producers send so many records as fast as they are taken, and returns
// when all that were sent until the limit were taken.
func (s *stand) load(records int, limit time.Duration) load.Done {
	return s.send(load.Load{Records: records, Limit: limit})
}

// send has the producers make a load in the protocol of the contender.
func (s *stand) send(o load.Load) load.Done {
	o.Socket, o.Producers, o.First, o.OTLP = s.at.Socket, load.Producers, s.next, s.Protocol == protocolOTLP
	if s.Protocol == protocolDocket {
		o.Window = load.Window
	}
	d := process.Call[load.Done](s.lab.T, s.lab.Self, produceCommand, o)
	s.next += o.Each()
	s.sent += d.Records
	return d
}

// arrived waits until everything that was sent has arrived, or nothing more does. Of files
// it looks at the size alone.
func (s *stand) arrived() count {
	return s.await(func(now count) bool { return now.Records >= s.sent })
}

// await waits until what has arrived is enough, or nothing more does.
func (s *stand) await(enough func(count) bool) (now count) {
	pause := countPause
	if s.sink == nil {
		pause = sizePause
	}
	last := time.Now()
	s.lab.Poll("for the records to arrive", pause, onceWait, func() bool {
		before := now.Records
		if s.sink != nil {
			now, _ = s.sink.read()
		} else {
			now.Records = int(trial.Must(site.Size(s.at.Export)) / record.Bytes)
		}
		if now.Records > before {
			last = time.Now()
			s.written = append(s.written, arrival{now.Records, last})
		}
		return enough(now) || time.Since(last) > s.lab.quiet
	})
	now.check()
	return now
}
