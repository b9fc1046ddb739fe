package once_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/docket-export/docket/decision/once"
)

// Message and Header are as the Kafka libraries have them: kafka-go in this case.
type (
	Message struct {
		Partition int
		Offset    int64
		Value     []byte
		Headers   []Header
	}
	Header struct {
		Key   string
		Value []byte
	}
)

// Position is what a consumer keeps of one partition, in the transaction with
// its output.
type Position struct {
	Offset int64       `json:"offset"` // of the next message to read
	Once   once.Filter `json:"once"`
}

// A consumer handles every record once: docket has sent record 2 again because
// the answer to the first request was lost, and record 1 because an operator
// wanted a replay.
func Example() {
	const queue = "6f0c2a51-9d3e-4b7a-8f10-2c4d5e6f7a8b"
	messages := []Message{
		{0, 40, []byte(`{"name":"first"}`), []Header{{"docket-id", []byte(queue + "-1")}, {"docket-seq", []byte("1")}}},
		{0, 41, []byte(`{"name":"second"}`), []Header{{"docket-id", []byte(queue + "-2")}, {"docket-seq", []byte("2")}}},
		{0, 42, []byte(`{"name":"second"}`), []Header{{"docket-id", []byte(queue + "-2")}, {"docket-seq", []byte("2")}}},
		{0, 43, []byte(`{"name":"first"}`), []Header{{"docket-id", []byte(queue + "-1")}, {"docket-seq", []byte("1")}, {"docket-late", []byte("Replayed")}}},
		{0, 44, []byte("written by hand"), nil},
	}

	var p Position // one for each partition; from the consumer's own store
	for _, m := range messages {
		d, err := once.ParseHeaders(m.Headers, func(h Header) (string, []byte) { return h.Key, h.Value })
		if err != nil && !errors.Is(err, once.ErrNotDocket) {
			log.Fatalf("partition %d, offset %d: %v", m.Partition, m.Offset, err)
		}
		if p.Once.Take(d) {
			fmt.Println(string(m.Value))
		}
		p.Offset = m.Offset + 1
	}

	saved, err := json.Marshal(p) // with what was printed, in one transaction
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(saved))
	// Output:
	// {"name":"first"}
	// {"name":"second"}
	// {"name":"first"}
	// written by hand
	// {"offset":45,"once":{"version":1,"queues":[{"id":"6f0c2a51-9d3e-4b7a-8f10-2c4d5e6f7a8b","seq":2}]}}
}
