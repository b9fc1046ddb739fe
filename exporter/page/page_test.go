package page

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/fairconn"
)

// The page is one file, and nothing in it needs more than its policy allows.
func TestPageIsSelfContained(t *testing.T) {
	if got := len(document); got > 60<<10 {
		t.Errorf("the page has %d bytes, want at most 60 KiB", got)
	}
	for what, form := range map[string]string{
		"a foreign address":     `(https?:)?//[a-z0-9.-]+\.[a-z]`,
		"an inline handler":     `\son[a-z]+\s*=\s*["']`,
		"a style attribute":     `\sstyle\s*=`,
		"markup made of text":   `innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc`,
		"code made of text":     `\beval\(|new Function`,
		"a frame or an object":  `<(iframe|object|embed|base|form)\b`,
		"a script from a place": `<script\s`,
	} {
		for _, found := range regexp.MustCompile(form).FindAll(document, -1) {
			if !bytes.HasSuffix(found, []byte("//www.w3.o")) { // the name of a namespace
				t.Errorf("the page has %s: %q", what, found)
			}
		}
	}
	for _, tag := range []string{"<script>", "<style>"} {
		if got := bytes.Count(document, []byte(tag)); got != 1 {
			t.Errorf("got %s %d times, want once: the policy has one hash", tag, got)
		}
	}
}

// serve answers with an endpoint that is bounded as the admin endpoint is, until the
// returned function is called.
func serve(t *testing.T, status func() any) (url string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	Handle(mux, status)
	stop = fairconn.Serve(l, nil, mux, func(err error) { t.Error(err) })
	return "http://" + l.Addr().String(), stop
}

func TestHeaders(t *testing.T) {
	url, stop := serve(t, nil)
	defer stop()
	res, err := http.Get(url + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Equal(body, document) {
		t.Errorf("got %d bytes and the error %v, want the page", len(body), err)
	}
	policy := res.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Errorf("got the policy %s", policy)
	}
	for _, tag := range []string{"script", "style"} {
		elements := regexp.MustCompile("(?s)<"+tag+"[^>]*>(.+?)</"+tag+">").FindAllSubmatch(body, -1)
		if len(elements) != 1 {
			t.Fatalf("the page has %d elements %s, want one: the policy names one", len(elements), tag)
		}
		sum := sha256.Sum256(elements[0][1])
		if want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, want) {
			t.Errorf("got the policy %s, want %s in it", policy, want)
		}
	}
	for name, want := range map[string]string{"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// listener is one who asks for events.
type listener struct {
	status int
	header http.Header
	events *bufio.Reader
	close  func() error
}

// listen asks for events, as a browser or a program does.
func listen(t *testing.T, url string, headers ...string) listener {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return listener{res.StatusCode, res.Header, bufio.NewReader(res.Body), res.Body.Close}
}

// event reads one event.
func event(r *bufio.Reader) (text string, err error) {
	for {
		line, err := r.ReadString('\n')
		text += line
		if err != nil || line == "\n" {
			return text, err
		}
	}
}

// Each event is one status in one line, whatever its texts have.
func TestEvents(t *testing.T) {
	type status struct{ Text string }
	want := status{"line\nline\r\u2028 data: x\n\nevent: y"}
	url, stop := serve(t, func() any { return want })
	defer stop()
	l := listen(t, url)
	if got := l.header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got Content-Type %s, want text/event-stream", got)
	}
	for range 2 {
		text, err := event(l.events)
		if err != nil {
			t.Fatal(err)
		}
		data, ok := strings.CutPrefix(text, "event: status\ndata: ")
		var got status
		if err := json.Unmarshal([]byte(data), &got); !ok || err != nil || got != want {
			t.Fatalf("got the event %q, want the status", text)
		}
	}
}

// writer is a ResponseWriter that writes down what the handler asks for.
type writer struct {
	httptest.ResponseRecorder
	reading time.Time
	writing []time.Time
	most    int // events before the listener is gone
}

func (w *writer) SetReadDeadline(t time.Time) error {
	w.reading = t
	return nil
}

func (w *writer) SetWriteDeadline(t time.Time) error {
	w.writing = append(w.writing, t)
	return nil
}

func (w *writer) FlushError() error {
	if len(w.writing) == w.most {
		return errors.New("the listener has gone")
	}
	return nil
}

// An endpoint bounds the time of a request and of an answer. A listener stays longer than
// both, and one that does not read is let go in the time of one part of an answer.
func TestEventsOutlastTheBoundsOfARequest(t *testing.T) {
	mux := http.NewServeMux()
	Handle(mux, func() any { return 1 })
	w := &writer{ResponseRecorder: *httptest.NewRecorder(), reading: time.Now(), most: 2}
	began := time.Now()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", http.NoBody))
	if !w.reading.IsZero() {
		t.Errorf("got %v for reading, want no bound", w.reading)
	}
	if len(w.writing) != 2 {
		t.Fatalf("got %d bounds for writing, want one for each of 2 events", len(w.writing))
	}
	for i, at := range w.writing {
		if got := at.Sub(began); got < fairconn.WriteTimeout || got > fairconn.WriteTimeout+time.Minute {
			t.Errorf("event %d: got %v to write it in, want %v", i, got, fairconn.WriteTimeout)
		}
	}
}

// Listeners take no more than their share of the places of the endpoint.
func TestListenersAreBounded(t *testing.T) {
	url, stop := serve(t, func() any { return 1 })
	defer stop()
	var leave func() error
	for n := range maxListeners {
		l := listen(t, url)
		if n == 0 {
			leave = l.close
		}
		if _, err := event(l.events); l.status != http.StatusOK || err != nil {
			t.Fatalf("listener %d: got status %d, %v", n+1, l.status, err)
		}
	}
	if got := listen(t, url).status; got != http.StatusServiceUnavailable {
		t.Errorf("one listener too many: got status %d, want 503", got)
	}
	res, err := http.Get(url + "/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the page beside all listeners: got status %d, want 200", res.StatusCode)
	}
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); listen(t, url).status != http.StatusOK; {
		if time.Now().After(deadline) {
			t.Fatal("the place of a listener that has gone is not free")
		}
	}
}

func TestForeignPagesGetNoEvents(t *testing.T) {
	url, stop := serve(t, func() any { return 1 })
	defer stop()
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://evil.example"}} {
		if got := listen(t, url, headers...).status; got != http.StatusForbidden {
			t.Errorf("%q: got status %d, want 403", headers, got)
		}
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "same-origin"}, {"Origin", url}, nil} {
		if got := listen(t, url, headers...).status; got != http.StatusOK {
			t.Errorf("%q: got status %d, want 200", headers, got)
		}
	}
}

// A listener does not hold up the end of docket, and its answer is not torn.
func TestEventsEndWithTheEndpoint(t *testing.T) {
	url, stop := serve(t, func() any { return 1 })
	r := listen(t, url).events
	if _, err := event(r); err != nil {
		t.Fatal(err)
	}
	stop()
	for {
		if _, err := event(r); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("got %v, want the end of the answer", err)
			}
			return
		}
	}
}
