package exporter

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/internal/fairconn"
	"github.com/docket-export/docket/sinks"
)

// followed is an exporter with the sinks siem, which filters and rejects, and bus. Neither is
// served.
func followed(t *testing.T, onReject OnReject) *Exporter {
	t.Helper()
	sink := func(name, when string) SinkConfig {
		return SinkConfig{
			Name: name, When: when, Batch: sinks.BatchLimits{MaxRecords: 100, MaxBytes: 1 << 20},
			Retry: RetryConfig{InitialBackoff: config.Duration(time.Millisecond), MaxBackoff: config.Duration(time.Millisecond)},
			From:  Oldest, OnReject: onReject, DeadLetters: defaultDeadLetters(), Config: &pickySink{poison: []uint64{3, 5}},
		}
	}
	e, err := New(&Config{
		Queue:  QueueConfig{Directory: filepath.Join(t.TempDir(), "queue"), MaxBytes: 1 << 30, WhenFull: Block},
		Limits: defaultLimits(),
		Sinks:  []SinkConfig{sink("siem", "record.n != 2"), sink("bus", "")},
	}, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.queue.Close(context.Background()) })
	return e
}

// follow asks for /tail and returns what reads its lines, until the test ends.
func follow(t *testing.T, c *http.Client, query string) (next func() string, body io.ReadCloser) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://docket/tail"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	lines := bufio.NewReader(res.Body)
	return func() string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("got %q, %v, want a line", line, err)
		}
		return strings.TrimSuffix(line, "\n")
	}, res.Body
}

// What is stored is shown, as it came and in order; what was stored before is not.
func TestTailShowsWhatIsStored(t *testing.T) {
	e := followed(t, DeadLetter)
	c := over(t, e)
	storeRecords(t, e, 1, 1)
	all, _ := follow(t, c, "")
	some, _ := follow(t, c, "?when="+"record.n%3E2")
	from, _ := follow(t, c, "?from=1")
	storeRecords(t, e, 2, 3)
	for _, test := range []struct {
		what string
		next func() string
		want []int
	}{{"all", all, []int{2, 3}}, {"when", some, []int{3}}, {"from", from, []int{1, 2, 3}}} {
		for _, n := range test.want {
			line := test.next()
			if want := fmt.Sprintf(`"record":{"n":%d}}`, n); !strings.HasPrefix(line, fmt.Sprintf(`{"seq":%d,"id":"%s-%d",`, n, e.queue.Lineage().At(uint64(n)), n)) || !strings.HasSuffix(line, want) {
				t.Errorf("%s: got %s, want record %d", test.what, line, n)
			}
		}
	}
}

// What becomes of each record is told when it is decided.
func TestTailOfASink(t *testing.T) {
	for onReject, rejected := range map[OnReject]string{DeadLetter: "deadLettered", DropRejected: "dropped"} {
		t.Run(string(onReject), func(t *testing.T) {
			e := followed(t, onReject)
			next, _ := follow(t, over(t, e), "?sink=siem")
			storeRecords(t, e, 1, 6)
			start(t, e.parts().delivery("bus"))
			start(t, e.parts().delivery("siem"))
			for i, want := range []string{"delivered", "filtered", rejected, "delivered", rejected, "delivered"} {
				line := next()
				if !strings.HasPrefix(line, fmt.Sprintf(`{"seq":%d,`, i+1)) || !strings.HasSuffix(line, fmt.Sprintf(`Z","outcome":"%s","record":{"n":%d}}`, want, i+1)) {
					t.Errorf("got %s, want record %d %s", line, i+1, want)
				}
			}
		})
	}
}

// A batch that was made before anybody followed tells nothing that is not known.
func TestTailOfASinkBeginsWithAWholeBatch(t *testing.T) {
	var nobody *tails
	if nobody.isFollowed() {
		t.Error("nobody is followed")
	}
	e := followed(t, DeadLetter)
	d := e.parts().delivery("siem")
	b := &batch{}
	d.packer.pack(b, records(1, 4))
	f, leave := d.tails.follow()
	defer leave()
	d.cursor = &fakeCursor{}
	d.settle(b)
	if list, missed := f.take(); len(list)+int(missed) > 0 {
		t.Errorf("got %+v", list)
	}
	leave()
	if d.tails.isFollowed() {
		t.Error("got a follower that has left")
	}
}

