package destinations

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/proxy"
)

// TestFaults lets a network and a receiver fail in the middle of a delivery, again
// and again. Nothing that was acknowledged is lost, nothing is set aside, and docket
// sends again only what it cannot know to have arrived.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		strike     func(*proxy.Proxy, *receiver) <-chan struct{}
		duplicates bool          // whether the receiver had what docket must send again
		timeout    time.Duration // of docket, where it is to pass; 0: longer than a busy machine takes
	}{
		"answer lost": {
			strike:     func(p *proxy.Proxy, _ *receiver) <-chan struct{} { return p.Strike(proxy.LoseAnswer) },
			duplicates: true,
		},
		"request cut": {
			strike: func(p *proxy.Proxy, _ *receiver) <-chan struct{} { return p.Strike(proxy.CutRequest) },
		},
		"answer held": {
			strike:     func(p *proxy.Proxy, _ *receiver) <-chan struct{} { return p.Strike(proxy.HoldAnswer) },
			duplicates: true,
			timeout:    time.Second,
		},
		"answer too slow": {
			strike: func(_ *proxy.Proxy, r *receiver) <-chan struct{} {
				return r.answerOnce(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
			},
			duplicates: true,
			timeout:    time.Second,
		},
		"answer of 10 MB": {
			strike: func(_ *proxy.Proxy, r *receiver) <-chan struct{} {
				return r.answerOnce(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("y"), 10<<20)) })
			},
		},
		"error after acceptance": {
			strike: func(_ *proxy.Proxy, r *receiver) <-chan struct{} {
				return r.answerOnce(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
			},
			duplicates: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			const strikes = 5
			r := newReceiver(t, decodeStamped)
			network := proxy.New(t, r.Listener.Addr().String())
			d := dockettest.New(t)
			d.Start(stamped(d, network.Address(), fmt.Sprintf("timeout: %s", cmp.Or(test.timeout, 2*time.Minute))))
			l := startLoad(t, d)
			for range strikes {
				proxy.Await(t, test.strike(network, r))
				awaitMore(d)
			}
			acknowledged := l.stop(t)
			status := d.Await("everything to be delivered", deliverTimeout, delivered(len(acknowledged)))
			d.Stop()
			if got := check(t, status.Queue.ID, acknowledged, r.arrivals()); (got > 0) != test.duplicates {
				t.Errorf("%d records arrived again, want some: %v", got, test.duplicates)
			}
		})
	}
}

// stamped is a configuration of d whose records arrive with their id. http holds
// more keys of the sink.
func stamped(d *dockettest.Docket, address, http string) string {
	return sinkConfig(d, fmt.Sprintf("stamp: true\nhttp: {%s, url: http://%s/ingest}", http, address))
}
