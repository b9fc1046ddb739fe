package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkStart is a start over a queue whose docket was killed in the middle of a load: until the socket takes
// a connection, and until a receiver that does not answer has the first batch.
func BenchmarkStart(b *testing.B) {
	sizes(b, "500MB", 500_000, func(b *testing.B, records int) {
		dir := scratch(b)
		startDocket(b, dir).fill(records)
		time.Sleep(1100 * time.Millisecond) // a batch that is not full waits as long for more
		var listening, first time.Duration
		peak := 0.0
		for n := 0; b.Loop(); n++ {
			startDocket(b, dir).fill(lapRecords / 4)
			rest(b, dir)
			g := newGate()
			g.Lock()
			address := listen(b, "127.0.0.1:0", g)
			began := time.Now()
			d := launchDocket(b, dir, httpSink(fmt.Sprint("sink-", n), address))
			d.listens(d.socket, 100*time.Microsecond)
			listening += time.Since(began)
			select {
			case at := <-g.first:
				first += at.Sub(began)
			case <-time.After(patience):
				b.Fatal("no time is left to wait for the first batch")
			}
			peak = max(peak, d.memory("VmHWM"))
			d.kill()
			g.Unlock()
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(listening.Seconds()*1e3/float64(b.N), "ms-listening")
		b.ReportMetric(first.Seconds()*1e3/float64(b.N), "ms-first-batch")
		b.ReportMetric(peak, "MB-peak")
	})
}

// fill loads docket, and kills it while more comes.
func (d *docket) fill(records int) {
	d.b.Helper()
	d.load(records)
	perform(d.b, &load{Socket: d.socket, Producers: producers, Window: window, Records: 1 << 30, Limit: 50 * time.Millisecond, Kill: d.cmd.Process.Pid})
	d.kill()
}

// BenchmarkMemory is what docket has resident: at rest, and at the peak while producers write as fast as they
// can and a file, an HTTP and a Kafka sink read a backlog.
func BenchmarkMemory(b *testing.B) {
	b.Run("load=none", func(b *testing.B) {
		dir := scratch(b)
		d := startDocket(b, dir, fileSink("file", filepath.Join(dir, "export")))
		perform(b, &load{Socket: d.socket, Producers: 1, Window: 1, Records: 1})
		for b.Loop() {
			time.Sleep(3 * time.Second) // docket gives memory back once, after two
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(d.memory("VmRSS"), "MB")
		b.ReportMetric(float64(must(os.Stat(*program))(b).Size())/1e6, "MB-binary")
	})
	b.Run("load=three-sinks", func(b *testing.B) {
		dir := backlog(b, 5*backlogRecords)
		none := newCounter(0)
		d := startDocket(b, dir, fileSink("file", filepath.Join(dir, "export")), httpSink("http", serveHTTP(b, none)), kafkaSink("kafka", serveKafka(b, 0, none)))
		var sum stint
		for b.Loop() {
			sum.add(d.load(backlogRecords))
		}
		sum.report(b)
		b.ReportMetric(d.memory("VmHWM"), "MB-peak")
	})
}
