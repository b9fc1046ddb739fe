package client

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/stream"
)

const closes = "the exporter takes no lines at the moment"

// inBubble is an exporter in the bubble of the test, and the configuration of a client of it. It
// answers the first closings connections and closes each at its first line.
func inBubble(closings int) (e *clienttest.Exporter, config Config) {
	e = clienttest.New()
	transport := func(string, *Config) (Dial, error) {
		return func(ctx context.Context) (net.Conn, error) {
			if closings--; closings < 0 {
				return e.Dial(ctx)
			}
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				in := bufio.NewReader(theirs)
				for _, reply := range []stream.Reply{stream.Answer{}, stream.Closing{Reason: closes}} {
					if _, err := in.ReadString('\n'); err != nil {
						return
					}
					_, _ = theirs.Write(reply.Append(nil))
				}
			}()
			return ours, nil
		}, nil
	}
	return e, Config{Address: "test://", Transports: map[string]Transport{"test": transport}}
}

// An exporter that takes no lines is not a loss: the records are sent again, later, and the
// log says so once.
func TestClosedConnectionIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, config := inBubble(20)
		defer e.Close()
		var log strings.Builder
		config.Log = slog.New(slog.NewTextHandler(&log, nil))
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for n := range 5 {
			if err := c.TryLog(record(decision.Deny, n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Log(context.Background(), record(decision.Deny, 5)); err != nil {
			t.Fatalf("Log: %v", err)
		}
		if left, err := c.Close(context.Background()); left != 0 || err != nil {
			t.Fatalf("Close: got %d, %v", left, err)
		}
		if got, _ := sequences(t, e.Lines()); !slices.Equal(got[decision.Deny], []int{0, 1, 2, 3, 4, 5}) {
			t.Errorf("stored: got %v, want all in order", got)
		}
		// 20 pauses, all but the first few of which are the longest.
		if took := time.Since(began); took < 13*lastPause/2 || took > 20*lastPause {
			t.Errorf("took %v, want pauses that grow", took)
		}
		if st := c.Stats(); st.Refused != 0 || st.Stored != 6 || len(st.Lost) != 0 {
			t.Errorf("Stats: got %+v, want 6 stored", st)
		}
		if got := log.String(); strings.Count(got, closes) != 1 || strings.Count(got, "again") != 1 {
			t.Errorf("log: got\n%s\nwant why it is closed, and that it is over, once each", got)
		}
	})
}

func TestLogSaysWhyItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, config := inBubble(1 << 30)
		defer e.Close()
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Log(ctx, record(decision.Deny, 5)); err == nil || !strings.Contains(err.Error(), closes) {
			t.Errorf("Log: got %v, want why it is closed", err)
		}
		if left, _ := c.Close(ctx); left != 1 {
			t.Errorf("Close: got %d left, want 1", left)
		}
	})
}
