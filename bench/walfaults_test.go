package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/wal"
	"golang.org/x/sys/unix"
)

// Each test here passes as long as tidwall/wal has the fault that it is named
// after. One that fails with a new version is good news, and a reason to think
// again about the queue.

// childFault is the environment variable with which TestMain runs one of faultChildren.
const childFault = "BENCH_FAULT"

// faultChildren show a fault in a process of their own, which may end badly. Their
// argument is a directory.
var faultChildren = map[string]func(dir string) error{
	"short write":        shortWriteChild,
	"concurrent readers": concurrentReadersChild,
	"tail exit":          tailExitChild,
}

// A crash in the middle of a write leaves part of it. Nothing in the library
// opens such a log again.
func TestWALDoesNotOpenWithATornTail(t *testing.T) {
	for _, cut := range []int{1, 100, walRecordBytes - 1, walRecordBytes, walRecordBytes + 1, walRecordBytes + 3} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			dir := makeWAL(t, nil, 50)
			changeFile(t, firstSegment(dir), func(b []byte) []byte { return b[:len(b)-cut] })
			if log, err := wal.Open(dir, nil); !errors.Is(err, wal.ErrCorrupt) {
				t.Errorf("got %v and error %v, want %v", log, err, wal.ErrCorrupt)
			}
		})
	}
}

// After a power cut the end of a file may be blocks that were never written.
func TestWALTakesZerosForRecords(t *testing.T) {
	const zeros = 4096
	dir := makeWAL(t, nil, 50)
	changeFile(t, firstSegment(dir), func(b []byte) []byte { return append(b, make([]byte, zeros)...) })
	log := openWAL(t, dir, nil)
	defer log.Close()
	if last, err := log.LastIndex(); err != nil || last != 50+zeros {
		t.Errorf("last index: got %d and error %v, want %d", last, err, 50+zeros)
	}
	for _, index := range []uint64{51, 50 + zeros} {
		if data, err := log.Read(index); err != nil || len(data) != 0 {
			t.Errorf("read %d: got %q and error %v, want an empty record", index, data, err)
		}
	}
}

func TestWALReturnsAChangedRecord(t *testing.T) {
	dir := makeWAL(t, nil, 50)
	changeFile(t, firstSegment(dir), func(b []byte) []byte {
		b[bytes.Index(b, []byte("record 7 "))] ^= 1
		return b
	})
	log := openWAL(t, dir, nil)
	defer log.Close()
	want := walRecord(7)
	want[0] ^= 1
	if got, err := log.Read(7); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %.20q and error %v, want %.20q", got, err, want)
	}
}

// Open looks at the last segment only, and a segment is read as a whole.
func TestWALLosesASegmentForOneLength(t *testing.T) {
	opts := &wal.Options{SegmentSize: 10 * walRecordBytes}
	dir := makeWAL(t, opts, 50)
	changeFile(t, firstSegment(dir), func(b []byte) []byte {
		// The last record of the segment claims to be longer.
		b[bytes.LastIndex(b, []byte("record "))-2] ^= 0x7f
		return b
	})
	log := openWAL(t, dir, opts)
	defer log.Close()
	if got, err := log.Read(1); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("read 1: got %.20q and error %v, want %v", got, err, wal.ErrCorrupt)
	}
	if _, err := log.Read(50); err != nil {
		t.Errorf("read 50: %v", err)
	}
}

// afterShortWrite is what the child has seen: the error of the write that the disk
// cut short, and of two after there was room again; and what it then read.
type afterShortWrite struct {
	Failed    string `json:"failed"`
	Again     string `json:"again"`
	Next      string `json:"next"`
	Eleventh  string `json:"eleventh"`
	Twelfth   string `json:"twelfth"`
	CloseFail string `json:"closeFail"`
}

