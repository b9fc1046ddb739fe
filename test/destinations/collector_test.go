package destinations

import (
	"fmt"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/proxy"
)

// TestCollector sends records through an OpenTelemetry collector to a receiver of
// the test. The collector is killed while it has some of them under way: it answers
// docket when it has passed them on, so docket sends those again.
func TestCollector(t *testing.T) {
	r := newReceiver(t, decodeOTLP)
	network := proxy.New(t, r.Listener.Addr().String())
	collector := startCollector(t, "http://"+network.Address())
	d := dockettest.New(t)
	d.Start(config(d, fmt.Sprintf(`
url: http://%s/v1/logs
compression: zstd
encoding: otlp
`, collector.address)))
	l := startLoad(t, d)
	awaitMore(d)
	proxy.Await(t, network.Strike(proxy.HoldAnswer)) // the receiver has it, the collector does not know
	collector.Kill()
	d.Await("the sink to be Degraded", deliverTimeout, failing("Degraded", "Transient"))
	if err := d.Ready(); err != nil {
		t.Errorf("docket is not ready while the collector is down: %v", err)
	}
	collector.Restart()
	awaitMore(d)
	acknowledged := l.stop(t)
	status := d.Await("everything to be delivered", deliverTimeout, delivered(len(acknowledged)))
	d.Stop()
	if got := check(t, status.Queue.ID, acknowledged, r.arrivals()); got == 0 {
		t.Error("no record arrived again, want those that were under way")
	}
}
