package adminclient

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/queue/inspect"
)

// serve answers on l with name and the request until the test ends.
func serve(t *testing.T, l net.Listener, name string) {
	t.Helper()
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, strings.Join([]string{name, r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Authorization"), string(body)}, " "))
	})}}
	server.Start()
	t.Cleanup(server.Close)
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask returns the answer to a question, or the error.
func ask(t *testing.T, c *Client) (string, error) {
	t.Helper()
	res, err := c.Get(t.Context(), "/queue"+Path("a/b", "c d"), url.Values{"from": {"1"}})
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

// The socket is asked first, the address where nobody answers there: also by the same
// client, when docket comes and goes.
func TestSocketBeforeAddress(t *testing.T) {
	dir := t.TempDir()
	address := listen(t, "tcp", "127.0.0.1:0")
	c := ForEither(dir, address.Addr().String())
	serve(t, address, "address")
	const question = " GET /queue/a%2Fb/c%20d from=1  "
	if got, err := ask(t, c); got != "address"+question || err != nil {
		t.Errorf("without a socket: got %q, %v", got, err)
	}
	if _, err := ask(t, ForQueue(dir)); !errors.Is(err, ErrNotRunning) {
		t.Errorf("by its queue alone: got %v, want that docket is not running", err)
	}
	serve(t, listen(t, "unix", filepath.Join(dir, exporter.AdminSocket)), "socket")
	if got, err := ask(t, c); got != "socket"+question || err != nil {
		t.Errorf("with a socket: got %q, %v", got, err)
	}
}

// Nobody to ask is told apart from who must not ask.
func TestUnreached(t *testing.T) {
	closed := listen(t, "tcp", "127.0.0.1:0")
	closed.Close()
	nobody := closed.Addr().String()
	stale := t.TempDir()
	l := listen(t, "unix", filepath.Join(stale, exporter.AdminSocket))
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	for name, test := range map[string]struct {
		client     *Client
		want       string
		notRunning bool
	}{
		"nothing at the address": {ForAddress(nobody), "nothing listens at " + nobody + ": docket does not run", true},
		"nothing at either":      {ForEither(t.TempDir(), nobody), "admin.sock and " + nobody, true},
		"killed":                 {ForQueue(stale), "nothing listens at ", true},
		"path too long":          {ForQueue(long), "too long for a socket", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.client.Reach(t.Context())
			_, asked := ask(t, test.client)
			for _, err := range []error{err, asked} {
				if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrNotRunning) != test.notRunning {
					t.Errorf("got error %v, want one with %q", err, test.want)
				}
			}
		})
	}
}

// Root may use every socket, so the kernel cannot be asked for this failure.
func TestNotPermitted(t *testing.T) {
	err := ForQueue("q").unreached(&net.OpError{Op: "dial", Err: fs.ErrPermission})
	if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "only the user that docket runs as may use it") {
		t.Errorf("got %v", err)
	}
}

func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"not found":     {404, "404 page not found\n", "answered 404 Not Found: check that this is docket's admin endpoint"},
		"no text":       {502, "", "answered 502 Bad Gateway: check that this is docket's admin endpoint"},
		"elsewhere":     {302, "", "answered 302 Found"},
		"its words":     {403, "use admin.sock\n", "use admin.sock"},
		"control words": {500, "a\x1b[31mb", "a [31mb"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			}))
			defer server.Close()
			_, err := ask(t, ForAddress(server.Listener.Addr().String()))
			refused, ok := errors.AsType[*RefusedError](err)
			if !ok || refused.Status != test.status || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one of status %d with %q", err, test.status, test.want)
			}
		})
	}
}

// What answers without an end in docket's place does not fill the memory.
func TestEndlessDocument(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	sent := 0
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for sent < 8*maxDocument {
			n, err := io.WriteString(w, strings.Repeat(" ", 1<<20))
			sent += n
			if err != nil {
				return
			}
		}
	})}}
	server.Start()
	var v any
	err := ForAddress(l.Addr().String()).GetJSON(t.Context(), "/queue", nil, &v)
	server.Close()
	if err == nil || !strings.Contains(err.Error(), "this is not docket's admin endpoint") || sent == 8*maxDocument {
		t.Errorf("got %v after %d bytes, want no more read than a document has", err, sent)
	}
}

// A queue that nobody works on is found as such, and none where there is no queue.
func TestFindNoQueue(t *testing.T) {
	client, o, err := Find(t.Context(), t.TempDir(), inspect.OpenToLook)
	if client != nil || o != nil || err == nil || errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, %v, %v, want that there is no queue", client, o, err)
	}
}
