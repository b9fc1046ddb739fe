// Package webhook records the decisions of an admission webhook as they are made:
//
//	c, err := client.New(client.Config{Address: "unix:///run/docket/docket.sock"})
//	...
//	defer c.Close(ctx)
//	mux.Handle("/validate", webhook.Log(validator, c, webhook.Options{}))
//
// Any http.Handler can be logged, admission.Webhook of controller-runtime for one. Reviews
// pass byte for byte as they are, in both directions, and each leaves a record of what was
// asked and what was answered.
//
// It is a module of its own, which requires docket's client and decision and no
// library, so an engine that imports it gets no other requirement.
//
//	handler.go   Log: which requests are reviews, and when their records are made
//	options.go   Options, and what they are called in flags and files
//	exchange.go  one review and its answer, as they pass
//	found.go     Found: the violations of a handler that knows them
//	held.go      an answer that waits until its record is durable
//	record.go    the records of an exchange
//	memory.go    how much of all exchanges is kept
//	preset.go    messages of engines, split into violations; kyverno.go has Kyverno's
//
//	webhook/serving  rules by which a webhook starts and stops without a failed request
//	webhook/tap      a reverse proxy in front of an engine that cannot be changed
package webhook
