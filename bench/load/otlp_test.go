package load

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/record"
)

// A load in OTLP arrives as it was sent, and is taken with the answers.
func TestOTLPLoad(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got, most := map[string]bool{}, 0
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		request, err := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		n := 0
		if err == nil {
			err = OTLPTexts(request, func(text []byte) {
				got[string(text)] = true
				n++
			})
		}
		if most = max(most, n); err != nil {
			t.Error(err)
		}
	})}
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { server.Close() })
	d, err := Load{Socket: socket, Producers: 2, Records: 1500, OTLP: true}.Run(t.Context())
	if err != nil || d.Records != 1500 {
		t.Fatalf("got %+v, %v; want 1500 records", d, err)
	}
	if len(got) != 1500 || most != LinesPerRequest {
		t.Errorf("got %d records, at most %d at once; want 1500 and %d", len(got), most, LinesPerRequest)
	}
	for i := range 2 {
		for line := range bytes.Lines(record.NewBlock(i).Next(0, 750)) {
			if !got[strings.TrimSpace(string(line))] {
				t.Fatalf("%s has not arrived", line)
			}
		}
	}
}

func TestOTLPTextsRefusesOthers(t *testing.T) {
	whole := appendOTLP(nil, record.NewBlock(0).Next(0, 2))
	for n := 1; n < len(whole); n += 7 {
		if err := OTLPTexts(whole[:n], func([]byte) {}); err == nil {
			t.Errorf("%d of %d bytes: got no error", n, len(whole))
		}
	}
	other := append([]byte{1 << 3, 200, 1, 2<<3 | 1, 1, 2, 3, 4, 5, 6, 7, 8, 3<<3 | 5, 1, 2, 3, 4}, whole...) // fields of other kinds
	n := 0
	if err := OTLPTexts(other, func([]byte) { n++ }); err != nil || n != 2 {
		t.Errorf("beside other fields: got %d records, %v; want 2", n, err)
	}
}

// A load ends where its server is killed, and counts what each producer knows.
func TestLoadUntilAKill(t *testing.T) {
	var mu sync.Mutex
	killed := false
	socket := server(t, func(nc net.Conn) {
		buf := make([]byte, 64*record.Bytes)
		for {
			_, err := nc.Read(buf)
			mu.Lock()
			end := killed || err != nil
			mu.Unlock()
			if end {
				return
			}
		}
	})
	victim := exec.CommandContext(t.Context(), "sleep", "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = victim.Wait() // it was killed
		mu.Lock()
		defer mu.Unlock()
		killed = true
	}()
	d, err := Load{Socket: socket, Producers: 2, Records: 1e6, Limit: 100 * time.Millisecond, Rate: 2000, Kill: victim.Process.Pid}.Run(t.Context())
	if err != nil || d.Took() < 100*time.Millisecond || d.Records == 0 || len(d.Each) != 2 || d.Each[0]+d.Each[1] != d.Records {
		t.Errorf("got %+v, %v; want some records until the kill", d, err)
	}
}
