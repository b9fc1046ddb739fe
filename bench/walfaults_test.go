package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/wal"
	"golang.org/x/sys/unix"
)

// Each test here passes as long as tidwall/wal has the fault that it is named after. One that fails with a
// new version is good news, and a reason to think again about the queue.

const walBytes = 900

// walRecord is unlike every other.
func walRecord(index uint64) []byte {
	return append(fmt.Appendf(nil, "record %-20d", index), bytes.Repeat([]byte("."), walBytes)...)
}

// smallSegments makes readers change segments all the time.
var smallSegments = &wal.Options{SegmentSize: 4 << 10}

// newWAL makes a log of 50 records, has its first file changed, and opens it again.
func newWAL(t *testing.T, options *wal.Options, change func(b []byte) []byte) (dir string, log *wal.Log, err error) {
	t.Helper()
	dir = t.TempDir()
	log = must(wal.Open(dir, options))(t)
	for i := uint64(1); i <= 50; i++ {
		check(t, log.Write(i, walRecord(i)))
	}
	check(t, log.Close())
	name := firstSegment(dir)
	check(t, os.WriteFile(name, change(must(os.ReadFile(name))(t)), 0o600))
	log, err = wal.Open(dir, options)
	if err == nil {
		t.Cleanup(func() { _ = log.Close() }) // it may be closed already
	}
	return dir, log, err
}

func firstSegment(dir string) string { return filepath.Join(dir, fmt.Sprintf("%020d", 1)) }

func unchanged(b []byte) []byte { return b }

// A crash in the middle of a write leaves part of it. Nothing in the library opens such a log again.
func TestWALDoesNotOpenWithATornTail(t *testing.T) {
	if _, _, err := newWAL(t, nil, func(b []byte) []byte { return b[:len(b)-100] }); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("got error %v, want %v", err, wal.ErrCorrupt)
	}
}

// After a power cut the end of a file may be blocks that were never written.
func TestWALTakesZerosForRecords(t *testing.T) {
	_, log, err := newWAL(t, nil, func(b []byte) []byte { return append(b, make([]byte, 4096)...) })
	check(t, err)
	last := must(log.LastIndex())(t)
	if data, err := log.Read(last); err != nil || len(data) != 0 || last != 50+4096 {
		t.Errorf("record %d: got %q and error %v, want an empty record %d", last, data, err, 50+4096)
	}
}

// There is no checksum.
func TestWALReturnsAChangedRecord(t *testing.T) {
	_, log, err := newWAL(t, nil, func(b []byte) []byte {
		b[bytes.Index(b, []byte("record 7 "))] ^= 1
		return b
	})
	check(t, err)
	if got, err := log.Read(7); err != nil || !bytes.HasPrefix(got, []byte("secord 7 ")) {
		t.Errorf("got %.20q and error %v, want the changed record", got, err)
	}
}

// When the disk is full for a moment, the log goes on acknowledging. What it has acknowledged is lost with
// the next Open.
func TestWALAcknowledgesAfterAShortWrite(t *testing.T) {
	dir, log, err := newWAL(t, nil, unchanged)
	check(t, errors.Join(err, log.Close()))
	if d := perform(t, &shortWrite{dir}); d.Records != 2 {
		t.Errorf("got %d writes acknowledged after the short one, want 2", d.Records)
	}
	if _, err := wal.Open(dir, nil); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("open: got error %v, want %v", err, wal.ErrCorrupt)
	}
}

// shortWrite counts the writes that a log acknowledges after one that the disk cut short.
type shortWrite struct{ Directory string }

func (o *shortWrite) run() (d done, err error) {
	var limit unix.Rlimit
	log, openErr := wal.Open(o.Directory, nil)
	info, statErr := os.Stat(firstSegment(o.Directory))
	if err := errors.Join(openErr, statErr, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit)); err != nil {
		return d, err
	}
	// A limit for files acts like a full disk: the write is cut short there.
	signal.Ignore(unix.SIGXFSZ)
	full := unix.Rlimit{Cur: uint64(info.Size()) + walBytes/2, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &full); err != nil {
		return d, err
	}
	if log.Write(51, walRecord(51)) == nil {
		return d, errors.New("the write that does not fit is acknowledged")
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return d, err
	}
	for index := uint64(51); index < 53 && log.Write(index, walRecord(index)) == nil; index++ {
		d.Records++
	}
	return d, log.Close()
}

// Read takes the lock for readers and changes what all readers share. With the race detector the first such
// access ends the process, and without it an index that is out of range does.
func TestWALConcurrentReadersCollide(t *testing.T) {
	dir, _, err := newWAL(t, smallSegments, unchanged)
	check(t, err)
	env, command := as(t, &concurrentReaders{dir})
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	said, err := cmd.CombinedOutput()
	if text := string(said); err == nil || !strings.Contains(text, "panic: ") && !strings.Contains(text, "DATA RACE") {
		t.Errorf("got error %v, want a panic or a data race\n%s", err, said)
	}
}

type concurrentReaders struct{ Directory string }

func (o *concurrentReaders) run() (d done, err error) {
	log, err := wal.Open(o.Directory, smallSegments)
	if err != nil {
		return d, err
	}
	until := time.Now().Add(30 * time.Second) // it takes a fraction of a second
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for time.Now().Before(until) {
				index := 1 + rand.Uint64N(50)
				if got, err := log.Read(index); err != nil || !bytes.Equal(got, walRecord(index)) {
					panic(fmt.Sprintf("read %d: got %.20q and error %v", index, got, err))
				}
			}
		})
	}
	readers.Wait()
	return d, log.Close()
}
