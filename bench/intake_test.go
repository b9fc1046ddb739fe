package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/disk"
)

const (
	// segmentBytes is the size of a segment of the queue.
	segmentBytes = 64 << 20
	// lapRecords fill nearly two of them: a lap goes on to the next segment as often as a load without end.
	lapRecords = 120 << 10
)

// BenchmarkIntake is durable intake through the socket: eight producers in a process of their own, each
// with 1,024 records in flight. The one sink waits for an answer during a lap and delivers between laps.
// The plain program appends as many bytes in commits of docket's size, and syncs each. The sidecar on
// tidwall/wal has docket's source and validation.
func BenchmarkIntake(b *testing.B) {
	commit := 1500.0
	b.Run("program=docket", func(b *testing.B) { commit = intake(b, 1).perPart() })
	b.Run("program=plain", func(b *testing.B) { plainAppend(b, lapRecords, commit) })
	b.Run("program=tidwall", func(b *testing.B) {
		socket := newSocket(b)
		p := serve(b, &walSidecar{Socket: socket, Directory: filepath.Join(scratch(b), "wal")}, socket)
		p.serve(fullLoad(socket, lapRecords))
		var sum stint
		for b.Loop() {
			sum.add(p.serve(fullLoad(socket, lapRecords)))
		}
		sum.report(b)
	})
}

// BenchmarkSinks is the same beside one and beside eight sinks that wait.
func BenchmarkSinks(b *testing.B) {
	b.Run("sinks=1", func(b *testing.B) { intake(b, 1) })
	b.Run("sinks=8", func(b *testing.B) { intake(b, 8) })
}

func intake(b *testing.B, sinks int) (sum stint) {
	g := newGate()
	address := listen(b, "127.0.0.1:0", g)
	var entries []string
	for i := range sinks {
		entries = append(entries, httpSink(fmt.Sprint("sink-", i), address+fmt.Sprint("/", i)))
	}
	d := startDocket(b, scratch(b), entries...)
	lap := func() stint {
		g.Lock()
		// Each sink gets a record, which stays at the gate.
		d.stored += perform(b, &load{Socket: d.socket, Producers: 1, Window: 1, Records: 1}).Records
		until(b, "the sinks to stand at the gate", time.Millisecond, func() bool { return int(g.waiting.Load()) == sinks })
		s := d.load(lapRecords)
		g.Unlock()
		for i := range sinks {
			d.awaitDelivered(fmt.Sprint("sink-", i), d.stored)
		}
		settle(b, d.queue())
		return s
	}
	lap() // with its buffers as large as they get
	for b.Loop() {
		sum.add(lap())
	}
	sum.report(b)
	b.ReportMetric(d.memory("VmHWM"), "MB-peak")
	return sum
}

// plainAppend is the plain program: it appends commits of so many records to a fresh file, and syncs each.
func plainAppend(b *testing.B, records int, perCommit float64) {
	commit := recordsOf(int(perCommit))
	dir := scratch(b)
	var sum stint
	for n := 0; b.Loop(); n++ {
		f := must(os.Create(filepath.Join(dir, fmt.Sprint(n))))(b)
		rest(b, dir)
		began := time.Now()
		for written := 0; written < records*recordBytes; written += len(commit) {
			must(f.Write(commit))(b)
			check(b, disk.Sync(f))
			sum.records += len(commit) / recordBytes
			sum.parts++
		}
		sum.took += time.Since(began)
		check(b, errors.Join(f.Close(), os.Remove(f.Name())))
	}
	sum.report(b)
}

// recordsOf returns so many records in one piece.
func recordsOf(n int) []byte {
	lines := newBlock(0).next(0, perBlock)
	all := make([]byte, 0, n*recordBytes)
	for len(all) < cap(all) {
		all = append(all, lines[:min(len(lines), cap(all)-len(all))]...)
	}
	return all
}
