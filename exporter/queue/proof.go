package queue

// proof is what the frames of the last segment that were looked at say of what was synced
// for certain. Open and the tools for a queue at rest go by it.
type proof struct {
	// knownDurable is a seq: every record below it was durable once.
	knownDurable uint64
	// proven is the offset up to which a later frame says that it was synced.
	proven int64
	// commit is the offset at which the last commit begins that is known to have
	// been durable, because a record of it was; -1 when none is.
	commit int64
}

func newProof(knownDurable uint64, from int64) proof {
	return proof{knownDurable: knownDurable, proven: from, commit: -1}
}

// note takes in what f says.
func (p *proof) note(f *frame) {
	p.proven = max(p.proven, f.durable)
	if p.wasDurable(f) {
		p.commit = max(p.commit, f.durable)
	}
}

// holds reports whether the frame f at off was synced for certain.
func (p *proof) holds(off int64, f *frame) bool { return off < p.proven || f.durable <= p.commit }

// wasDurable reports whether a record of f is known to have been durable, and
// with it the whole commit that f was written in.
func (p *proof) wasDurable(f *frame) bool { return f.count > 0 && f.firstSeq < p.knownDurable }

// isOfHole reports whether a frame from reader on, or what is known, shows that what was
// at offset hole, from seq next on, was durable. If none does, it is the torn tail of a
// write that nobody was told about. It works on a copy of the reader.
func (p *proof) isOfHole(reader frameReader, next uint64, hole, size int64) bool {
	if next < p.knownDurable {
		return true // the record that stood there was durable
	}
	reader.buf = nil
	reader.seek(reader.off)
	for {
		f, err := reader.resync(next, size)
		if err != nil {
			return false
		}
		if f.durable > hole || f.durable <= p.commit || p.wasDurable(&f) {
			return true
		}
		reader.skip(&f)
	}
}

// endsIn reports whether the hole before the frame f, at which reader is, spans the end of
// what was synced: the commit of f began in it, and nothing shows that this was synced. Then
// f is torn with the rest of its commit, although what stood at the hole was durable.
func (p *proof) endsIn(hole int64, reader frameReader, f *frame, size int64) bool {
	return hole < f.durable && f.durable < reader.off && !p.isOfHole(reader, f.firstSeq, reader.off, size)
}
