package main

const (
	certificatesGo = "webhook/serving/certificates.go"
	readinessGo    = "webhook/serving/readiness.go"
	servingGo      = "webhook/serving/server.go"
	requestGo      = "webhook/serving/request.go"
	connsGo        = "webhook/serving/conns.go"
)

// ofServing has a defect for each rule by which a webhook starts, changes its certificate
// and stops.
var ofServing = []mutant{
	// Certificates.
	{
		defect: "half a pair takes the place of the last good one",
		file:   certificatesGo,
		old:    "\tpair, err := tls.X509KeyPair(files[0], files[1])\n\tif err != nil {\n\t\treturn inUse, err",
		new:    "\tpair, err := tls.X509KeyPair(files[0], files[1])\n\tif err != nil {\n\t\treturn nil, err",
		tests:  []string{"TestCertificatesAreReadAgain"},
	},
	{
		defect: "an expired pair takes the place of a good one",
		file:   certificatesGo,
		old:    "err != nil && inUse != nil && validNow(inUse) == nil",
		new:    "err != nil && inUse != nil && validNow(inUse) != nil",
		tests:  []string{"TestCertificatesAreReadAgain"},
	},
	{
		defect: "a pair that cannot be used is told again and again",
		file:   certificatesGo,
		old:    "(was.err == nil || err.Error() != was.err.Error())",
		new:    "(was.err == nil || err.Error() != \"\")",
		tests:  []string{"TestCertificatesAreReadAgain"},
	},
	{
		defect: "a new certificate is not read",
		file:   certificatesGo,
		old:    "now.Sub(c.looked) < rereadEvery",
		new:    "now.Sub(c.looked) < 1000*rereadEvery",
		tests:  []string{"TestCertificatesAreReadAgain"},
	},
	{
		defect: "every client waits for the files",
		file:   certificatesGo,
		old:    "\tif !c.reading.TryLock() {\n\t\treturn\n\t}\n",
		new:    "\tc.reading.Lock()\n",
		tests:  []string{"TestCertificatesAreHandedOutWhileTheyAreRead"},
	},

	// Readiness.
	{
		defect: "a server is ready while it stops",
		file:   readinessGo,
		old:    "if stopping.Err() != nil {",
		new:    "if false {",
		tests:  []string{"TestReadiness", "TestStop"},
	},
	{
		defect: "a server is ready though its listener presents another certificate",
		file:   readinessGo,
		old:    "if !presented.Equal(before.Leaf) && !presented.Equal(after.Leaf) {",
		new:    "if false {",
		tests:  []string{"TestOwnHandshake"},
	},
	{
		defect: "a server is ready with an expired certificate",
		file:   readinessGo,
		old:    "err = validNow(before)",
		new:    "err = nil",
		tests:  []string{"TestOwnHandshake"},
	},
	{
		defect: "a check that hangs holds the probe",
		file:   readinessGo,
		old:    "ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)",
		new:    "ctx, cancel := context.WithTimeout(r.Context(), 100*checkTimeout)",
		tests:  []string{"TestReadiness"},
	},
	{
		defect: "what the server waits for is not asked",
		file:   servingGo,
		old:    "append([]Check{own}, s.config.WaitFor...)...",
		new:    "[]Check{own}...",
		tests:  []string{"TestReady"},
	},
	{
		defect: "a server that has no certificate yet is restarted",
		file:   servingGo,
		old:    "done(s.leaving) || err != nil {",
		new:    "done(s.leaving) || false && err != nil {",
		tests:  []string{"TestReadyWithoutCertificate"},
	},
	{
		defect: "a server that is full is restarted",
		file:   servingGo,
		old:    "err == nil || l.full() || ",
		new:    "err == nil || ",
		tests:  []string{"TestLive"},
	},
	{
		defect: "a server that answers no handshake is alive",
		file:   servingGo,
		old:    "\t_, err := handshake(ctx, l.Addr().String())\n",
		new:    "\tvar err error\n\t_ = ctx\n",
		tests:  []string{"TestLive"},
	},

	// The stop.
	{
		defect: "a server does not serve on",
		file:   servingGo,
		old:    "\ts.serveOn()\n",
		new:    "\t_ = s.serveOn\n",
		tests:  []string{"TestRollingRestart"},
	},
	{
		defect: "clients keep their connections to the end",
		file:   servingGo,
		old:    "s.goodbye.Store(true)",
		new:    "s.goodbye.Store(false)",
		tests:  []string{"TestClientsAreSentAway"},
	},
	{
		defect: "clients are sent away before they can know where to",
		file:   servingGo,
		old:    "\ts.wait(half)\n\ts.goodbye.Store(true)\n",
		new:    "\ts.goodbye.Store(true)\n\ts.wait(half)\n",
		tests:  []string{"TestClientsAreSentAway"},
	},
	{
		defect: "the first word of the stop cancels what is in flight",
		file:   servingGo,
		old:    "return s.requests }",
		new:    "return s.leaving }",
		tests:  []string{"TestStop"},
	},
	{
		defect: "the second call of Stop is as patient as the first",
		file:   servingGo,
		old:    "s.stops.Add(1) > 1",
		new:    "s.stops.Add(1) > 100",
		tests:  []string{"TestStopAtOnce"},
	},
	{
		defect: "a handler that is cut off still answers",
		file:   servingGo,
		old:    "\terr := s.http.Close()\n\ts.cutOff()\n",
		new:    "\ts.cutOff()\n\ts.handlersReturned(context.Background())\n\terr := s.http.Close()\n",
		tests:  []string{"TestStopAtOnce"},
	},
	{
		defect: "drained while handlers without a client are at work",
		file:   servingGo,
		old:    "s.http.Shutdown(ctx) == nil && s.handlersReturned(ctx)",
		new:    "s.http.Shutdown(ctx) == nil",
		tests:  []string{"TestDrainWaitsForHandlersWithoutClient"},
	},
	{
		defect: "drained while handlers that were cut off are at work",
		file:   servingGo,
		old:    "\ts.handlersReturned(brief)\n",
		new:    "\t_ = brief\n",
		tests:  []string{"TestStopAtOnce"},
	},
	{
		defect: "requests in flight may take for ever",
		file:   servingGo,
		old:    "context.WithTimeout(s.now, s.config.FinishTimeout)",
		new:    "context.WithCancel(s.now)",
		tests:  []string{"TestFinishTimeout"},
	},

	// Bounds.
	{
		defect: "slow clients keep everybody out",
		file:   connsGo,
		old:    "\t\tvictim := l.victim()\n",
		new:    "\t\tvar victim *conn\n",
		tests:  []string{"TestSlowClientsGiveWay"},
	},
	{
		defect: "connections at work give way",
		file:   connsGo,
		old:    "return c.whole == 0 })",
		new:    "return true })",
		tests:  []string{"TestVictim", "TestConnectionsAtWorkStay"},
	},
	{
		defect: "who has one connection gives way to who has many",
		file:   connsGo,
		old:    "all[c.address] += has(c)",
		new:    "all[c.address] = 0",
		tests:  []string{"TestVictim"},
	},
	{
		defect: "any number of connections is let in",
		file:   connsGo,
		old:    "if len(l.conns) >= l.max {\n\t\tvictim",
		new:    "if false {\n\t\tvictim",
		tests:  []string{"TestConnectionsAtWorkStay", "TestSlowClientsGiveWay"},
	},
	{
		defect: "a request of HTTP/2 without a body counts as one that is still coming",
		file:   requestGo,
		old:    "if r.ContentLength == 0 {",
		new:    "if r.Body == http.NoBody {",
		tests:  []string{"TestConnectionsAtWorkStay"},
	},
	{
		defect: "a body that was read counts against its connection for ever",
		file:   connsGo,
		old:    "\t\tb.conn.whole--\n",
		new:    "",
		tests:  []string{"TestResetInMidBody"},
	},
	{
		defect: "a body may arrive as slowly as it likes",
		file:   requestGo,
		old:    "SetReadDeadline(time.Now().Add(s.config.BodyTimeout))",
		new:    "SetReadDeadline(time.Time{})",
		tests:  []string{"TestBodyTimeout"},
	},
	{
		defect: "a header may arrive as slowly as it likes",
		file:   servingGo,
		old:    "\t\tReadHeaderTimeout: c.HeaderTimeout,\n",
		new:    "",
		tests:  []string{"TestHeaderBounds"},
	},
	{
		defect: "a header may be as large as it likes",
		file:   servingGo,
		old:    "\t\tMaxHeaderBytes:    c.MaxHeaderBytes,\n",
		new:    "",
		tests:  []string{"TestHeaderBounds"},
	},
	{
		defect: "a client that does not read holds a handler for ever",
		file:   servingGo,
		old:    "\t\tWriteTimeout:      c.RequestTimeout,\n",
		new:    "",
		tests:  []string{"TestRequestTimeout"},
	},
	{
		defect: "any number of requests runs on one connection",
		file:   servingGo,
		old:    "MaxConcurrentStreams: c.MaxStreams, ",
		new:    "",
		tests:  []string{"TestStreamsAreBounded", "TestRapidReset"},
	},
	{
		defect: "any number of requests runs on all connections",
		file:   connsGo,
		old:    "if l.requests > l.maxRequests {",
		new:    "if l.requests > 10*l.maxRequests {",
		tests:  []string{"TestRequestsAreBounded"},
	},
	{
		defect: "the requests of a connection that gave way count for ever",
		file:   connsGo,
		old:    "\t\tl.requests -= c.requests\n",
		new:    "",
		tests:  []string{"TestRequestsAreBounded"},
	},
	{
		defect: "the certificate of further settings is presented",
		file:   servingGo,
		old:    "settings.Certificates, settings.GetCertificate = nil, ",
		new:    "settings.GetCertificate = ",
		tests:  []string{"TestClientCertificates"},
	},
}
