package clienttest

import (
	"github.com/docket-export/docket/decision/stream"
)

// producer is what is known of the one stream of numbers that a name stands for.
type producer struct {
	name  string
	acked uint64            // every line up to it is stored or refused; 0: unknown
	seen  map[uint64]string // every line that ever came
	live  *conn             // its latest connection
}

// greet begins acknowledged mode on c, with mu held.
func (e *Exporter) greet(c *conn, hello stream.Hello) {
	p := e.producers[hello.Producer]
	switch {
	case p == nil:
		p = &producer{name: hello.Producer, seen: make(map[uint64]string)}
		e.producers[p.name] = p
	case p.acked > 0 && hello.Next > p.acked+1:
		e.violation("producer %s: said hello with next %d after line %d: the lines between them were never received", p.name, hello.Next, p.acked)
	}
	if older := p.live; older != nil {
		e.forgetPending(older)
		older.close("another connection of this producer has taken over")
	}
	p.live = c
	c.producer, c.next, c.known = p, hello.Next, p.acked
	c.through, c.acked = hello.Next-1, hello.Next-1
	e.notify()
}

// check compares a line with what came under its number before, with mu held.
func (p *producer) check(e *Exporter, l Line) {
	if before, ok := p.seen[l.Number]; ok && before != l.Text {
		e.violation("producer %s: line %d was %s and is %s now: a number must always mean the same bytes", p.name, l.Number, excerpt(before), excerpt(l.Text))
	}
	p.seen[l.Number] = l.Text
}

// excerpt is as much of a line as a person needs to know it again.
func excerpt(text string) string {
	const enough = 80
	if len(text) > enough {
		return text[:enough] + "..."
	}
	return text
}

// settle decides about the n lines held longest, with mu held.
func (e *Exporter) settle(n int) {
	for ; n > 0 && len(e.pending) > 0; n-- {
		p := e.pending[0]
		e.pending = e.pending[1:]
		p.c.open--
		e.decide(p)
	}
	e.notify()
}

// decide stores or refuses a line, with mu held.
func (e *Exporter) decide(p pending) {
	reason, detail := p.flaw.reason, p.flaw.detail
	if reason == "" && e.refuse != nil {
		reason, detail = e.refuse(p.line)
	}
	p.line.Reason = reason
	if reason == "" {
		e.lines = append(e.lines, p.line)
	} else {
		e.refused = append(e.refused, p.line)
	}
	if owner := p.c.producer; owner != nil {
		owner.acked = p.line.Number
		p.c.through = p.line.Number
		if reason != "" {
			p.c.refusals = append(p.c.refusals, stream.Refused{Seq: p.line.Number, Reason: reason, Detail: detail})
		}
	}
}

// forgetPending loses what is held of a connection; mu is held.
func (e *Exporter) forgetPending(c *conn) {
	kept := e.pending[:0:0]
	for _, p := range e.pending {
		if p.c != c {
			kept = append(kept, p)
		}
	}
	e.pending, c.open = kept, 0
}
