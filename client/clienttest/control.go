package clienttest

// Refuse makes the exporter refuse every line for which f returns a reason. A line is asked about
// once, when it would be stored. f is called by one goroutine at a time and must not use the
// exporter. With nil the exporter refuses only lines that no exporter could store.
func (e *Exporter) Refuse(f func(Line) (reason, detail string)) {
	e.change(func() { e.refuse = f })
}

// Hold makes the exporter read on and neither store, nor refuse, nor acknowledge
// anything, until Settle or Release. What is held is lost when its connection is
// broken or replaced, and kept when the producer has closed it.
func (e *Exporter) Hold() {
	e.change(func() { e.held = true })
}

// Settle decides about the n lines held longest.
func (e *Exporter) Settle(n int) {
	e.change(func() { e.settle(min(n, len(e.pending))) })
}

// Release decides about all lines held, and from now on about each at once.
func (e *Exporter) Release() {
	e.change(func() {
		e.held = false
		e.settle(len(e.pending))
	})
}

// Mute makes the exporter keep its acks and refusals to itself: lines are stored
// and their producers not told, until Unmute. Hellos are answered.
func (e *Exporter) Mute() {
	e.change(func() { e.muted = true })
}

// Unmute ends Mute. What is owed on connections that still exist is told.
func (e *Exporter) Unmute() {
	e.change(func() { e.muted = false })
}

// Stall makes the exporter take nothing more in, not even a hello, until Resume:
// what producers write piles up before it. Of each connection it may have read a
// buffer full already.
func (e *Exporter) Stall() {
	e.change(func() { e.stalled = true })
}

// Resume ends Stall.
func (e *Exporter) Resume() {
	e.change(func() { e.stalled = false })
}

// After calls do when n more lines have come, blank ones not counted, and the
// last of them is neither stored nor refused yet. do may use the exporter: with
// Hold that line is held, with Down it is lost. n is at least 1.
func (e *Exporter) After(n int, do func()) {
	e.change(func() { e.plans = append(e.plans, &plan{n, do}) })
}

// BreakAfter breaks the connection that brings the n-th line from now on. Those
// before it are stored and acknowledged first, unless Hold or Mute keeps the
// exporter from it; that line is lost. n is at least 1.
func (e *Exporter) BreakAfter(n int) {
	e.change(func() { e.plans = append(e.plans, &plan{left: n}) })
}

// Down breaks every connection and refuses new ones until Up. The exporter keeps what
// it stored, so this looks like a restart of it.
func (e *Exporter) Down() {
	e.change(func() {
		e.down = true
		e.breakAll()
	})
}

// Up ends Down.
func (e *Exporter) Up() {
	e.change(func() { e.down = false })
}

func (e *Exporter) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	e.notify()
}

// breakAll breaks every connection, with mu held.
func (e *Exporter) breakAll() {
	for c := range e.conns {
		c.sever()
	}
}

// due returns what is to be done now that one more line has come, with mu held.
func (e *Exporter) due() (plans []*plan) {
	waiting := e.plans[:0:0]
	for _, p := range e.plans {
		if p.left--; p.left <= 0 {
			plans = append(plans, p)
		} else {
			waiting = append(waiting, p)
		}
	}
	e.plans = waiting
	return plans
}
