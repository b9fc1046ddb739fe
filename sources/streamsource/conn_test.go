package streamsource

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		send string
		want []string
	}{
		"lines":                    {"{\"a\":1}\n{\"a\":2}\n", []string{`{"a":1}`, `{"a":2}`}},
		"CRLF":                     {"{\"a\":1}\r\n{\"a\":2}\r\n", []string{`{"a":1}`, `{"a":2}`}},
		"blank lines":              {"\n\r\n  \n{\"a\":1}\n\n\t\r\n{\"a\":2}\n\n", []string{`{"a":1}`, `{"a":2}`}},
		"nothing":                  {"", nil},
		"only blank lines":         {"\n \n\n", nil},
		"white space is kept":      {" {\"a\":1} \n", []string{` {"a":1} `}},
		"last line not ended":      {"{\"a\":1}\n{\"a\":2}", []string{`{"a":1}`, `{"a":2}`}},
		"only line not ended":      {"{\"a\":1}", []string{`{"a":1}`}},
		"last line with CR":        {"{\"a\":1}\r", []string{`{"a":1}`}},
		"not JSON":                 {"hello\n{\"a\":2}\n", []string{`InvalidJSON hello`, `{"a":2}`}},
		"a later hello":            {"{\"a\":1}\n{\"docket\":{\"version\":1}}\n", []string{`{"a":1}`, `{"docket":{"version":1}}`}},
		"a record about docket":    {"{\"docket\":{\"version\":1},\"a\":2}\n", []string{`{"docket":{"version":1},"a":2}`}},
		"not ended, over limit":    {"{}\n" + strings.Repeat("x", testLimit+1), []string{"{}", "TooLarge " + strings.Repeat("x", testLimit)}},
		"first line over limit":    {strings.Repeat("x", testLimit+1) + "\n{}\n", []string{"TooLarge " + strings.Repeat("x", testLimit), "{}"}},
		"over limit by CR is not":  {"{" + strings.Repeat("x", testLimit-1) + "\r\n", []string{"{" + strings.Repeat("x", testLimit-1)}},
		"over limit between lines": {"{}\n" + strings.Repeat("x", testLimit+1) + "\r\n{}\n", []string{"{}", "TooLarge " + strings.Repeat("x", testLimit), "{}"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, testLimit)
			p := r.dial()
			p.send(test.send)
			p.closeWrite()
			p.expectEnd() // nothing comes back
			r.awaitTexts(test.want...)
		})
	}
}

func TestAckOnlyWhatIsSettled(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	r.Hold()
	p := r.hello("p", 1, 0)
	p.send("{\"a\":1}\n\r\n{\"a\":2}\r\n{\"a\":3}\n")
	r.await("3 pending lines", func() bool { return r.Pending() == 3 })
	r.Settle(1)
	p.expect(`{"ack":1}`)
	r.Settle(2)
	p.expect(`{"ack":3}`)
	r.awaitTexts(`1 {"a":1}`, `2 {"a":2}`, `3 {"a":3}`)
}

func TestLinesBehindTheHello(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	p := r.dial()
	p.send("\n" + `{"docket":{"version":1,"producer":"p","next":1}}` + "\r\n{\"a\":1}\n")
	p.expect(`{"docket":{"version":1,"acked":0}}`, `{"ack":1}`)
}

func TestRefusalsComeBeforeTheAck(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	r.Hold()
	p := r.hello("p", 1, 0)
	p.send("{}\nbad\n{}\nworse\n{}\nworst\n")
	r.await("6 pending lines", func() bool { return r.Pending() == 6 })
	refused := func(n int) string {
		return fmt.Sprintf(`{"refused":{"seq":%d,"reason":"InvalidJSON","detail":"refused by the test"}}`, n)
	}
	r.Settle(1)
	p.expect(`{"ack":1}`)
	r.Settle(4)
	p.expect(refused(2), refused(4), `{"ack":5}`)
	r.Settle(1)
	p.expect(refused(6), `{"ack":6}`)
}

// expectRefused skips acks up to the refusal of line n.
func (p *peer) expectRefused(n int) {
	p.t.Helper()
	for {
		p.goOn()
		line, err := p.in.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, `{"ack":`) && !strings.HasPrefix(line, fmt.Sprintf(`{"refused":{"seq":%d,`, n)) {
			p.t.Fatalf("answer: got %q, %v, want the refusal of %d", line, err, n)
		}
		if strings.HasPrefix(line, `{"refused"`) {
			return
		}
	}
}

func TestKnownLinesAreNotStoredTwice(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	p := r.hello("p", 1, 0)
	p.send("{\"a\":1}\n{\"a\":2}\n")
	p.expectAck(2)
	p.Close()

	p = r.hello("p", 1, 2)
	p.send("{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n")
	p.expectAck(3)
	if r.Known() != 2 {
		t.Errorf("known lines: got %d, want 2", r.Known())
	}
	r.awaitTexts(`1 {"a":1}`, `2 {"a":2}`, `3 {"a":3}`)
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	r.Hold()
	older := r.hello("p", 1, 0)
	older.send("{\"a\":1}\n{\"a\":2}\n")
	r.await("2 pending lines", func() bool { return r.Pending() == 2 })
	newer := r.dial()
	newer.send(`{"docket":{"version":1,"producer":"p","next":1}}` + "\n{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n")
	older.expectClosing("another connection of this producer has taken over")

	// The newer one is answered when the lines of the older are decided.
	r.Release()
	newer.expect(`{"docket":{"version":1,"acked":2}}`)
	newer.expectAck(3)
	r.awaitTexts(`1 {"a":1}`, `2 {"a":2}`, `3 {"a":3}`)
}

