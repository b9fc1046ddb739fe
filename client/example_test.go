package client_test

import (
	"context"
	"log"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

// An admission webhook logs its denies. It never waits for the exporter: Batch
// is the mode of TryLog.
func Example() {
	c, err := client.New(client.Config{Address: "unix:///run/docket/docket.sock"})
	if err != nil {
		log.Fatal(err) // a mistake in the configuration; an exporter that is away is none
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if left, err := c.Close(ctx); err != nil {
			log.Printf("%d decisions are lost: %v", left, err)
		}
	}()

	// In the handler of the webhook:
	_ = c.TryLog(&decision.Record{
		Decision:          decision.Deny,
		Process:           decision.Admission,
		RequestUID:        "0b6f1c1e-5a0e-4a57-9a55-2f6f0c3f7f10",
		Kind:              "K8sRequiredLabels",
		Name:              "require-team",
		Message:           `you must provide labels: {"team"}`,
		ResourceKind:      "Pod",
		ResourceNamespace: "shop",
		ResourceName:      "cart-7d9",
		Timestamp:         time.Now(),
	}) // what finds no room is counted, and told in the stream
}
