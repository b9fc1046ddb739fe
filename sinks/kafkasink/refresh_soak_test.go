//go:build soak

package kafkasink

import (
	"testing"
	"time"
)

// One question comes at the start, and another at some time within metadataTTL.
func TestMetadataAreSeldomAskedForInTime(t *testing.T) {
	for _, test := range []struct {
		name string
		busy bool
	}{{"idle", false}, {"busy", true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := startBrokers(t, 3)
			asked := b.questions()
			s := openSink(t, b.ListenAddrs())
			send(t, s, batch(1, `{"a":1}`))
			for seq, end := uint64(2), time.Now().Add(2*time.Second); time.Now().Before(end); seq++ {
				time.Sleep(20 * time.Millisecond) // that nothing happens can only be waited for
				if test.busy {
					send(t, s, batch(seq, `{"a":1}`))
				}
			}
			if got := asked.Load(); got < 1 || got > 4 {
				t.Errorf("the brokers were asked for metadata %d times in 2 s, want once, or up to three times more", got)
			}
		})
	}
}
