package main

const (
	tapGo          = "webhook/tap/tap.go"
	tapTransportGo = "webhook/tap/transport.go"
	tapReplayGo    = "webhook/tap/replay.go"
	tapEngineGo    = "webhook/tap/engine.go"
	tapRunGo       = "cli/tapcmd/run.go"
)

// ofTap has a defect for each promise of the proxy in front of an engine: nothing is
// changed, nothing is sent twice, and what fails looks as it does without a proxy.
var ofTap = []mutant{
	{
		defect: "while the engine's CA is not there, those of the system are trusted",
		file:   tapEngineGo,
		old:    "\tif pool == nil {\n",
		new:    "\tif pool != nil {\n",
		tests:  []string{"TestCAComesLater"},
	},
	{
		defect: "headers of another proxy are dropped",
		file:   tapGo,
		old:    "\t\tif values, ok := p.In.Header[key]; ok {",
		new:    "\t\tif values, ok := p.In.Header[key]; ok && key == \"Forwarded\" {",
		tests:  []string{"TestUntouched"},
	},
	{
		defect: "a query that cannot be parsed is changed",
		file:   tapGo,
		old:    "\tout.URL.RawQuery, out.URL.ForceQuery = p.In.URL.RawQuery, p.In.URL.ForceQuery\n",
		new:    "",
		tests:  []string{"TestUntouched"},
	},
	{
		defect: "trailers of a request are dropped",
		file:   tapGo,
		old:    "\tout.Trailer = p.In.Trailer\n",
		new:    "",
		tests:  []string{"TestUntouched"},
	},
	{
		defect: "a path is escaped anew",
		file:   tapGo,
		old:    "\t\tout.URL.Opaque = path // as it was escaped\n",
		new:    "\t\t_ = path\n\t\tout.URL.RawPath = \"\"\n",
		tests:  []string{"TestUntouched"},
	},
	{
		defect: "a type is made up for an answer that has none",
		file:   tapGo,
		old:    "[]string{\"Content-Type\", \"Date\"}",
		new:    "[]string{\"Date\"}",
		tests:  []string{"TestUntouched"},
	},
	{
		defect: "compression is asked for that the client has not asked for",
		file:   tapTransportGo,
		old:    "DisableCompression:    true",
		new:    "DisableCompression:    false",
		tests:  []string{"TestUntouched"},
	},
	{
		defect: "a body is sent before the engine has let it come",
		file:   tapTransportGo,
		old:    "\t\tExpectContinueTimeout: time.Second,\n",
		new:    "",
		tests:  []string{"TestExpectRefused"},
	},
	{
		defect: "the time of the API server is not kept",
		file:   tapGo,
		old:    "if limit := reviewTimeout(r); limit > 0 {",
		new:    "if limit := reviewTimeout(r); limit > time.Hour {",
		tests:  []string{"TestSlowEngine"},
	},
	{
		defect: "the time of the API server ends what is no review",
		file:   tapGo,
		old:    "if r.Method != http.MethodPost || !strings",
		new:    "if !strings",
		tests:  []string{"TestSlowEngine"},
	},
	{
		defect: "an answer at the end of its time waits for a body",
		file:   tapGo,
		old:    "\tdefer x.endBodyAt(ctx)()\n",
		new:    "",
		tests:  []string{"TestSlowBody"},
	},
	{
		defect: "a body that says how large it is passes though it is too large",
		file:   tapGo,
		old:    "if r.ContentLength > MaxBodyBytes {",
		new:    "if r.ContentLength > 2*MaxBodyBytes {",
		tests:  []string{"TestTooLarge"},
	},
	{
		defect: "a chunked body has no bound",
		file:   tapGo,
		old:    "x.body.source = http.MaxBytesReader(w, r.Body, MaxBodyBytes)",
		new:    "x.body.source = http.MaxBytesReader(w, r.Body, 2*MaxBodyBytes)",
		tests:  []string{"TestTooLarge"},
	},
	{
		defect: "a fault of the client is one of the engine",
		file:   tapGo,
		old:    "\tcase x.body.failure() != nil:\n\t\tx.refuse(BadBody)\n",
		new:    "",
		tests:  []string{"TestBadBody"},
	},
	{
		defect: "a request takes a connection that the engine has closed, and fails",
		file:   tapTransportGo,
		old:    "if c.suspect.CompareAndSwap(true, false) && hasInput(c.socket) {",
		new:    "if c.suspect.CompareAndSwap(true, false) && false {",
		tests:  []string{"TestEngineClosesIdleConnections"},
	},
	{
		defect: "a review reaches the engine in pieces of a few bytes",
		file:   tapTransportGo,
		old:    "for filled < len(piece) && err == nil {",
		new:    "if err == nil {",
		tests:  []string{"TestReviewLeavesInOnePiece"},
	},
	{
		defect: "a body that breaks off takes one connection to the engine after the other",
		file:   tapTransportGo,
		old:    " || x.body.failure() != nil",
		new:    "",
		tests:  []string{"TestBrokenBodyIsNotSentAgain"},
	},
	{
		defect: "a request whose connection was closed takes no other",
		file:   tapTransportGo,
		old:    "if err == nil || !a.reused",
		new:    "if err == nil || a.reused",
		tests:  []string{"TestEngineClosesIdleConnections"},
	},
	{
		defect: "a request of which the engine has seen something is sent again",
		file:   tapTransportGo,
		old:    "\treturn a.conn == nil || a.conn.written.Load() != a.written\n",
		new:    "\treturn a.conn == nil\n",
		tests:  []string{"TestNeverTwice"},
	},
	{
		defect: "a whole body is kept",
		file:   tapReplayGo,
		old:    "\tif len(b.kept)+len(p) > keepBytes || b.spent() {",
		new:    "\tif false {",
		tests:  []string{"TestTapMemory"},
		in:     "cli",
	},
	{
		defect: "the engine's certificate is not verified",
		file:   tapEngineGo,
		old:    "if _, err := cert.Verify(options); err != nil {",
		new:    "if _, err := cert.Verify(options); err != nil && options.Roots == nil {",
		tests:  []string{"TestEngineIsVerified", "TestCARotates"},
	},
	{
		defect: "the engine may have any name",
		file:   tapEngineGo,
		old:    "\t\tif cert.VerifyHostname(name) == nil {",
		new:    "\t\tif name != \"\" {",
		tests:  []string{"TestEngineIsVerified"},
	},
	{
		defect: "a CA file that is broken empties what is trusted",
		file:   tapEngineGo,
		old:    "\t\treturn a.pool, errors.New(\"holds no certificate in PEM form\")",
		new:    "\t\ta.pool = pool\n\t\treturn a.pool, errors.New(\"holds no certificate in PEM form\")",
		tests:  []string{"TestCARotates"},
	},
	{
		defect: "an engine that speaks HTTP/2 alone cannot be reached",
		file:   tapEngineGo,
		old:    "\tover, second := e.dialHTTP2(ctx)\n",
		new:    "\tover, second := net.Conn(nil), errNoHTTP2\n",
		tests:  []string{"TestUntouched"},
	},
	{
		defect: "tap is ready without an engine",
		file:   tapRunGo,
		old:    "[]serving.Check{{Name: \"engine\", Ready: proxy.Ready}}",
		new:    "[]serving.Check{}",
		tests:  []string{"TestTapSaysWhoseCertificate"},
		in:     "cli",
	},
	{
		defect: "tap ends without its records",
		file:   tapRunGo,
		old:    "\tleft, err := c.Close(ctx)\n",
		new:    "\tctx, cancel := context.WithCancel(ctx)\n\tcancel()\n\tleft, err := c.Close(ctx)\n",
		tests:  []string{"TestTapDrains"},
		in:     "cli",
	},
	{
		defect: "the record of a failure does not say what was asked",
		file:   "webhook/tap/tap.go",
		old:    "\tx.body.drain()\n",
		new:    "",
		tests:  []string{"TestEngineDownIsKnown"},
	},
	{
		defect: "an engine that is back is asked before its Service says that it is ready",
		file:   "webhook/tap/tap.go",
		old:    `x.w.Header().Set("Connection", "close")`,
		new:    `x.w.Header().Del("Connection")`,
		tests:  []string{"TestEngineDownIsKnown"},
	},
}
