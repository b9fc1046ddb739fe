package client

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/stream"
)

// closes is no reason for a refusal: the exporter takes no lines.
const closes = "the exporter takes no lines at the moment"

// scriptedExporter is in the bubble of the test. judge says why a line is refused;
// nothing when it is not. With closes it closes the connection instead.
func scriptedExporter(t *testing.T, judge func(text string) (reason string)) (config Config, stored func() []string) {
	t.Helper()
	var mu sync.Mutex
	var lines []string
	acked := uint64(0)
	serve := func(nc net.Conn) {
		defer nc.Close()
		in := bufio.NewReader(nc)
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		mu.Lock()
		n := acked
		mu.Unlock()
		_, _ = nc.Write(stream.Answer{Acked: n}.Append(nil))
		for {
			text, err := in.ReadString('\n')
			if err != nil {
				return
			}
			n++
			reply := stream.Ack{Through: n}.Append(nil)
			mu.Lock()
			reason := judge(text)
			switch reason {
			case "":
				lines = append(lines, text)
				acked = n
			case closes:
				reply = stream.Closing{Reason: closes}.Append(nil)
			default:
				reply = stream.Refused{Seq: n, Reason: reason}.Append(nil)
				acked = n
			}
			mu.Unlock()
			if _, err := nc.Write(reply); err != nil || reason == closes {
				return
			}
		}
	}
	transport := func(string, *Config) (Dial, error) {
		return func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go serve(theirs)
			return ours, nil
		}, nil
	}
	return Config{Address: "test://", Transports: map[string]Transport{"test": transport}}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return lines
	}
}

// closingExporter closes the connection at the first lines.
func closingExporter(t *testing.T, closings int) (config Config, stored func() []string) {
	t.Helper()
	return scriptedExporter(t, func(string) string {
		if closings--; closings >= 0 {
			return closes
		}
		return ""
	})
}

// An exporter that takes no lines is not a loss: the records are sent again, later, and the
// log says so once.
func TestClosedConnectionIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, stored := closingExporter(t, 20)
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
		for i, text := range stored() {
			if !strings.Contains(text, fmt.Sprintf(`"sequence":%d}`, i)) && i > 0 {
				t.Errorf("record %d: got %s, want all in order", i, text)
			}
		}
		if got := len(stored()); got != 6 {
			t.Errorf("stored: got %d, want 6", got)
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
		config, _ := closingExporter(t, 1<<30)
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
