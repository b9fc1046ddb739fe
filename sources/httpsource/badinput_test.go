package httpsource

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/sources/sourcetest"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	bad := pack(eventsOf("a"))
	bad[len(bad)-6] ^= 1 // of its checksum
	tests := map[string]struct {
		method, path, encoding string
		body                   string
		status                 int
		answer                 string // part of it
		trouble                bool
	}{
		"an empty array":           {body: "[]", status: 200},
		"plain JSON":               {body: eventsOf("a"), status: 200},
		"gzip":                     {encoding: "gzip", body: string(pack(eventsOf("a"))), status: 200},
		"two members of gzip":      {encoding: "gzip", body: string(pack(`[{"id":"a"},`)) + string(pack(`{"id":"b"}]`)), status: 200},
		"nobody wants it":          {path: "/ignored", body: "what?", status: 200},
		"pretty":                   {body: "[\n  {\n    \"id\": \"a\"\n  }\n]\n", status: 200},
		"an event nested deeply":   {body: `[{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}]`, status: 200},
		"an object":                {body: "{}", status: 400, answer: "must begin with '['", trouble: true},
		"nothing":                  {body: "", status: 400, answer: "ends too early", trouble: true},
		"cut off":                  {body: `[{"id":"a"},`, status: 400, answer: "ends too early", trouble: true},
		"garbage behind":           {body: `[{"id":"a"}]x`, status: 400, answer: "has text after its end", trouble: true},
		"gzip without saying so":   {body: string(pack("[]")), status: 400, answer: "set the header Content-Encoding: gzip", trouble: true},
		"not gzip at all":          {encoding: "gzip", body: eventsOf("a"), status: 400, answer: "is not valid gzip", trouble: true},
		"gzip cut off":             {encoding: "gzip", body: string(pack(eventsOf("a"))[:30]), status: 400, answer: "is not valid gzip", trouble: true},
		"gzip with a bad checksum": {encoding: "gzip", body: string(bad), status: 400, answer: "checksum", trouble: true},
		"garbage behind gzip":      {encoding: "gzip", body: string(pack(eventsOf("a"))) + "garbage of some length", status: 400, answer: "is not valid gzip", trouble: true},
		"another encoding":         {encoding: "zstd", body: "[]", status: 415, answer: "send gzip or none", trouble: true},
		"another path":             {path: "/elsewhere", body: "[]", status: 404, answer: "unknown path", trouble: true},
		"another method":           {method: "PUT", body: "[]", status: 405, answer: "only POST is"},
		"somebody looks":           {method: "GET", path: "/", status: 404},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := sourcetest.New()
			defer in.Close()
			r := start(t, in)
			if tt.method == "" {
				tt.method = http.MethodPost
			}
			if tt.path == "" {
				tt.path = "/events"
			}
			req, err := http.NewRequest(tt.method, "http://"+r.source.Addr().String()+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if tt.encoding != "" {
				req.Header.Set("Content-Encoding", tt.encoding)
			}
			resp, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			answer, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tt.status || !strings.Contains(string(answer), tt.answer) {
				t.Errorf("got the answer %d %q (%v), want %d %q", resp.StatusCode, answer, err, tt.status, tt.answer)
			}
			if tt.status >= 400 && len(in.Lines()) > 0 {
				t.Errorf("got %v stored of a body that is none", in.Lines())
			}
			if trouble := r.source.Report().Trouble; (trouble != "") != tt.trouble {
				t.Errorf("got the trouble %q, want one: %v", trouble, tt.trouble)
			}
			r.mustPost(eventsOf("z"))
			if trouble := r.source.Report().Trouble; trouble != "" {
				t.Errorf("got the trouble %q after a body that was good", trouble)
			}
		})
	}
}

// Bombs end, with little memory, and everything goes on.
func TestBombs(t *testing.T) {
	const free = 16 << 20
	size := 256 << 20 / few(2)
	for name, tt := range map[string]struct {
		start, unit string
		status      int
		stored      bool
	}{
		"zeros":              {"", "\x00", 400, false},
		"brackets":           {"", "[", 413, false},
		"one endless string": {`["`, "x", 413, false},
		"white space":        {"[", " ", 413, false},
		"one endless name":   {`[{"`, "x", 413, false},
		"endless events":     {"[1", "," + `{"id":""}` + strings.Repeat(" ", 1014), 413, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := sourcetest.New()
			defer in.Close()
			r := start(t, in)
			r.source.server.Load().freeBytes = free
			body := bomb(tt.start, tt.unit, size)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			status, text, err := r.send(body, "gzip")
			runtime.ReadMemStats(&after)
			if err != nil || status != tt.status {
				t.Errorf("got the answer %d %q (%v), want %d", status, text, err, tt.status)
			}
			if grown := int64(after.Sys) - int64(before.Sys); grown > 64<<20 {
				t.Errorf("got %d MiB more memory, want at most 64", grown>>20)
			}
			if got := len(in.Lines()); got > 0 != tt.stored || got > 2*free/1024 {
				t.Errorf("got %d events of a bomb", got)
			}
			r.mustPost(eventsOf("a"))
		})
	}
}

// bomb packs start and then size bytes of unit.
func bomb(start, unit string, size int) []byte {
	const block = 1 << 20
	packed := pack(strings.Repeat(unit, block/len(unit)))
	return append(pack(start), bytes.Repeat(packed, size/block)...) // members of gzip
}

