// Package serving holds the rules by which an admission webhook starts, changes its
// certificate and stops without a failed request:
//
//   - A server is ready only when a TLS handshake with its own listener presents the
//     certificate that is on disk, and everything named in WaitFor is there.
//   - Told to stop, it is not ready at once, and serves on for ShutdownDelay, until
//     every node knows that it is leaving. In the second half of that time its answers ask
//     clients to close their connections.
//   - Then it takes no more connections, finishes what is in flight, and calls Drain.
//
// Everything is bounded: connections, streams, headers, the time for each, and the stop.
//
// A [Server] keeps all of the rules:
//
//	server, err := serving.New(serving.Config{
//		Address: ":8443",
//		TLSDir:  "/certs",
//		Handler: webhook.Log(handler, c, webhook.Options{}),
//		WaitFor: []serving.Check{{Name: "policies", Ready: policiesLoaded}},
//		Drain:   func(ctx context.Context) error { _, err := c.Close(ctx); return err },
//	})
//	...
//	err = server.Run(ctx) // ends some time after ctx does
//
// # With controller-runtime
//
// Ready and Live are checks of its type healthz.Checker. A Server takes the place of the
// manager's webhook server, whose handlers, admission.Webhook, are of type http.Handler:
//
//	type webhooks struct{ *serving.Server }
//
//	func (w webhooks) Start(ctx context.Context) error { return w.Run(ctx) }
//	func (w webhooks) NeedLeaderElection() bool        { return false } // serve in every pod
//
//	mgr.AddReadyzCheck("webhooks", server.Ready)
//	mgr.AddHealthzCheck("webhooks", server.Live)
//	mgr.Add(webhooks{server})
//
// The manager gives its runnables 30 seconds to stop, as Kubernetes gives the pod; the defaults
// of Config take 25.
//
// # Limits
//
// A connection of HTTP/1.1 on which nothing came in the second half of ShutdownDelay is closed
// without notice, because the protocol has no message for it. A request that crosses the close
// fails, unless its client sends it again, as Go's does while nothing of it was written. API
// servers speak HTTP/1.1 to every webhook that is not on their own host.
package serving
