package httpsink

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

func TestRequest(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL+"/ingest?stream=a%20b", func(c *Config) { c.BearerTokenFile = secretFile(t, "s3cret\n") })
	b := batch(41, `{"a": 1.0}`, ` {"b":2} `)
	b.Items[1].Seq = 44
	if err := s.Send(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if got, want := r.lastBody(t), "{\"a\": 1.0}\n {\"b\":2} \n"; got != want {
		t.Errorf("body is %q, want %q", got, want)
	}
	req := r.lastRequest(t)
	if got, want := req.Method+" "+req.RequestURI, "POST /ingest?stream=a%20b"; got != want {
		t.Errorf("request is %q, want %q", got, want)
	}
	if got, want := req.ContentLength, int64(b.Size()+2); got != want {
		t.Errorf("Content-Length is %d, want %d", got, want)
	}
	for name, want := range map[string]string{
		"content-type":     "application/x-ndjson",
		"user-agent":       "docket",
		"authorization":    "Bearer s3cret",
		"docket-queue":     "6f0c2f0e-5a0e-4c3e-9d57-3a5f1f6a7b10",
		"docket-first-seq": "41",
		"docket-last-seq":  "44",
		"docket-records":   "2",
	} {
		if got := req.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestCloseClosesConnections(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL)
	if err := s.Send(context.Background(), batch(1, `{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.closed:
	case <-time.After(await.Left(t)):
		t.Error("the connection stays open after Close")
	}
}

func TestTokenIsReadForEveryAttempt(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	file := secretFile(t, "one")
	s := openSink(t, r.URL, func(c *Config) { c.BearerTokenFile = file })
	for _, token := range []string{"one", "two"} {
		writeFile(t, string(file), token)
		if err := s.Send(context.Background(), batch(1, `{}`)); err != nil {
			t.Fatal(err)
		}
		if got, want := r.lastRequest(t).Header.Get("Authorization"), "Bearer "+token; got != want {
			t.Errorf("Authorization is %q, want %q", got, want)
		}
	}
	if err := os.Remove(string(file)); err != nil {
		t.Fatal(err)
	}
	sendFails(t, s, sinks.Misconfigured, "bearerTokenFile", string(file))
	writeFile(t, string(file), "three")
	if err := s.Send(context.Background(), batch(1, `{}`)); err != nil {
		t.Errorf("Send with the token file back = %v, want nil", err)
	}
}

func TestNoAnswer(t *testing.T) {
	t.Run("timeout", func(t *testing.T) {
		r := newReceiver(t, (*httptest.Server).Start)
		r.setAnswer(func(_ http.ResponseWriter, req *http.Request) {
			io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
		})
		sendFails(t, openSink(t, r.URL, withTimeout(50*time.Millisecond)), sinks.Transient, "no answer within 50ms")
	})
	t.Run("refused", func(t *testing.T) {
		address := refusing(t)
		f := sendFails(t, openSink(t, "http://"+address+"/s3cret-path?ref=s3cret"), sinks.Transient, "connection refused", address)
		wantNoSecret(t, f)
	})
}

// A receiver that has said 2xx has accepted the batch, however slowly it goes on.
func TestAcceptedByAnAnswerThatTrickles(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, (*httptest.Server).Start)
	r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
		r.accept(req)
		w.WriteHeader(http.StatusAccepted)
		w.(http.Flusher).Flush()
		select {
		case <-req.Context().Done():
		case <-time.After(await.Left(t)):
			t.Error("Send waits for the end of the answer")
		}
	})
	s := openSink(t, r.URL, withTimeout(time.Hour)) // it does not end the wait
	if err := s.Send(context.Background(), batch(1, `{"a":1}`)); err != nil {
		t.Fatalf("Send = %v, want nil", err)
	}
}

func secretFile(t *testing.T, content string) config.SecretFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	writeFile(t, path, content)
	return config.SecretFile(path)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantNoSecret wants that nothing of what the tests call secret is in f.
func wantNoSecret(t *testing.T, f *sinks.Failure) {
	t.Helper()
	if strings.Contains(f.Error(), "s3cret") {
		t.Errorf("the error gives a secret away: %q", f)
	}
}
