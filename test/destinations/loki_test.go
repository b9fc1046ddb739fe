package destinations

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/proxy"
)

// TestLoki is about the push API: every line is there with its id, a redelivery is
// not seen, and what Loki finds too old is set aside in its words. Whether Loki has
// two lines of one time and text, or one, no query tells.
func TestLoki(t *testing.T) {
	s := startLoki(t)
	t.Run("docket killed", func(t *testing.T) { lokiDocketKilled(t, s) })
	t.Run("too far behind", func(t *testing.T) { lokiBehind(t, s) })
}

// lokiSink is the section http of a sink whose streams have the label test.
func lokiSink(address, test string) string {
	return fmt.Sprintf(`
url: http://%s/loki/api/v1/push
compression: gzip
encoding: loki
loki: {labels: {service_name: docket, test: %s}}
`, address, test)
}

func lokiSelector(test string) string { return fmt.Sprintf("{test=%q}", test) }

// lokiDocketKilled kills docket three times, each time when Loki has taken a batch
// and docket does not know it. The batch comes again, and Loki knows its lines.
func lokiDocketKilled(t *testing.T, s *loki) {
	const test, kills = "killed", 3
	before := s.received(t)
	network := proxy.New(t, s.address)
	d := dockettest.New(t)
	configuration := config(d, lokiSink(network.Address(), test))
	d.Start(configuration)
	l := startLoad(t, d)
	for range kills {
		awaitMore(d)
		proxy.Await(t, network.Strike(proxy.HoldAnswer))
		d.Kill()
		d.Start(configuration)
	}
	acknowledged := l.stop(t)
	status := d.Await("everything to be delivered", deliverTimeout, delivered(len(acknowledged)))
	d.Stop()
	if n := check(t, status.Queue.ID, acknowledged, s.readAll(t, lokiSelector(test))); n > 0 {
		t.Errorf("%d lines are there twice", n)
	}
	again := s.received(t) - before - len(acknowledged)
	t.Logf("docket was killed %d times, and sent %d lines again that were there", kills, again)
	if again < kills {
		t.Errorf("%d lines were sent again, want some after each of %d kills", again, kills)
	}
}

// lokiBehind has somebody else write to docket's stream, two hours ahead of it, so
// that every record of docket is too old for the stream. They are set aside in
// Loki's words, and with a stream of its own docket delivers them.
func lokiBehind(t *testing.T, s *loki) {
	const test, n = "behind", 8
	section := lokiSink(s.address, test)
	ahead := map[string]string{"service_name": "docket", "test": test, "source": "webhook"}
	s.push(t, ahead, time.Now().Add(2*time.Hour), "ahead")
	d := dockettest.New(t)
	d.Start(config(d, section))
	lines := readLines(t).first(n)
	d.Send(text(lines))
	status := d.Await("the records to be set aside", deliverTimeout, asideOf(n, n))
	letters := readLetters(t, d)
	if len(letters) != n {
		t.Errorf("%d records are set aside, want %d", len(letters), n)
	}
	for _, l := range letters {
		if l.Status != "400" || !strings.Contains(l.Answer, "too far behind") {
			t.Errorf("got dead letter %+v, want status 400 and Loki's words", l)
		}
	}
	if len(letters) > 0 {
		t.Logf("docket deadletter ls says: %+v", letters[0])
	}
	d.Stop()

	d.Start(config(d, strings.Replace(section, "loki: {", "loki: {queueLabel: true, ", 1)))
	d.Run("deadletter", "redrive", "-f", d.ConfigFile(), "--sink", sink, "--all")
	d.Await("everything to be delivered", deliverTimeout, delivered(n))
	d.Stop()
	if n := check(t, status.Queue.ID, lines, s.readAll(t, lokiSelector(test))); n > 0 {
		t.Errorf("%d lines are there twice", n)
	}
}
