package client

import (
	"bufio"
	"bytes"
	"context"
	"github.com/docket-export/docket/decision/stream"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

// deny is a decision as Gatekeeper makes them, 800 bytes as a line.
func deny() *decision.Record {
	return &decision.Record{
		ID:        "0b6f1c1e-5a0e-4a57-9a55-2f6f0c3f7f10",
		Details:   []byte(`{"missing_labels":["team"]}`),
		EventType: decision.ViolationAdmission,
		Group:     "constraints.gatekeeper.sh", Version: "v1beta1", Kind: "K8sRequiredLabels", Name: "require-team",
		Message:            `you must provide labels: {"team"}`,
		EnforcementAction:  "deny",
		ResourceAPIVersion: "v1", ResourceKind: "Pod", ResourceNamespace: "shop", ResourceName: "cart-7d9c5b6f4-x2x7q",
		ResourceLabels:  map[string]string{"app": "cart", "pod-template-hash": "7d9c5b6f4", "tier": "web"},
		Timestamp:       time.Date(2026, 1, 5, 10, 4, 7, 123456789, time.UTC),
		Operation:       "CREATE",
		RequestResource: "pods", RequestUsername: "system:serviceaccount:kube-system:replicaset-controller",
		RequestUserUID: "5b0c1d0e-2f6f-4a57-9a55-0c3f7f100b6f", RequestUserGroups: []string{"system:serviceaccounts", "system:authenticated"},
		Decision: decision.Deny, Process: decision.Admission, Cluster: "shop-eu-1", Pod: "gatekeeper-controller-manager-6c9d",
		RequestUID: "0b6f1c1e-5a0e-4a57-9a55-2f6f0c3f7f10", Template: "k8srequiredlabels", Sequence: 18,
	}
}

// The cost for the one who logs: TryLog into a client that is on and one that is off.
func BenchmarkTryLog(b *testing.B) {
	r := deny()
	b.Run("off", func(b *testing.B) {
		var c *Client
		b.ReportAllocs()
		for b.Loop() {
			if c.TryLog(r) != nil {
				b.Fatal("off")
			}
		}
	})
	b.Run("on", func(b *testing.B) {
		c, err := New(Config{Address: counter(b)})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close(context.Background())
		b.ReportAllocs()
		b.ResetTimer()
		for n := range b.N {
			if n%1000 == 0 { // not to measure the refusing of what has no room
				b.StopTimer()
				if err := c.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			if err := c.TryLog(r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// counter starts an exporter that only counts, and returns its address.
func counter(b *testing.B) (address string) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	go ackAll(ln)
	return "unix://" + path
}

// ackAll acknowledges what comes over one connection.
func ackAll(ln net.Listener) {
	nc, err := ln.Accept()
	if err != nil {
		return
	}
	defer nc.Close()
	in := bufio.NewReader(nc)
	if _, err := in.ReadString('\n'); err != nil {
		return
	}
	_, _ = nc.Write(stream.Answer{}.Append(nil))
	buf, n := make([]byte, 256<<10), uint64(0)
	for {
		got, err := in.Read(buf)
		if err != nil {
			return
		}
		n += uint64(bytes.Count(buf[:got], []byte{'\n'}))
		_, _ = nc.Write(stream.Ack{Through: n}.Append(nil))
	}
}
