package kubeauditsource

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/httpsource"
	"github.com/docket-export/docket/sources/sourcetest"
)

func TestMain(m *testing.M) { testleak.Main(m) }

// testLimit is the longest event that is taken.
const testLimit = 8 << 10

// running is a source that an API server can reach.
type running struct {
	t      *testing.T
	source *httpsource.Source
	client *http.Client
	cancel context.CancelFunc
	once   sync.Once
	ended  chan error
}

// start runs a source.
func start(t *testing.T, in *sourcetest.Intake, preset Preset) *running {
	t.Helper()
	c := Definition.NewConfig().(*Config)
	c.Address, c.Preset = "127.0.0.1:0", preset
	env := sources.Env{Name: "apiserver", MaxRecordBytes: testLimit, Stored: in.Stored, Log: slog.New(slog.DiscardHandler)}
	r := &running{t: t, source: c.New(env).(*httpsource.Source), ended: make(chan error, 1)}
	r.client = &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: await.Left(t)}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	ready := make(chan struct{})
	go func() { r.ended <- r.source.Run(ctx, in, func() { close(ready) }) }()
	t.Cleanup(r.stop)
	select {
	case <-ready:
	case err := <-r.ended:
		r.ended <- err
		t.Fatalf("the source ended: %v", err)
	}
	return r
}

func (r *running) stop() {
	r.once.Do(func() {
		r.cancel()
		select {
		case err := <-r.ended:
			if err != nil {
				r.t.Errorf("at its end: got %v, want nil", err)
			}
		case <-time.After(await.Left(r.t)):
			r.t.Errorf("got a source that runs on, want it to stop")
		}
		r.client.CloseIdleConnections()
	})
}

