package exporter

import (
	"strconv"
	"testing"

	"github.com/docket-export/docket/sinks/kafkasink"
)

// Brokers that refuse every record, as a compacted topic does with records that have no key, leave
// all records in the queue, across restarts. Once they accept records, each is there once, but for
// the one that they still refuse: that one is set aside.
func TestBrokersThatRefuseEverything(t *testing.T) {
	for _, delivery := range []kafkasink.Delivery{kafkasink.AtLeastOnce, kafkasink.ExactlyOnce} {
		for _, poison := range []uint64{1, 8, 15} {
			t.Run(string(delivery)+" "+strconv.FormatUint(poison, 10), func(t *testing.T) {
				l := newKafkaLife(t, asTheyWere)
				l.delivery, l.first = delivery, []byte{} // without a record, it asks for nothing in one of the two
				l.Refuse(`"padding"`)
				l.start()
				if err := l.take(lifeRecords); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					l.until("a sink that is misconfigured", func() bool {
						s := l.e.parts().delivery("bus").snapshot()
						return s.State == Error && s.Reason == "Misconfigured"
					})
					if a := l.account(); a.DeadLettered > 0 || a.Next != 1 || l.e.letters("bus").stats().Letters > 0 {
						t.Fatalf("while everything is refused: %+v", a)
					}
					l.end()
					l.start()
				}
				l.Refuse(`"n":` + strconv.FormatUint(poison, 10) + `,`)
				l.until("every record is decided", func() bool { return l.account().Next == lifeRecords+1 })
				if a := l.account(); a.DeadLettered != 1 || a.Delivered != lifeRecords-1 || !l.e.letters("bus").has(poison) {
					t.Errorf("got %+v, want record %d alone set aside", a, poison)
				}
				l.end()
				if err := l.Settle(); err != nil {
					t.Fatal(err)
				}
				got := map[uint64]int{}
				for partition := range int32(lifePartitions) {
					records, err := l.Committed(lifeTopic, partition)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range records {
						seq, _ := strconv.ParseUint(r.Headers["docket-seq"], 10, 64)
						got[seq]++
					}
				}
				for seq := uint64(1); seq <= lifeRecords; seq++ {
					want := 1
					if seq == poison {
						want = 0
					}
					if got[seq] != want {
						t.Errorf("the topic has record %d %d times, want %d", seq, got[seq], want)
					}
				}
			})
		}
	}
}