func TestBrokenHello(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ line, want string }{
		"version":      {`{"docket":{"version":7,"producer":"p","next":1}}`, "version 7 is not supported, use version 1"},
		"next 1.5":     {`{"docket":{"version":1,"producer":"p","next":1.5}}`, "next must be a whole number of at least 1, not 1.5"},
		"next 0":       {`{"docket":{"version":1,"producer":"p","next":0}}`, "next must be"},
		"no producer":  {`{"docket":{"version":1,"next":1}}`, "producer is missing"},
		"bad producer": {`{"docket":{"version":1,"producer":"a b","next":1}}`, "producer must consist of"},
		"not JSON":     {`{"docket":{"version":1,"producer":"p","next":1}`, "not valid JSON"},
		"too long":     {`{"docket":{"version":1,"x":"` + strings.Repeat("x", 5000) + `"}}`, "longer than 4096 bytes"},
		"far too long": {`{"docket":{"version":1,"x":"` + strings.Repeat("x", 2*testLimit) + `"}}`, "longer than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, testLimit)
			p := r.dial()
			p.send(test.line + "\n")
			p.expectClosing(test.want)
			r.awaitTexts()
		})
	}
	t.Run("not ended", func(t *testing.T) {
		r := start(t, testLimit)
		p := r.dial()
		p.send(`{"docket":{"version":1`)
		p.closeWrite()
		p.expectClosing("not valid JSON")
	})
}

func TestSizesAtTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	object := func(size int) string { return `{"x":"` + strings.Repeat("x", size-8) + `"}` }
	r := start(t, limit)
	p := r.hello("p", 1, 0)
	p.send(object(limit) + "\n" + object(limit) + "\r\n" + object(limit+1) + "\n" + object(limit+1) + "\r\n" + object(15*limit) + "\n{}\n")
	p.expectRefused(3)
	p.expectRefused(4)
	p.expectRefused(5)
	p.expectAck(6)
	tooLarge := func(n, size int) string { return fmt.Sprint(n, " TooLarge ", object(size)[:limit]) }
	r.awaitTexts("1 "+object(limit), "2 "+object(limit), tooLarge(3, limit+1), tooLarge(4, limit+1), tooLarge(5, 15*limit), "6 {}")
}

func TestEndlessLine(t *testing.T) {
	t.Parallel()
	endless := strings.Repeat("x", endlessFactor*testLimit+1)
	t.Run("plain", func(t *testing.T) {
		r := start(t, testLimit)
		p := r.dial()
		go io.WriteString(p, "{}\n"+endless+endless) // which fails at some point
		p.expectClosing("lost framing: no newline in 16 times the limit of 65536 bytes")
		r.awaitTexts("{}", "TooLarge "+endless[:testLimit])
	})
	t.Run("acknowledged", func(t *testing.T) {
		r := start(t, testLimit)
		p := r.hello("p", 1, 0)
		go io.WriteString(p, "{}\n"+endless+endless)
		p.expectRefused(2)
		p.expectAck(2)
		p.expectClosing("lost framing")
		r.awaitTexts("1 {}", "2 TooLarge "+endless[:testLimit])
	})
}

// A producer that sends everything before it reads the first ack must not get
// stuck: acks are merged while it does not read.
func TestProducerThatReadsLate(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	p := r.hello("p", 1, 0)
	const lines = 3 * maxUnanswered
	for range lines / 16 {
		p.send(strings.Repeat("{}\n", 16))
	}
	p.expectAck(lines)
}

// Refusals cannot be merged: a producer that does not read them is not read.
func TestRefusalsThatNobodyReads(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	p := r.hello("p", 1, 0)
	lines := 20 * maxUnanswered / few(4)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(p, strings.Repeat("x\n", lines))
		sent <- err
	}()
	// What fits into the socket is written, so a few more than the bound come.
	r.await("refusals that fill the socket", func() bool { return len(r.Lines()) >= 1000 })
	most := maxUnanswered + 8192
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		if n := len(r.Lines()) + r.Pending(); n > most {
			t.Fatalf("lines taken with nobody reading: got %d, want at most %d", n, most)
		}
		time.Sleep(10 * time.Millisecond) // nothing can be waited for: nothing is to happen
	}
	for n := 1; n <= lines; n++ {
		p.expectRefused(n)
	}
	p.expectAck(lines)
	if err := <-sent; err != nil {
		t.Errorf("send: %v", err)
	}
}

// What a producer sent before it died is taken.
func TestProducerThatDies(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	r.Hold()
	p := r.hello("p", 1, 0)
	p.send("{\"a\":1}\n")
	r.await("1 pending line", func() bool { return r.Pending() == 1 })
	p.send("{\"a\":2}\n{\"a\":")
	p.Close()
	r.Release()
	r.awaitTexts(`1 {"a":1}`, `2 {"a":2}`)
	r.awaitConnections(0)
	r.hello("p", 3, 2)
}
