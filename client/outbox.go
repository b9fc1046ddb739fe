package client

// outbox holds the lines that the exporter has not handled, in two parts:
//
//	waiting  not yet given to a connection. They have no number on the wire, so
//	         they can still be dropped to make room for what matters more.
//	flight   given to a connection once. They have numbers, first and up, and are
//	         sent again under them until they are handled.
//
// Lines wait in lanes by rank: lane r+1 holds those of rank r, and lane 0 those
// that must not be dropped. Each lane is in order, and the next line to get a
// number is the one with the lowest order of all, so rank decides what is kept
// and never what is sent first.
type outbox struct {
	limit    int // of used, in bytes
	maxLines int // 0: any number
	used     int // memory of all lines

	lanes  []lane
	flight deque[*line]
	first  uint64 // number of the front of flight, or of the next line there
	orders uint64 // orders given so far
	count  int    // lines, waiting and in flight
}

type lane struct {
	deque[*line]
	bytes int
}

func newOutbox(limit, maxLines, ranks int) outbox {
	return outbox{limit: limit, maxLines: maxLines, lanes: make([]lane, ranks+1), first: 1}
}

func (o *outbox) ranks() int { return len(o.lanes) - 1 }

// makeRoom makes room for l, by dropping lines that matter less, which it passes
// to shed: of those the least first, and of one rank the oldest first. It drops none
// in vain. It is false when there is no room, and nothing has changed then.
func (o *outbox) makeRoom(l *line, shed func(*line)) bool {
	if o.maxLines > 0 && o.count >= o.maxLines {
		return false
	}
	if need := o.used + l.size() - o.limit; need > 0 {
		if need > o.below(l.rank) {
			return false
		}
		o.drop(need, shed)
	}
	return true
}

// add adds l at the end of those that wait, even beyond the limit.
func (o *outbox) add(l *line) {
	to := o.lane(l)
	o.orders++
	l.order = o.orders
	to.pushBack(l)
	to.bytes += l.size()
	o.used += l.size()
	o.count++
}

// lane is where l waits.
func (o *outbox) lane(l *line) *lane {
	if l.keep {
		return &o.lanes[0]
	}
	return &o.lanes[l.rank+1]
}

// below is the memory of the waiting lines that matter less than rank.
func (o *outbox) below(rank int) (bytes int) {
	for _, lane := range o.lanes[rank+2:] {
		bytes += lane.bytes
	}
	return bytes
}

// drop drops lines of the least rank until so many bytes are free.
func (o *outbox) drop(bytes int, shed func(*line)) {
	for r := len(o.lanes) - 1; bytes > 0; r-- {
		for lane := &o.lanes[r]; bytes > 0 && lane.len() > 0; {
			l := lane.popFront()
			lane.bytes -= l.size()
			bytes -= l.size()
			o.forget(l)
			shed(l)
		}
	}
}

// number moves the next waiting line to flight; nil if none waits.
func (o *outbox) number() *line {
	next := -1
	for r := range o.lanes {
		if o.lanes[r].len() > 0 && (next < 0 || o.lanes[r].at(0).order < o.lanes[next].at(0).order) {
			next = r
		}
	}
	if next < 0 {
		return nil
	}
	l := o.lanes[next].popFront()
	o.lanes[next].bytes -= l.size()
	o.flight.pushBack(l)
	return l
}

// numberAll moves every waiting line to flight.
func (o *outbox) numberAll() {
	for l := o.number(); l != nil; l = o.number() {
		continue
	}
}

// inFlight returns line n of the wire, nil if it is not in flight.
func (o *outbox) inFlight(n uint64) *line {
	if n < o.first || n > o.last() {
		return nil
	}
	return o.flight.at(int(n - o.first))
}

// last is the highest number that was given to a connection.
func (o *outbox) last() uint64 { return o.first + uint64(o.flight.len()) - 1 }

// release lets go of the front of flight.
func (o *outbox) release() *line {
	l := o.flight.popFront()
	o.first++
	o.forget(l)
	return l
}

func (o *outbox) forget(l *line) {
	o.used -= l.size()
	o.count--
}