// converse writes what a client says and returns the status lines it hears.
func (r *running) converse(say func(nc net.Conn, heard *bufio.Reader)) {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.source.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(await.Left(r.t)))
	say(nc, bufio.NewReader(nc))
}

// A client that is too slow, in its header or its body, does not hold its place for ever;
// one whose body comes slowly because docket reads it slowly is not too slow.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	server := r.source.server.Load()
	server.bodyWait, server.answerWait = 100*time.Millisecond, time.Second/2
	r.converse(func(nc net.Conn, heard *bufio.Reader) {
		fmt.Fprintf(nc, "POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n[")
		answer, err := io.ReadAll(heard)
		if err != nil || !strings.Contains(string(answer), " 408 ") {
			t.Errorf("got %q (%v), want 408 and the end of the connection", answer, err)
		}
	})
}

// However many send large bodies at a time, few of them are in memory. Small ones get
// through beside them, and so do large ones: those who stall lose their places.
func TestLargeBodiesTakeTurns(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	server := r.source.server.Load()
	server.bodyWait = time.Second
	event := fmt.Sprintf(`{"id":"","x":%q},`, strings.Repeat("x", 1000))
	begin := "[" + strings.Repeat(event, 3*chunkBytes/len(event))
	for range maxLarge + 2 {
		nc, err := net.Dial("tcp", r.source.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		fmt.Fprintf(nc, "POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", 2*len(begin), begin)
	}
	await.Until(t, "all places are taken", func() bool { return len(server.large) == maxLarge })
	r.mustPost(eventsOf("small"))
	await.Until(t, "a large body has a place", func() bool {
		status, _, err := r.tryPost(begin + `{"id":"large"}]`)
		return err == nil && status == http.StatusOK
	})
	if got := len(server.large); got > maxLarge {
		t.Errorf("got %d large bodies, want at most %d", got, maxLarge)
	}
	checkHas(t, in.Lines(), "small", "large")
}

// checkHas insists on an event with each of the ids.
func checkHas(t *testing.T, lines []sourcetest.Line, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if !slices.ContainsFunc(lines, func(l sourcetest.Line) bool { return strings.Contains(l.Text, fmt.Sprintf("%q", id)) }) {
			t.Errorf("got no event %q", id)
		}
	}
}

// Nobody loses a place while docket is at work for him: who comes then is told to try again.
func TestWorkingConnectionsStay(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in, func(o *options) { o.config.MaxConnections = 2 })
	in.Hold()
	answers := make(chan int)
	for _, id := range []string{"a", "b"} {
		go func() {
			status, _, _ := r.tryPost(eventsOf(id))
			answers <- status
		}()
	}
	await.Until(t, "both wait for the disk", func() bool { return in.Pending() == 2 })
	for range 2 {
		r.converse(func(_ net.Conn, heard *bufio.Reader) {
			answer, _ := io.ReadAll(heard)
			if !strings.Contains(string(answer), " 503 ") {
				t.Errorf("got %q, want 503", answer)
			}
		})
	}
	in.Release()
	for range 2 {
		if got := <-answers; got != http.StatusOK {
			t.Errorf("got the answer %d, want 200", got)
		}
	}
	if got := strings.Count(r.log.String(), "too many connections"); got != 1 {
		t.Errorf("got it logged %d times, want once", got)
	}
}

// A good upload is taken beside a thousand slow ones, which come again and again: headers
// that never end, bodies byte by byte, connections that say nothing.
func TestGoodUploadBesideSlowOnes(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	ctx, stop := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	defer slow.Wait()
	defer stop()
	for n := range 1000 / few(4) {
		begin := []string{
			"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nX",
			"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n[",
			"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n",
			"",
		}[n%4]
		slow.Go(func() { trickle(ctx, r.source.Addr().String(), begin) })
	}
	await.Until(t, "all places are taken", func() bool { return r.source.Connections() >= DefaultConnections })
	good := "[" + strings.Repeat(fmt.Sprintf(`{"id":"","x":%q},`, strings.Repeat("x", 1000)), 3*chunkBytes/1000) + `{"id":"good"}]`
	for range 5 / few(2) {
		began := time.Now()
		await.Until(t, "a good upload is taken", func() bool {
			r.client.CloseIdleConnections()
			status, _, err := r.tryPost(good)
			return err == nil && status == http.StatusOK
		})
		t.Logf("a good upload took %v", time.Since(began).Round(time.Millisecond))
	}
	// One that had to make room counts until its goroutine has ended, which may take a moment.
	await.Until(t, "no more connections than twice the places", func() bool { return r.source.Connections() <= 2*DefaultConnections })
}

// trickle connects each second unless it is connected, and sends a byte every 100 ms. A thousand
// that connect at once would take all processors, and the good upload, which shares them, would be slow too.
func trickle(ctx context.Context, address, begin string) {
	for again := time.NewTicker(time.Second); ctx.Err() == nil; <-again.C {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		stopped := context.AfterFunc(ctx, func() { nc.Close() })
		_, err = io.WriteString(nc, begin)
		for err == nil {
			select {
			case <-time.After(100 * time.Millisecond):
				_, err = io.WriteString(nc, "x"[:min(1, len(begin))])
				if err == nil {
					_ = nc.SetReadDeadline(time.Now().Add(time.Millisecond))
					if _, ended := nc.Read(make([]byte, 1)); errors.Is(ended, io.EOF) {
						err = ended
					}
				}
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		stopped()
		nc.Close()
	}
}
