package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/exporter/queue"
)

const (
	largeBytes   = 5 << 30
	largeRecords = largeBytes / record.Bytes
	// largeRoom is what must be free on the disk: the backlog, what the rounds
	// add to it, and what the other experiments write.
	largeRoom = largeBytes + 8<<30
	// smallRecords are the backlog to compare with.
	smallRecords = (1 << 20) / record.Bytes
)

// checkRoom says whether the disk can take the large backlog.
func (l *lab) checkRoom() error {
	var s unix.Statfs_t
	if err := unix.Statfs(l.Disk, &s); err != nil {
		return fmt.Errorf("statfs %s: %w", l.Disk, err)
	}
	if free := int64(s.Bavail) * s.Bsize; free < largeRoom {
		return fmt.Errorf("%s has %d GB free and the large backlog needs %d: use -large=false to leave it out, or -dir",
			l.Disk, free>>30, int64(largeRoom)>>30)
	}
	return nil
}

// largeDir returns a directory with the large backlog in its "queue". The first
// call makes it; Close removes it.
func (l *lab) largeDir(ctx context.Context) (string, error) {
	dir := filepath.Join(l.Disk, "large")
	if l.large {
		return dir, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	_, err := l.run(ctx, fillCommand, "-queue", filepath.Join(dir, "queue"), "-records", fmt.Sprint(largeRecords))
	l.large = err == nil
	return dir, err
}

const fillCommand = "fill"

// fillMain appends records to a queue, which keeper holds back. With -crash the
// process then kills itself, while more is on its way to the disk.
func fillMain(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(fillCommand, flag.ContinueOnError)
	dir := flags.String("queue", "", "")
	records := flags.Int("records", 0, "")
	crash := flags.Bool("crash", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !*crash {
		return fillQueue(ctx, *dir, *records)
	}
	t, err := openTrack(*dir, 0)
	if err != nil {
		return err
	}
	if _, err := t.feed(ctx, *records); err != nil {
		return errors.Join(err, t.close(ctx))
	}
	go func() { _, _ = t.feed(ctx, largeRecords) }() // does not live to tell
	before := t.commits.Load()
	if err := host.Poll(ctx, time.Millisecond, func() (bool, error) { return t.commits.Load() > before, nil }); err != nil {
		return err
	}
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

// crashRecords are appended before a crash.
const crashRecords = 4 * lapRecords / 10

// crash leaves the queue as a process that was killed under load does.
func (l *lab) crash(ctx context.Context, dir string) error {
	_, err := l.run(ctx, fillCommand, "-queue", dir, "-records", fmt.Sprint(crashRecords), "-crash")
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Exited() {
		return nil
	}
	return errors.Join(errors.New("a process that was to kill itself has not"), err)
}

// opening measures the start on a large backlog: of the queue in this process, and
// of docket.
func (l *lab) opening(ctx context.Context) (map[string]float64, error) {
	dir, err := l.largeDir(ctx)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	queueDir := filepath.Join(dir, "queue")
	for _, c := range []struct {
		key           string
		crashed, cold bool
	}{
		{"crashedCold", true, true}, {"closedCold", false, true}, {"closedWarm", false, false}, {"crashedWarm", true, false},
	} {
		if c.crashed {
			if err := l.crash(ctx, queueDir); err != nil {
				return nil, err
			}
		}
		if c.cold {
			if err := dropCache(queueDir); err != nil {
				return nil, err
			}
		}
		opened, first, err := openOnce(ctx, queueDir)
		if err != nil {
			return nil, err
		}
		values[c.key] = opened
		if c.key == "crashedCold" {
			values["first"] = first
		}
	}
	if err := l.crash(ctx, queueDir); err != nil {
		return nil, err
	}
	values["ready"], values["memory"], err = l.startOnce(ctx, dir)
	return values, err
}

// openOnce returns how many milliseconds it takes to open the queue, and until a
// first record is durable in it.
func openOnce(ctx context.Context, dir string) (opened, first float64, err error) {
	began := time.Now()
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		return 0, 0, err
	}
	opened = milliseconds(time.Since(began))
	defer func() { err = errors.Join(err, q.Close(ctx)) }()
	durable := make(chan struct{})
	c := queue.Chunk{Source: "bench", Received: time.Now(), Records: record.NewBlock(0).Next(0, 1), Count: 1}
	began = time.Now()
	if err := q.Append(ctx, &c, func() { close(durable) }); err != nil {
		return 0, 0, err
	}
	select {
	case <-durable:
		return opened, opened + milliseconds(time.Since(began)), nil
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
}

// startOnce returns how many milliseconds docket takes from its start until it
// says that it is ready, and its memory then.
func (l *lab) startOnce(ctx context.Context, dir string) (ready, memory float64, err error) {
	began := time.Now()
	s, err := l.startSidecar(ctx, dir, heldBack)
	if err != nil {
		return 0, 0, err
	}
	defer s.kill()
	ready = milliseconds(time.Since(began))
	memory, err = s.Memory("VmHWM")
	return ready, memory, err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// flatness appends to, and reads from the end of, a queue with a small backlog and
// one with a large, lap by lap in turn. Both keep all of it.
func (l *lab) flatness(ctx context.Context) (map[string]float64, error) {
	scratch, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	smallDir := filepath.Join(scratch, "queue")
	if err := fillQueue(ctx, smallDir, smallRecords); err != nil {
		return nil, err
	}
	largeDir, err := l.largeDir(ctx)
	if err != nil {
		return nil, err
	}
	small, err := openTrack(smallDir, 1)
	if err != nil {
		return nil, err
	}
	large, err := openTrack(filepath.Join(largeDir, "queue"), 1)
	if err != nil {
		return nil, errors.Join(err, small.close(ctx))
	}
	values, err := compareBacklogs(ctx, small, large)
	return values, errors.Join(err, small.close(ctx), large.close(ctx))
}

// flatLaps keep the large backlog from growing much from round to round.
const flatLaps = 5

func compareBacklogs(ctx context.Context, small, large *track) (map[string]float64, error) {
	var appended, read [2]pace
	for lap := range 1 + flatLaps {
		for i, t := range []*track{small, large} {
			a, r, err := t.appendAndRead(ctx)
			if err != nil {
				return nil, err
			}
			if lap > 0 { // the first warms up
				appended[i].add(a)
				read[i].add(r)
			}
		}
	}
	return map[string]float64{
		"small": appended[0].rate(), "large": appended[1].rate(),
		"smallRead": read[0].rate(), "largeRead": read[1].rate(),
	}, nil
}

func (t *track) appendAndRead(ctx context.Context) (appended, read pace, err error) {
	if err := settle(ctx, t.dir); err != nil {
		return appended, read, err
	}
	if appended, err = t.feed(ctx, lapRecords); err != nil {
		return appended, read, err
	}
	began := time.Now()
	err = takeAll(ctx, t.cursors[0], t.q.LastSeq())
	return appended, pace{records: lapRecords, took: time.Since(began)}, err
}
