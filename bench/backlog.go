package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/exporter/queue"
)

// backlogAge is more than the batch.maxWait of any sink. A batch that is not full
// waits until its first record is as old, and the last batch of a backlog is not.
const backlogAge = 1100 * time.Millisecond

// backlogOf makes a directory for a sidecar with a backlog that has an age, of at
// most so many records. Each sink that is new to it gets all of them.
func (l *lab) backlogOf(atMost int) (dir string, records int) {
	dir, records = l.scratch(), atMost/load.Producers*load.Producers
	l.fill(backlogFill{Directory: filepath.Join(dir, "queue"), Records: records})
	l.Sleep(backlogAge)
	return dir, records
}

// backlogFill is a process that appends records to a queue in which a sink keeps them,
// heldBack. With Crash it then kills itself, while more is on its way to the disk.
type backlogFill struct {
	Directory string
	Records   int
	Crash     bool
}

func (o backlogFill) run(ctx context.Context) (struct{}, error) {
	return struct{}{}, trial.Run(ctx, func(t *trial.T) {
		track := openTrack(t, o.Directory, false)
		trial.Must(track.q.Cursor(heldBack, false)).Close()
		track.feed(o.Records)
		if !o.Crash {
			return
		}
		go func() { _, _ = feedAll(ctx, track.q, track.feeders, largeRecords) }() // does not live to tell
		before := track.commits.Load()
		t.Poll("for a commit", time.Millisecond, readyWait, func() bool { return track.commits.Load() > before })
		trial.Check(unix.Kill(os.Getpid(), unix.SIGKILL))
	})
}

func (l *lab) fill(o backlogFill) { process.Call[struct{}](l.T, l.Self, fillCommand, o) }

// crashRecords are appended before a crash.
const crashRecords = 4 * lapRecords / 10

// crash leaves the queue as a process that was killed under load does.
func (l *lab) crash(dir string) {
	err := trial.Run(l.Context(), func(t *trial.T) {
		process.Call[struct{}](t, l.Self, fillCommand, backlogFill{dir, crashRecords, true})
	})
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() {
		trial.Check(errors.Join(errors.New("a process that was to kill itself has not"), err))
	}
}

// closeCleanly opens the queue in dir, and closes it.
func (l *lab) closeCleanly(dir string) {
	q := trial.Must(queue.Open(queue.Options{Directory: dir}))
	trial.Check(q.Close(l.Context()))
}

// opening measures the start on a large backlog: of the queue in this process, and
// of docket.
func (l *lab) opening() values {
	dir := l.largeDir()
	queueDir := filepath.Join(dir, "queue")
	v := values{}
	for _, c := range []struct {
		key           string
		crashed, cold bool
	}{
		{"crashedCold", true, true}, {"closedCold", false, true}, {"closedWarm", false, false}, {"crashedWarm", true, false},
	} {
		if c.crashed {
			l.crash(queueDir)
		}
		if c.cold {
			dropCache(queueDir)
		}
		began := time.Now()
		q := trial.Must(queue.Open(queue.Options{Directory: queueDir}))
		v[c.key] = milliseconds(time.Since(began))
		trial.Check(q.Close(l.Context()))
	}
	l.crash(queueDir)
	began := time.Now()
	s := l.start(dir, heldEntry())
	v["ready"], v["memory"] = milliseconds(time.Since(began)), s.Memory("VmHWM")
	return v
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// dropCache makes the system forget what it has in memory of the files in dir.
func dropCache(dir string) {
	site.Rest(dir) // only clean pages can go
	for _, entry := range trial.Must(os.ReadDir(dir)) {
		if !entry.Type().IsRegular() {
			continue // a socket
		}
		f := trial.Must(os.Open(filepath.Join(dir, entry.Name())))
		trial.Check(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		trial.Check(f.Close())
	}
}

const (
	// startRecords come to 500 MB.
	startRecords = 500_000_000 / record.Bytes
	startTurns   = 5
	// listenPause is short: what is waited for takes some milliseconds.
	listenPause = 100 * time.Microsecond
)

// starting measures how soon docket is at work over a backlog of 500 MB that was
// closed, or whose process was killed in the middle of a load.
func (l *lab) starting() values {
	dir, _ := l.backlogOf(startRecords)
	queueDir := filepath.Join(dir, "queue")
	took, memory := map[string][]time.Duration{}, values{}
	for turn := range startTurns {
		for key, prepare := range map[string]func(string){"closed": l.closeCleanly, "killed": l.crash} {
			prepare(queueDir)
			l.part(func(l *lab) {
				listening, first, peak := l.begin(dir, fmt.Sprint(key, "-", turn))
				took[key], took[key+"First"] = append(took[key], listening), append(took[key+"First"], first)
				memory[key+"Memory"] = max(memory[key+"Memory"], peak)
			})
		}
	}
	v := medians(took)
	for key, peak := range memory {
		v[key] = peak
	}
	return v
}

// begin starts docket over the queue in dir, with a sink that the queue does not know
// yet. It returns how long it takes until its socket takes a connection and until a
// destination, which does not answer, has the first batch; and its memory then.
func (l *lab) begin(dir, sink string) (listening, first time.Duration, memory float64) {
	g := newGate(l.T)
	g.shut()
	began := time.Now()
	s := l.launch(dir, setup{sinks: []string{httpEntry(sink, g.address, 1)}})
	process.AwaitSocket(l.T, s.socket, listenPause)
	listening = time.Since(began)
	select {
	case at := <-g.came:
		first = at.Sub(began)
	case <-time.After(readyWait):
		trial.Check(errors.New("the first batch does not come"))
	}
	return listening, first, s.Memory("VmHWM")
}

// fileSink is the name of a sink that delivers to files on the disk that the queue is on.
const fileSink = "file"

// backlog stores records with a docket that cannot deliver them, and starts it again
// with a sink that delivers them to files. It looks at the files, which costs docket
// nothing, and asks docket only about the end.
func (l *lab) backlog() values {
	dir := l.scratch()
	held := l.start(dir, heldEntry())
	records := l.produce(load.Full(held.socket, burstRecords)).Records
	held.Stop()
	export := filepath.Join(dir, "export")
	var first, size int64
	began := time.Now()
	s := l.start(dir, fileEntry(fileSink, export))
	wait := func(bytes int64) {
		l.Poll("for the backlog in files", time.Millisecond, readyWait, func() bool {
			size = trial.Must(site.Size(export))
			return size >= bytes
		})
	}
	wait(1)
	first, delivering := size, time.Now()
	wait(int64(records) * record.Bytes)
	s.waitDelivered(fileSink, records)
	rate := (float64(records) - float64(first)/record.Bytes) / time.Since(delivering).Seconds()
	restart := time.Since(began).Seconds()
	perBatch := float64(records) / s.metric(fmt.Sprintf("docket_send_duration_seconds_count{sink=%q}", fileSink))
	s.Kill()
	appended, _ := l.raw(perBatch, records)
	return values{"rate": rate, "restart": restart, "perBatch": perBatch, "appended": appended}
}
