package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/record"
)

const standInCommand = "standin"

// How a stand-in behaves.
const (
	keeping    = "keeping"    // writes what it reads to a file, and sends that again after a restart
	forgetting = "forgetting" // has a queue in memory
	dropping   = "dropping"   // drops every other write of a producer
	changing   = "changing"   // changes a letter of each line
)

// standIn is a peer of which it is known what the measurements have to find.
func standIn(t *testing.T, behaviour string) contender {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return contender{
		peer: peer{
			Name: "stand-in", Template: "docket.yaml", // which it does not read
			Command: []string{
				self, standInCommand, behaviour, "{{.Socket}}", "{{.Directory}}", "{{or .Export (printf `http://%s:%s/` .Host .Port)}}",
			},
		},
		setting: setting{Name: behaviour},
	}
}

// queueOfStandIn is all that a stand-in has read.
type queueOfStandIn struct {
	behaviour string
	kept      *os.File

	mu    sync.Mutex
	lines []byte // not sent; guarded by mu
	reads int    // guarded by mu
}

func standInMain(args []string) error {
	if len(args) != 4 {
		return errors.New("want behaviour, socket, directory and target")
	}
	q := &queueOfStandIn{behaviour: args[0]}
	var err error
	if q.kept, err = os.OpenFile(filepath.Join(args[2], "kept"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	if q.lines, err = io.ReadAll(q.kept); err != nil {
		return err
	}
	l, err := net.Listen("unix", args[1])
	if err != nil {
		return err
	}
	go q.sendAll(args[3])
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		go q.read(nc)
	}
}

// read keeps whole lines until the end of the stream. A producer writes whole lines,
// but they may be read in parts.
func (q *queueOfStandIn) read(nc net.Conn) {
	defer nc.Close()
	buf, n := make([]byte, load.LinesPerWrite*record.Bytes), 0
	for {
		got, err := nc.Read(buf[n:])
		n += got
		whole := bytes.LastIndexByte(buf[:n], '\n') + 1
		if q.keep(buf[:whole]) != nil || err != nil {
			return
		}
		n = copy(buf, buf[whole:n])
	}
}

func (q *queueOfStandIn) keep(lines []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch q.reads++; {
	case q.behaviour == dropping && q.reads%2 == 0:
		return nil
	case q.behaviour == changing:
		lines = bytes.ReplaceAll(lines, []byte(`"deny"`), []byte(`"Deny"`))
	case q.behaviour == keeping:
		if _, err := q.kept.Write(lines); err != nil {
			return err
		}
	}
	q.lines = append(q.lines, lines...)
	return nil
}

// sendAll sends what comes to a server or to a file in a directory, for ever.
func (q *queueOfStandIn) sendAll(target string) {
	for {
		q.mu.Lock()
		lines := q.lines
		q.lines = nil
		q.mu.Unlock()
		for len(lines) > 0 && send(target, lines) != nil {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Millisecond)
	}
}

func send(target string, lines []byte) error {
	if filepath.IsAbs(target) {
		f, err := os.OpenFile(filepath.Join(target, "export.ndjson"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Write(lines)
		return err
	}
	resp, err := http.Post(target, "application/x-ndjson", bytes.NewReader(lines))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	return nil
}
