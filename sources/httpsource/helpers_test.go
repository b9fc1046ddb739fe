package httpsource

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/internal/testlog"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/sourcetest"
)

func TestMain(m *testing.M) { testleak.Main(m) }

const testLimit = 64 << 10

// few is by how much fewer of something a short test has.
func few(n int) int {
	if testing.Short() {
		return n
	}
	return 1
}

// testProtocol is that of an engine that sends arrays, whose events have an id.
var testProtocol = Protocol{
	Accepts:  func(path string) bool { return path == "/events" },
	Ignores:  func(path string) bool { return path == "/ignored" },
	Identity: func(dst, event []byte) []byte { return rawjson.Member(event, "id").AppendText(dst) },
}

// running is a source that serves clients.
type running struct {
	t      *testing.T
	source *Source
	url    string
	log    *testlog.Buffer
	client *http.Client
	stop   context.CancelFunc
	ended  chan error
	once   sync.Once
	err    error
}

// options are what a test may change before a source runs.
type options struct {
	config   Config
	protocol Protocol
}

// start runs a source with in until the test ends.
func start(t *testing.T, in *sourcetest.Intake, change ...func(*options)) *running {
	t.Helper()
	o := options{
		config:   Config{Address: "127.0.0.1:0", MaxConnections: DefaultConnections},
		protocol: testProtocol,
	}
	for _, f := range change {
		f(&o)
	}
	r := &running{t: t, log: new(testlog.Buffer), ended: make(chan error, 1)}
	env := sources.Env{Name: "test", MaxRecordBytes: testLimit, Stored: in.Stored, Log: slog.New(slog.NewTextHandler(r.log, nil))}
	r.source = New(o.config, o.protocol, env)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	ready := make(chan struct{})
	go func() { r.ended <- r.source.Run(ctx, in, func() { close(ready) }) }()
	t.Cleanup(func() { r.end() })
	select {
	case <-ready:
	case err := <-r.ended:
		r.ended <- err
		t.Fatalf("the source ended: %v", err)
	}
	r.source.server.Load().commitWait = await.Left(t)
	r.url = "http://" + r.source.Addr().String() + "/events"
	r.client = &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: await.Left(t)}
	return r
}

// end stops the source and returns how it ended.
func (r *running) end() error {
	r.once.Do(func() {
		r.stop()
		select {
		case r.err = <-r.ended:
		case <-time.After(await.Left(r.t)):
			r.t.Error("the source does not stop")
		}
		if r.client != nil {
			r.client.CloseIdleConnections()
		}
	})
	return r.err
}

// post sends a body, packed unless it begins with "raw:", and returns the answer.
func (r *running) post(body string) (status int, text string) {
	r.t.Helper()
	status, text, err := r.tryPost(body)
	if err != nil {
		r.t.Fatalf("post: %v", err)
	}
	return status, text
}

func (r *running) tryPost(body string) (status int, text string, err error) {
	raw, isRaw := strings.CutPrefix(body, "raw:")
	if isRaw {
		return r.send([]byte(raw), "")
	}
	return r.send(pack(body), "gzip")
}

func (r *running) send(body []byte, encoding string) (status int, text string, err error) {
	req, err := http.NewRequest(http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(answer)), err
}

// mustPost sends a body that has to be taken.
func (r *running) mustPost(body string) {
	r.t.Helper()
	if status, text := r.post(body); status != http.StatusOK {
		r.t.Fatalf("got the answer %d %q, want 200", status, text)
	}
}

func pack(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return b.Bytes()
}

// eventsOf is a body of events with these ids.
func eventsOf(ids ...string) string {
	events := make([]string, len(ids))
	for i, id := range ids {
		events[i] = fmt.Sprintf(`{"id":%q,"n":%d}`, id, i)
	}
	return "[" + strings.Join(events, ",") + "]"
}

// checkIDs compares the ids of what is stored, in any order.
func checkIDs(t *testing.T, lines []sourcetest.Line, want ...string) {
	t.Helper()
	var got []string
	for _, l := range lines {
		if l.Refused == "" {
			got = append(got, rawjson.Member([]byte(l.Text), "id").String())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got the events %q, want %q", got, want)
	}
}
