package webhook_test

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/webhook"
)

// The validator is any handler of reviews: an admission.Webhook of controller-runtime is
// one. Close comes when the server has ended: it waits for the last records.
func ExampleLog() {
	c, err := client.New(client.Config{Address: "unix:///run/docket/docket.sock"})
	if err != nil {
		log.Fatal(err)
	}
	validator := http.NotFoundHandler()
	http.Handle("/validate", webhook.Log(validator, c, webhook.Options{Cluster: "prod"}))
	err = http.ListenAndServeTLS(":8443", "/certs/tls.crt", "/certs/tls.key", nil)

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if left, closeErr := c.Close(ctx); closeErr != nil {
		log.Printf("%d records are lost: %v", left, closeErr)
	}
	log.Fatal(err) //nolint:gocritic // cancel has nothing left to do
}