// Who cannot keep up misses records and is told how many; the count is a metric too.
func TestTailMissesRatherThanWaits(t *testing.T) {
	e := followed(t, DeadLetter)
	line := strings.Repeat("{}\n", 1000)
	const stored = tailWindow + 3616
	for range stored / 1000 {
		done := make(chan struct{})
		if err := e.queue.Append(t.Context(), &queue.Chunk{Source: "s", Records: []byte(line), Count: 1000, Lines: 1000}, func() { close(done) }); err != nil {
			t.Fatal(err)
		}
		<-done
	}
	next, _ := follow(t, over(t, e), "?from=1")
	if got := next(); got != `{"missed":3616}` {
		t.Fatalf("got %s, want what is beyond the window", got)
	}
	for seq := 3617; seq <= stored; seq++ {
		if got := next(); !strings.HasPrefix(got, fmt.Sprintf(`{"seq":%d,`, seq)) {
			t.Fatalf("got %s, want record %d", got, seq)
		}
	}
	var counted dto.Metric
	if err := e.metrics.tailMissed.Write(&counted); err != nil || counted.GetCounter().GetValue() != 3616 {
		t.Errorf("metric: got %v, %v, want 3616", counted.GetCounter(), err)
	}
}

// The fates of a sink's records are kept within the window, the latest of them.
func TestFatesAreBounded(t *testing.T) {
	all := &tails{}
	f, leave := all.follow()
	defer leave()
	const per = tailWindow / 4
	for i := range uint64(6) {
		all.decided(fate{first: i*per + 1, last: (i + 1) * per})
	}
	list, missed := f.take()
	if len(list) != 4 || list[0].first != 2*per+1 || missed != 2*per {
		t.Errorf("got %d from %d on and %d missed, want 4 and %d", len(list), list[0].first, missed, 2*per)
	}
	all.decided(fate{first: 6*per + 1, last: 7 * per})
	f.putBack(list)
	again, missed := f.take()
	if firsts := []uint64{again[0].first, again[len(again)-1].first}; !slices.Equal(firsts, []uint64{3*per + 1, 6*per + 1}) || missed != per {
		t.Errorf("got %v and %d missed, want the latest and %d", firsts, missed, per)
	}
	all.decided(fate{first: 1, last: 10 * tailWindow})
	if list, missed := f.take(); len(list) != 1 || missed != 0 {
		t.Errorf("got %d and %d missed, want a batch beyond the window", len(list), missed)
	}
}

func TestTailRefuses(t *testing.T) {
	e := followed(t, DeadLetter)
	c := over(t, e)
	for query, want := range map[string]struct {
		status int
		text   string
	}{
		"?when=record.n+%3D": {400, "when: "},
		"?from=x":            {400, `from="x"`},
		"?sink=none":         {404, `no sink "none"`},
	} {
		if status, answer := request(t, c, http.MethodGet, "http://docket/tail"+query, "", ""); status != want.status || !strings.Contains(answer, want.text) {
			t.Errorf("%s: got %d %s, want %d", query, status, answer, want.status)
		}
	}
	var answers []io.Closer
	for range maxTails {
		_, body := follow(t, c, "")
		answers = append(answers, body)
	}
	if status, answer := request(t, c, http.MethodGet, "http://docket/tail", "", ""); status != 503 || !strings.Contains(answer, "already follow the records") {
		t.Errorf("got %d %s, want 503", status, answer)
	}
	answers[0].Close()
	await.Until(t, "a place is free", func() bool { return len(e.tailPlaces) < maxTails })
	follow(t, c, "")
}

// Followers do not hold up the end of the endpoint.
func TestTailEndsWithTheEndpoint(t *testing.T) {
	e := followed(t, DeadLetter)
	l, err := listenAdmin(filepath.Join(e.config().Queue.Directory, AdminSocket))
	if err != nil {
		t.Fatal(err)
	}
	endpoint := fairconn.NewEndpoint(e.adminHandler(true))
	places := fairconn.New(2, func(net.Conn) string { return "" }, func(nc net.Conn) { nc.Close() })
	ended := make(chan error)
	go func() { ended <- endpoint.Serve(places.Listen(l)) }()
	c := overSocket(e)
	_, stored := follow(t, c, "")
	_, decided := follow(t, c, "?sink=siem")
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	if err := endpoint.Shutdown(ctx); err != nil { // which closes no connection that is at work
		t.Errorf("got %v, want both to end", err)
		endpoint.Close()
	}
	<-ended
	for _, body := range []io.Reader{stored, decided} {
		if n, err := body.Read(make([]byte, 1)); err == nil || n > 0 {
			t.Errorf("got %d bytes, %v, want the end", n, err)
		}
	}
}
