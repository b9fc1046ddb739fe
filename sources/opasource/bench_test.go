package opasource

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/httpsource"
)

// discard is an intake that is done with everything at once.
type discard struct{ sources.Opening }

func (d *discard) Open(_ context.Context, o sources.Opening) (sources.Session, uint64, error) {
	return &discard{o}, 0, nil
}

func (d *discard) Submit(_ context.Context, lines []byte) error {
	n := bytes.Count(lines, []byte("\n"))
	d.Next += uint64(n)
	d.Settled(sources.Receipt{Through: d.Next - 1, Lines: n})
	return nil
}

func (d *discard) SubmitTooLarge(context.Context, []byte, int64) error { panic("too large") }
func (d *discard) CountDuplicates(_ context.Context, n int) error {
	if n > 0 {
		panic("a duplicate")
	}
	return nil
}
func (d *discard) Settle(context.Context) error { return nil }
func (d *discard) Close()                       {}

// BenchmarkUpload is from a request of OPA over loopback to its answer, with everything
// of docket but the queue: unpack, cut, recognise, write down what is known and sync
// that, submit. MB/s is of unpacked decisions.
func BenchmarkUpload(b *testing.B) {
	for _, size := range []int{32 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) { benchmarkUpload(b, size) })
	}
}

func benchmarkUpload(b *testing.B, size int) {
	// More decisions than the window has, so that none is known when it comes again.
	var bodies [][]byte
	unpacked, events, perBody := 0, 0, 0
	for events < 200_000 {
		body, n, length := upload(b, size, events)
		bodies, events, unpacked, perBody = append(bodies, body), events+n, length, n
	}
	c := Definition.NewConfig().(*Config)
	c.Address = "127.0.0.1:0"
	source := c.New(sources.Env{Name: "opa", MaxRecordBytes: 1 << 20, StateDir: disk.At(b.TempDir()), Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error)
	go func() { ended <- source.Run(ctx, new(discard), func() { close(ready) }) }()
	<-ready
	defer func() { stop(); <-ended }()
	url := "http://" + source.(*httpsource.Source).Addr().String() + "/logs"
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	b.SetBytes(int64(unpacked))
	b.ReportAllocs()
	b.SetParallelism(8) // clients, who share a sync
	var next atomic.Int64
	var before, after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			body := bodies[int(next.Add(1))%len(bodies)]
			req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Content-Encoding", "gzip")
			resp, err := client.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				b.Errorf("got the answer %d", resp.StatusCode)
			}
		}
	})
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	// That of the clients is in it. On a machine that is busy it says more than the time.
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(float64(b.N)*float64(unpacked)/1e6/cpu.Seconds(), "MB/cpu-s")
	b.ReportMetric(float64(b.N*perBody)/b.Elapsed().Seconds(), "decisions/s")
}

// upload packs decisions like those of the samples.
func upload(b *testing.B, size, from int) (body []byte, events, length int) {
	var text strings.Builder
	text.WriteString("[")
	for text.Len() < size {
		if events > 0 {
			text.WriteString(",")
		}
		var id uuid.UUID
		binary.BigEndian.PutUint64(id[:], uint64(from+events+1)*0x9e3779b97f4a7c15)
		fmt.Fprintf(&text, `{"labels":{"app":"myapp","id":"06bd8cd7-8c7e-40e7-8449-471f958e8dbf","region":"eu","version":"1.22.0"},"decision_id":"%s","path":"authz","input":{"note":"l1\nl2 \u003cb\u003e\u0026","user":"user%d"},"result":{"allow":false,"reasons":["user bob is not allowed"]},"requested_by":"127.0.0.1:39530","timestamp":"2026-11-21T07:42:03.%09dZ","metrics":{"counter_server_query_cache_hit":0,"timer_rego_external_resolve_ns":290,"timer_rego_input_parse_ns":%d,"timer_rego_query_compile_ns":%d,"timer_rego_query_eval_ns":125116,"timer_server_handler_ns":314809},"req_id":%d}`,
			id, from%100+events, events*7919, 40000+events*31, 50000+events*17, from+events)
		events++
	}
	text.WriteString("]")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, text.String())
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
	return packed.Bytes(), events, text.Len()
}
