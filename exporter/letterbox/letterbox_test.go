package letterbox

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/deadletter"
)

// What answers is not docket, or breaks off.
func TestDeadLettersOfAnother(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"not found":     {404, "404 page not found\n", "check that this is docket's admin endpoint"},
		"no text":       {502, "", "check that this is docket's admin endpoint"},
		"its words":     {403, "use admin.sock\n", "use admin.sock"},
		"no JSON":       {200, "<html>", "read the answer of docket at "},
		"breaks off":    {200, `[{"id":"q-1"},`, "read the answer of docket at "},
		"one and a bit": {200, `[{"id":"q-1"}`, "read the answer of docket at "},
		"control words": {500, "a\x1b[31mb", "a [31mb"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			}))
			defer server.Close()
			box := Online(adminclient.ForAddress(server.Listener.Addr().String()))
			err := box.List(t.Context(), "siem", func(deadletter.Summary) error { return nil })
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
	server := httptest.NewServer(nil)
	address := server.Listener.Addr().String()
	server.Close()
	if _, err := Online(adminclient.ForAddress(address)).Counts(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing listens at "+address) {
		t.Errorf("got error %v, want that nothing listens", err)
	}
}

// A long list is read as it comes.
func TestManyDeadLettersOnline(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for n := range 5000 {
			fmt.Fprintf(w, "%s{\"id\":\"q-%d\"}", map[bool]string{true: "[", false: ",\n"}[n == 0], n+1)
		}
		io.WriteString(w, "]\n")
	}))
	defer server.Close()
	box := Online(adminclient.ForAddress(server.Listener.Addr().String()))
	n := 0
	err := box.List(t.Context(), "siem", func(s deadletter.Summary) error {
		if n++; s.ID != deadletter.ID("q", uint64(n)) {
			t.Errorf("got letter %s, want number %d", s.ID, n)
		}
		return nil
	})
	if err != nil || n != 5000 {
		t.Errorf("got %d letters, %v, want 5000", n, err)
	}
}