// send does what an API server does with a list of events, and returns the status.
func (r *running) send(method, path, body string) int {
	r.t.Helper()
	req, err := http.NewRequest(method, "http://"+r.source.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode
}

func (r *running) post(body string) int {
	r.t.Helper()
	return r.send(http.MethodPost, "/audit?timeout=30s", body)
}

func (r *running) mustPost(body string) {
	r.t.Helper()
	if got := r.post(body); got != http.StatusOK {
		r.t.Fatalf("got the status %d, want 200, for %.200q", got, body)
	}
}

// listOf is the body that brings events.
func listOf(events ...string) string {
	return `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + strings.Join(events, ",") + "]}\n"
}

// short is an event of which no more is needed than its identity.
func short(auditID string) string {
	return fmt.Sprintf(`{"auditID":%q,"stage":"ResponseComplete","stageTimestamp":"2026-01-05T10:04:07.120000Z"}`, auditID)
}

// stored are the records in the order of their arrival.
func stored(in *sourcetest.Intake) []string {
	texts := []string{}
	for _, l := range in.Lines() {
		if l.Refused == "" {
			texts = append(texts, l.Text)
		}
	}
	return texts
}

func check(t *testing.T, in *sourcetest.Intake, want ...string) {
	t.Helper()
	if got := stored(in); !slices.Equal(got, want) {
		t.Errorf("got %d records\n%s\nwant %d\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}

// awaitKnown waits until so many events were recognised: they may be counted after the
// answer.
func awaitKnown(t *testing.T, in *sourcetest.Intake, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	if err := in.Wait(ctx, func() bool { return in.Known() == want }); err != nil {
		t.Errorf("got %d events recognised, want %d", in.Known(), want)
	}
}

func readTestdata(t testing.TB, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "testdata"}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What a kube-apiserver has sent is stored byte for byte, once.
func TestSample(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in, All)
	sample := readTestdata(t, "samples", "kube-audit", "000.body")
	want := strings.Split(strings.TrimSpace(readTestdata(t, "records", "kubernetes-audit.ndjson")), "\n")
	r.mustPost(sample)
	check(t, in, want...)
	r.mustPost(sample)
	check(t, in, want...)
	awaitKnown(t, in, len(want))
}

// The last part of a URL is easily mistaken, and events that nobody takes are lost.
func TestEveryPath(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in, All)
	for i, path := range []string{"/audit", "/", "", "/audit/", "/k8s/events?timeout=30s", "/status"} {
		if got := r.send(http.MethodPost, path, listOf(short(fmt.Sprint(i)))); got != http.StatusOK {
			t.Errorf("%q: got the status %d, want 200", path, got)
		}
		if got := len(stored(in)); got != i+1 {
			t.Errorf("%q: got %d records, want %d", path, got, i+1)
		}
	}
	if got := r.send(http.MethodGet, "/audit", ""); got != http.StatusMethodNotAllowed {
		t.Errorf("GET: got the status %d, want 405", got)
	}
}

// The preset leaves out what is no decision; a list of nothing else is answered as one.
func TestPresetOnTheWay(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in, AdmissionDecisions)
	r.mustPost(readTestdata(t, "samples", "kube-audit", "000.body"))
	check(t, in)
	denied := eventOf("create", allowed, failure("403", "Forbidden", "admission webhook \"validation.gatekeeper.sh\" denied the request: [a] <b>"))
	audited := strings.Replace(eventOf("create", allowed+","+vapFailure, created), "6f0c", "6f0d", 1)
	admitted := strings.Replace(eventOf("create", allowed, created), "6f0c", "6f0e", 1)
	for range 2 {
		r.mustPost(listOf(admitted, denied, admitted, audited))
	}
	check(t, in, denied, audited)
}

// A client that sends the Audit-ID of another request of its own does not hide this one.
func TestAuditIDOfAClient(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in, All)
	harmless := eventOf("get", allowed, `{"metadata":{},"code":200}`)
	denied := strings.Replace(eventOf("create", allowed, failure("403", "Forbidden", "admission webhook \"a\" denied the request")), "07.120000Z", "09.340000Z", 1)
	r.mustPost(listOf(harmless))
	r.mustPost(listOf(denied))
	check(t, in, harmless, denied)
}

// Lists that no API server sends are taken or refused as a whole, and never crash.
func TestShapesOfLists(t *testing.T) {
	a, b := short("a"), short("b")
	for name, test := range map[string]struct {
		body string
		code int
		want []string
	}{
		"items first":            {`{"items":[` + a + `],"kind":"EventList"}`, 200, []string{a}},
		"items alone":            {`{"items":[` + a + `,` + b + `]}`, 200, []string{a, b}},
		"foreign members":        {`{"x":{"items":[1,{"y":"]}"}]},"n":-1.5e3,"items":[` + a + `],"z":[[],{}],"t":true}`, 200, []string{a}},
		"foreign member inside":  {`{"items":[{"items":[` + a + `]}]}`, 200, []string{`{"items":[` + a + `]}`}},
		"no items at all":        {`{"items":[]}`, 200, nil},
		"items null":             {`{"kind":"EventList","items":null}`, 200, nil},
		"white space":            {" \r\n{ \"items\" :\t[ " + a + " ,\n" + b + " ] } \n", 200, []string{a, b}},
		"lines within an event":  {"{\"items\":[{\n \"auditID\": \"a\",\r\n\t\"stage\":\"s\"\n}]}", 200, []string{"{  \"auditID\": \"a\",\r \t\"stage\":\"s\" }"}},
		"no identity, twice":     {`{"items":[{"level":"Metadata"},{"level":"Metadata"}]}`, 200, []string{`{"level":"Metadata"}`, `{"level":"Metadata"}`}},
		"not an object among it": {`{"items":[` + a + `,7,"x",` + b + `]}`, 200, []string{a, b}},
		"items missing":          {`{"kind":"EventList"}`, 400, nil},
		"items an object":        {`{"items":{"a":` + a + `}}`, 400, nil},
		"items a text":           {`{"items":"` + "[]" + `"}`, 400, nil},
		"items a number":         {`{"items":1}`, 400, nil},
		"a list without a head":  {`[` + a + `]`, 400, nil},
		"one event alone":        {a, 400, nil},
		"a text":                 {`"items"`, 400, nil},
		"null":                   {`null`, 400, nil},
		"nothing":                {``, 400, nil},
		"no JSON":                {`items=[{}]`, 400, nil},
		"two lists":              {listOf(a) + listOf(b), 400, nil},
		"gzip without saying so": {"\x1f\x8b\x08\x00", 400, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in := sourcetest.New()
			defer in.Close()
			r := start(t, in, All)
			if got := r.post(test.body); got != test.code {
				t.Errorf("got the status %d, want %d", got, test.code)
			}
			check(t, in, test.want...)
		})
	}
}

// An event that is too long is refused alone, and the API server need not send it again.
func TestHugeEvent(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in, All)
	a, b := short("a"), short("b")
	huge := `{"auditID":"huge","stage":"ResponseComplete","requestObject":{"data":"` + strings.Repeat("x", 1<<20) + `"}}`
	r.mustPost(listOf(a, huge, b))
	check(t, in, a, b)
	for _, l := range in.Lines() {
		if l.Refused != "" && (l.Refused != sources.TooLarge || !strings.HasPrefix(huge, l.Text) || len(l.Text) > testLimit) {
			t.Errorf("got %q refused as %s, want the huge event's beginning as TooLarge", l.Text, l.Refused)
		}
	}
	if got := len(in.Lines()); got != 3 {
		t.Errorf("got %d lines decided, want 3", got)
	}
}

func TestConfig(t *testing.T) {
	c := Definition.NewConfig().(*Config)
	if c.Preset != All || c.MaxConnections != httpsource.DefaultConnections || c.TLS != nil || Definition.ConfigKey() != "kubernetesAudit" {
		t.Errorf("definition: got key %q, %+v, want kubernetesAudit, All, %d, no TLS", Definition.ConfigKey(), c, httpsource.DefaultConnections)
	}
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // how the problems begin
	}{
		"loopback":           {func(*Config) {}, ""},
		"decisions":          {func(c *Config) { c.Preset = AdmissionDecisions }, ""},
		"TLS everywhere":     {func(c *Config) { c.Address, c.TLS = ":8443", &config.ServerTLS{CertFile: "/c", KeyFile: "/k"} }, ""},
		"no address":         {func(c *Config) { c.Address = "" }, "address: is required"},
		"plain on a network": {func(c *Config) { c.Address = ":8283" }, "address: must be a loopback address"},
		"TLS without files":  {func(c *Config) { c.TLS = &config.ServerTLS{} }, "tls.certFile: is required"},
		"another preset":     {func(c *Config) { c.Preset = "all" }, `preset: must be All or AdmissionDecisions, not "all"`},
		"no connections":     {func(c *Config) { c.MaxConnections = 0 }, "maxConnections: must be at least 1"},
		"two problems":       {func(c *Config) { c.Preset, c.MaxConnections = "", 0 }, "maxConnections: must be at least 1\npreset: must be All or AdmissionDecisions"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Definition.NewConfig().(*Config)
			c.Address = "127.0.0.1:8283"
			test.change(c)
			if got := c.Validate().Error(); (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("got the problems %q, want %q", got, test.want)
			}
		})
	}
}
