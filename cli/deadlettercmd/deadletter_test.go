package deadlettercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/deadletter"
)

// fakeBox has dead letters of one sink, in no file.
type fakeBox struct {
	letterBox
	kept int
}

func (b fakeBox) counts(context.Context) ([]deadletter.Count, error) {
	return []deadletter.Count{{Sink: "bus", Kept: 9}, {Sink: "siem", Kept: b.kept - 1, Redriving: 1}}, nil
}

func TestConfirmPurge(t *testing.T) {
	for name, test := range map[string]struct {
		kept    int
		answer  string
		wantErr string
	}{
		"yes":          {3, "yes\n", ""},
		"y":            {3, " Y\n", ""},
		"no":           {3, "n\n", "nothing was changed"},
		"enter":        {3, "\n", "nothing was changed"},
		"end of input": {3, "", "nothing was changed"},
		"nothing":      {0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			box := fakeBox{kept: test.kept}
			if test.kept == 0 {
				box.kept = 0
			}
			var asked strings.Builder
			err := confirmPurge(t.Context(), box, "siem", strings.NewReader(test.answer), &asked)
			if (err == nil) != (test.wantErr == "") || err != nil && err.Error() != test.wantErr {
				t.Errorf("got error %v, want %q", err, test.wantErr)
			}
			if want := test.kept > 0; strings.Contains(asked.String(), "Give up 3 records of sink siem for good?") != want {
				t.Errorf("got question %q, want one: %v", asked.String(), want)
			}
		})
	}
}

// What answers is not docket, or breaks off.
func TestDeadLettersOfAnother(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"not found":     {404, "404 page not found\n", "is it docket's admin endpoint?"},
		"no text":       {502, "", "is it docket's admin endpoint?"},
		"its words":     {403, "set admin.tokenFile\n", "set admin.tokenFile"},
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
			box := newAddressBox(server.Listener.Addr().String(), "secret")
			err := box.list(t.Context(), "siem", func(deadletter.Summary) error { return nil })
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
	server := httptest.NewServer(nil)
	address := server.Listener.Addr().String()
	server.Close()
	if _, err := newAddressBox(address, "secret").counts(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing listens at "+address) {
		t.Errorf("got error %v, want that nothing listens", err)
	}
}

// A table on a terminal keeps to its width, and no text steers it.
func TestLetterListOnATerminal(t *testing.T) {
	var b strings.Builder
	l := newLetterList(&b, "siem", false)
	l.width = 80
	for seq, reason := range []string{"short", strings.Repeat("long ", 20), "\x1b[31mred\nline"} {
		s := deadletter.Letter{Seq: uint64(seq) + 1, Reason: reason, Attempts: 12, LastFailed: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Status: "MESSAGE_TOO"}.Summary("0f6c-q", "siem")
		if err := l.add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.end(); err != nil {
		t.Fatal(err)
	}
	const want = `SEQ  STATE  ATTEMPTS  LAST FAILED           STATUS       REASON
1    Kept   12        2026-01-02T03:04:05Z  MESSAGE_TOO  short
2    Kept   12        2026-01-02T03:04:05Z  MESSAGE_TOO  long long long ...
3    Kept   12        2026-01-02T03:04:05Z  MESSAGE_TOO   [31mred line
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLettersOfAPathTooLong(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	err := tryAdminSocket(t.Context(), filepath.Join(dir, exporter.AdminSocket))
	if err == nil || !strings.Contains(err.Error(), "too long for a socket") {
		t.Errorf("got %v, want that the path is too long", err)
	}
	flags := letterFlags{ConfigFlags: command.ConfigFlags{Kinds: builtin.Kinds(), Data: dir}}
	if _, err := flags.open(t.Context(), nil); !isConfigError(err) {
		t.Errorf("got %v, want a configuration that cannot be used", err)
	}
}

func isConfigError(err error) bool {
	_, is := errors.AsType[*command.ConfigError](err)
	return is
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
	box := newAddressBox(server.Listener.Addr().String(), "secret")
	n := 0
	err := box.list(t.Context(), "siem", func(s deadletter.Summary) error {
		if n++; s.ID != deadletter.ID("q", uint64(n)) {
			t.Errorf("got letter %s, want number %d", s.ID, n)
		}
		return nil
	})
	if err != nil || n != 5000 {
		t.Errorf("got %d letters, %v, want 5000", n, err)
	}
}
