package streamsource

import (
	"errors"
	"fmt"
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
		l := faultLog{log: slog.New(slog.NewTextHandler(&out, nil)), said: make(map[string]*episode)}
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
		expect("within a minute", 1, line)
		l.report(handshakeFault("bad certificate"), "c")
		expect("another", 2, `level=WARN msg="closed a connection" reason="tls handshake: bad certificate" peer=c`)
		time.Sleep(10 * time.Second)
		l.report(fault("broken hello"), "a")
		expect("after a minute", 3, line+" omitted=500")
		time.Sleep(time.Minute)
		l.report(fault("broken hello"), "a")
		expect("after another", 4, line)
		for _, end := range []error{io.EOF, errStopping, errTakenOver, errors.New("connection reset")} {
			l.report(end, "a")
		}
		expect("what is no fault", 4, line)
	})
}

// Texts quote what producers send: they are not remembered without bound.
func TestFaultLogIsBounded(t *testing.T) {
	t.Parallel()
	l := faultLog{log: slog.New(slog.DiscardHandler), said: make(map[string]*episode)}
	for i := range 10000 {
		l.report(fault(fmt.Sprint("version ", i, " is not supported")), "a")
	}
	if n := len(l.said); n > 64 {
		t.Errorf("texts remembered: got %d, want at most 64", n)
	}
}