// When the disk is full for a moment, the log goes on acknowledging. What it reads
// back then is shifted, and what it has acknowledged is lost with the next Open.
func TestWALAcknowledgesAfterAShortWrite(t *testing.T) {
	dir := makeWAL(t, nil, 10)
	out, problems, err := runFaultChild(t, "short write", dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, problems)
	}
	var got afterShortWrite
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if got.Failed == "" {
		t.Error("the write that did not fit: got no error")
	}
	got.Failed = ""
	if want := (afterShortWrite{Eleventh: "failed", Twelfth: "again"}); got != want {
		t.Errorf("got %+v, want %+v: two writes acknowledged, and each read returning the one before", got, want)
	}
	if log, err := wal.Open(dir, nil); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("open: got %v and error %v, want %v", log, err, wal.ErrCorrupt)
	}
}

func shortWriteChild(dir string) error {
	log, err := wal.Open(dir, nil)
	if err != nil {
		return err
	}
	info, err := os.Stat(firstSegment(dir))
	if err != nil {
		return err
	}
	// A limit for files acts like a full disk: the write is cut short there.
	signal.Ignore(unix.SIGXFSZ)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	write := func(index uint64, text string) string {
		return errorText(log.Write(index, []byte(text+strings.Repeat(".", walRecordBytes))))
	}
	read := func(index uint64) string {
		data, err := log.Read(index)
		if err != nil {
			return err.Error()
		}
		text, _, _ := strings.Cut(string(data), ".")
		return text
	}
	var seen afterShortWrite
	full := unix.Rlimit{Cur: uint64(info.Size()) + walRecordBytes/2, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &full); err != nil {
		return err
	}
	seen.Failed = write(11, "failed")
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	seen.Again, seen.Next = write(11, "again"), write(12, "next")
	seen.Eleventh, seen.Twelfth = read(11), read(12)
	seen.CloseFail = errorText(log.Close())
	return json.NewEncoder(os.Stdout).Encode(seen)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Sinks read at the same time. Read takes the lock for readers and changes what
// all readers share: with the race detector the first such access ends the child,
// without it an index that is out of range does.
func TestWALConcurrentReadersCollide(t *testing.T) {
	dir := makeWAL(t, smallSegments, 500)
	_, problems, err := runFaultChild(t, "concurrent readers", dir)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || (!strings.Contains(problems, "panic: ") && !strings.Contains(problems, "DATA RACE")) {
		t.Errorf("got error %v, want a panic or a data race\n%s", err, problems)
	}
}

// smallSegments makes readers change segments, which is where they collide, all the
// time.
var smallSegments = &wal.Options{SegmentSize: 4 << 10}

func concurrentReadersChild(dir string) error {
	log, err := wal.Open(dir, smallSegments)
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	until := time.Now().Add(30 * time.Second) // it takes a fraction of a second
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for time.Now().Before(until) {
				index := 1 + rand.Uint64N(last)
				if got, err := log.Read(index); err != nil || !bytes.Equal(got, walRecord(index)) {
					panic(fmt.Sprintf("read %d: got %.20q and error %v", index, got, err))
				}
			}
		})
	}
	readers.Wait()
	return log.Close()
}

// A reader holds the lock while it waits for the disk, here for a file that does
// not come: nobody can write, nor read what is in memory.
func TestWALWriterWaitsForAReader(t *testing.T) {
	dir := makeWAL(t, smallSegments, 50)
	name := firstSegment(dir)
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(name), unix.Mkfifo(name, 0o600)); err != nil {
		t.Fatal(err)
	}
	log := openWAL(t, dir, smallSegments)
	defer log.Close()

	readEnded, writeEnded := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := log.Read(1)
		readEnded <- err
	}()
	disk, err := os.OpenFile(name, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	go func() { writeEnded <- log.Write(51, walRecord(51)) }()
	select {
	case err := <-writeEnded:
		t.Errorf("the write has ended (%v) before the read", err)
		writeEnded <- err
	case <-time.After(200 * time.Millisecond): // a write alone takes some hundred microseconds
	}
	if _, err := disk.Write(content); err != nil {
		t.Error(err)
	}
	disk.Close()
	if err := errors.Join(<-readEnded, <-writeEnded); err != nil {
		t.Errorf("once the disk has answered: %v", err)
	}
}
