package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/site"
)

// stand is a contender that is measured, with what it sends to and what it keeps.
type stand struct {
	contender
	lab     *lab
	at      place
	file    string           // its configuration
	remove  func()           // everything that it keeps
	running *process.Process // nil: it does not run
	sink    *destination     // nil: it is down
	next    int              // number of the next record of each producer
	sent    int              // records of all loads so far
	written arrivals         // in files, as far as arrived has looked
}

// newStand makes a place for c. With toFile it writes files there; else it sends
// to a destination that is down until openSink. In memory, its queue holds so many
// records; 0: its default.
func (l *lab) newStand(c contender, toFile bool, memoryRecords int) (*stand, error) {
	dir, remove, err := site.Scratch(l.Disk)
	if err != nil {
		return nil, err
	}
	s := &stand{contender: c, lab: l, remove: remove, file: filepath.Join(dir, c.template)}
	s.at = place{
		Setting: c.setting.name, Directory: filepath.Join(dir, "data"), MemoryRecords: memoryRecords,
		Socket: filepath.Join(l.Short, "peer.sock"),
	}
	if err := os.Mkdir(s.at.Directory, 0o700); err != nil {
		return nil, err
	}
	if toFile {
		s.at.Export = filepath.Join(dir, "export")
		if err := os.Mkdir(s.at.Export, 0o700); err != nil {
			return nil, err
		}
	}
	if s.at.Admin, err = process.FreeAddress(); err != nil {
		return nil, err
	}
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	if s.at.Host, s.at.Port, err = net.SplitHostPort(address); err != nil {
		return nil, err
	}
	text, err := c.config(s.at)
	if err != nil {
		return nil, err
	}
	return s, os.WriteFile(s.file, text, 0o600)
}

// readyWait is how long a program may take to start on a busy machine.
const readyWait = time.Minute

// start starts the contender and returns when its socket takes connections.
func (s *stand) start(ctx context.Context) error {
	if err := os.Remove(s.at.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	c := s.command(s.lab.installed[s.peer.name], s.file, s.at)
	p, err := process.Start(ctx, c.env, c.name, c.args...)
	if err != nil {
		return err
	}
	s.running = p
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	err = host.Poll(ctx, time.Millisecond, func() (bool, error) {
		nc, err := net.Dial("unix", s.at.Socket)
		if err == nil {
			nc.Close()
		}
		return err == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("waiting for its socket: %w", err), p.LastWords())
	}
	return nil
}

// kill ends the contender as SIGKILL does.
func (s *stand) kill() {
	if s.running != nil {
		s.running.Kill()
	}
}

// openSink brings up the destination.
func (s *stand) openSink(ctx context.Context) error {
	server, err := process.StartServer(ctx, s.lab.Self, receiveCommand, net.JoinHostPort(s.at.Host, s.at.Port))
	if err != nil {
		return err
	}
	s.sink = &destination{server}
	return nil
}

// load makes the producers send so many records, rate a second or as fast as they are
// taken, and returns when all that were sent until the limit were taken.
func (s *stand) load(ctx context.Context, records, rate int, limit time.Duration) (produced, error) {
	var p produced
	o := load{Socket: s.at.Socket, First: s.next, Records: records, Limit: limit, Rate: rate, Acknowledged: s.acknowledged}
	if err := process.Call(ctx, s.lab.Self, produceCommand, o, &p); err != nil {
		return p, err
	}
	s.next += o.each()
	s.sent += p.Records
	return p, nil
}

// close ends everything and removes what was kept.
func (s *stand) close() {
	s.kill()
	if s.sink != nil {
		s.sink.Kill()
	}
	s.remove()
}
