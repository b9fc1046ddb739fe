package bench

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/internal/disk"
)

// BenchmarkSingle is the time to an ack with one record in flight. The plain program writes each record over
// blocks that were written before, syncs them, and acknowledges. An iteration is 200 records.
func BenchmarkSingle(b *testing.B) {
	send := func(b *testing.B, socket string) {
		var waits []time.Duration
		for b.Loop() {
			waits = append(waits, perform(b, &load{Socket: socket, Producers: 1, Window: 1, Records: 200}).Waits...)
		}
		reportWaits(b, waits)
	}
	b.Run("program=docket", func(b *testing.B) {
		d := startDocket(b, scratch(b))
		d.load(lapRecords) // with its buffers as large as they get
		settle(b, d.queue())
		send(b, d.socket)
	})
	b.Run("program=plain", func(b *testing.B) {
		socket, dir := newSocket(b), scratch(b)
		serve(b, &plainSidecar{Socket: socket, File: filepath.Join(dir, "records")}, socket)
		rest(b, dir)
		send(b, socket)
	})
}

// plainSidecar is a server that does the least for an ack.
type plainSidecar struct{ Socket, File string }

func (o *plainSidecar) run() (d done, err error) {
	f, err := os.Create(o.File)
	if err != nil {
		return d, err
	}
	if _, err = f.Write(make([]byte, segmentBytes)); err != nil {
		return d, err
	}
	l, err := net.Listen("unix", o.Socket)
	for at := 0; err == nil; {
		var nc net.Conn
		if nc, err = l.Accept(); err == nil {
			at = o.acknowledge(nc, f, at) // until the producer goes
			nc.Close()
		}
	}
	return d, err
}

// acknowledge serves one producer, and returns where the next record goes.
func (o *plainSidecar) acknowledge(nc net.Conn, f *os.File, at int) int {
	lines := bufio.NewReader(nc)
	if _, err := lines.ReadSlice('\n'); err != nil { // its hello
		return at
	}
	answer := stream.Answer{}.Append(nil)
	for n := uint64(1); ; n++ {
		if _, err := nc.Write(answer); err != nil {
			return at
		}
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return at
		}
		if _, err := f.WriteAt(line, int64(at%segmentBytes)); err != nil {
			return at
		}
		if err := disk.Sync(f); err != nil {
			return at
		}
		at += len(line)
		answer = stream.Ack{Through: n}.Append(answer[:0])
	}
}
