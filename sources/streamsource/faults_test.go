package streamsource

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/internal/testlog"
)

// lastLine returns how many lines the log has, and the last one from its level on.
func lastLine(b *testlog.Buffer) (n int, last string) {
	text := strings.TrimSuffix(b.String(), "\n")
	if text == "" {
		return 0, ""
	}
	lines := strings.Split(text, "\n")
	_, last, _ = strings.Cut(lines[len(lines)-1], " ")
	return len(lines), last
}

func TestFaultsAreLoggedOnceAnEpisode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out testlog.Buffer
		l := faultLog{log: slog.New(slog.NewTextHandler(&out, nil))}
		expect := func(when string, n int, last string) {
			t.Helper()
			if got, line := lastLine(&out); got != n || line != last {
				t.Errorf("%s: got %d lines, the last %s\nwant %d, the last %s", when, got, line, n, last)
			}
		}
		const line = `level=WARN msg="closed a connection" reason="broken hello" peer=a`
		l.report(fault("broken hello"), "a")
		expect("the first", 1, line)
		for range 500 {
			time.Sleep(100 * time.Millisecond)
			l.report(fault("broken hello"), "b")
		}
		expect("again and again", 1, line)
		l.report(handshakeFault("bad certificate"), "c")
		expect("another", 2, `level=WARN msg="closed a connection" reason="tls handshake: bad certificate" peer=c`)
		for _, end := range []error{errStopping, errTakenOver, errors.New("connection reset")} {
			l.report(end, "a")
		}
		l.report(fault("broken hello"), "a")
		expect("what is no fault", 2, `level=WARN msg="closed a connection" reason="tls handshake: bad certificate" peer=c`)
		l.report(io.EOF, "a")
		l.report(fault("broken hello"), "a")
		expect("after a connection that ended well", 3, line)
	})
}
