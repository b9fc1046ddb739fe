package client

// A record that TryLog takes is copied, which costs its caller a third of what the
// encoding would. It has its place among the others at once, in the intake; its text
// is made by a goroutine of the link. Until then it is raw, and counts with the most
// memory that it can need. No line is dropped, refused or made to wait because of
// that: when memory is short, raws get their texts first.

const (
	// maxRaw is how many lines the intake may have when a raw is added: two bursts
	// of 1,000, of which the second comes while the processors are still busy with
	// the first. What comes then is encoded by the one who logs.
	maxRaw = 2048
	// encodeLines is how many texts are made until they are given to the outbox,
	// for the writer to send: half of what one write takes.
	encodeLines = 128
)

// taken is what the intake has: a raw, or a line that was taken behind one.
type taken struct {
	raw  *raw
	line *line // nil if it is raw
}

// tryTakeRaw takes r if there is room even for the longest text that it may get, and
// no caller waits for room.
func (k *link) tryTakeRaw(r *raw) bool {
	k.mu.Lock()
	if k.ended() != nil || k.intake.len() >= maxRaw || k.waiters.len() > 0 || !k.box.hasRoom(r.size()) {
		k.mu.Unlock()
		return false
	}
	k.stats.taken++
	r.cohort = k.join()
	k.box.hold(r.size())
	k.intake.pushBack(taken{raw: r})
	wake := k.encoderIdle
	k.encoderIdle = false
	k.mu.Unlock()
	if wake {
		k.rawTaken <- struct{}{} // has room: encoderIdle is set by the one who empties it
	}
	return true
}

// encodeFor empties the intake, in its order, until there is room for l or nothing is
// left in it, with mu held.
func (k *link) encodeFor(l *line) {
	for k.intake.len() > 0 && !k.box.hasRoom(l.size()) {
		next := k.intake.popFront()
		encoders := k.encoding > 0 // the encoder has it too
		if encoders {
			k.encoding--
		}
		if next.raw == nil {
			k.box.add(next.line)
		} else {
			k.addEncoded(next.raw, next.raw.encode())
			if !encoders { // which frees it
				next.raw.free()
			}
		}
		k.wakeWriter() // there may be no room for l until it is sent
	}
}

// addEncoded adds l to the outbox in place of r, of which it was made, with mu held.
func (k *link) addEncoded(r *raw, l *line) {
	k.box.used += l.size() - r.size()
	k.box.add(l)
}

// startEncoder starts the goroutine that empties the intake. stop waits until it has;
// no more lines must be taken then.
func (k *link) startEncoder() (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		k.encodeRaws(ending)
	}()
	return func() {
		close(ending)
		<-ended
	}
}

// encodeRaws empties the intake whenever there is something in it, until ending is
// closed.
func (k *link) encodeRaws(ending <-chan struct{}) {
	var e encoder
	for more := true; more; {
		select {
		case <-k.rawTaken:
		case <-ending:
			more = false
		}
		for k.nextRaws(&e) {
			e.encode()
			k.encoded(&e)
		}
	}
}

// encoder has what is encoded at a time. Owned by encodeRaws.
type encoder struct{ jobs []taken }

// nextRaws fills e with what is next in the intake, where it stays. It is false when
// there is nothing, and the encoder is to be woken.
func (k *link) nextRaws(e *encoder) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.encoding = min(k.intake.len(), encodeLines)
	for i := range k.encoding {
		e.jobs = append(e.jobs, k.intake.at(i))
	}
	k.encoderIdle = k.encoding == 0
	return k.encoding > 0
}

// encode makes the lines.
func (e *encoder) encode() {
	for i := range e.jobs {
		if j := &e.jobs[i]; j.raw != nil {
			j.line = j.raw.encode()
		}
	}
}

// encoded adds the lines to the outbox and empties e.
func (k *link) encoded(e *encoder) {
	k.addAll(e.jobs)
	for _, j := range e.jobs {
		if j.raw != nil {
			j.raw.free()
		}
	}
	clear(e.jobs)
	e.jobs = e.jobs[:0]
}

// addAll adds the lines to the outbox, the first ones excepted that encodeFor has
// added: those may be gone. It admits no caller that waits for room: there is none
// even with all texts made.
func (k *link) addAll(jobs []taken) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(jobs) - k.encoding
	k.encoding = 0
	for _, j := range jobs[:before] {
		if j.raw != nil {
			j.line.recycle()
		}
	}
	for _, j := range jobs[before:] {
		k.intake.popFront()
		if j.raw != nil {
			k.addEncoded(j.raw, j.line)
		} else {
			k.box.add(j.line)
		}
	}
	k.wakeWriter()
}
