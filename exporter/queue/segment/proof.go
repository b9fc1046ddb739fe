package segment

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

// Note takes in what f says.
func (p *proof) note(f *Frame) {
	p.proven = max(p.proven, f.Durable)
	if p.wasDurable(f) {
		p.commit = max(p.commit, f.Durable)
	}
}

// Holds reports whether the frame f at off was synced for certain.
func (p *proof) holds(off int64, f *Frame) bool { return off < p.proven || f.Durable <= p.commit }

// wasDurable reports whether a record of f is known to have been durable, and
// with it the whole commit that f was written in.
func (p *proof) wasDurable(f *Frame) bool { return f.Count > 0 && f.FirstSeq < p.knownDurable }

// IsOfHole reports whether a frame from reader on, or what is known, shows that what was
// at offset hole, from seq next on, was durable. If none does, it is the torn tail of a
// write that nobody was told about. It works on a copy of the reader.
func (p *proof) isOfHole(reader Reader, next uint64, hole, size int64) bool {
	if next < p.knownDurable {
		return true // the record that stood there was durable
	}
	reader.buf = nil
	reader.MoveTo(reader.Off)
	for {
		f, err := reader.Resync(next, size)
		if err != nil {
			return false
		}
		if f.Durable > hole || f.Durable <= p.commit || p.wasDurable(&f) {
			return true
		}
		reader.Skip(&f)
	}
}

// EndsIn reports whether the hole before the frame f, at which reader is, spans the end of
// what was synced: the commit of f began in it, and nothing shows that this was synced. Then
// f is torn with the rest of its commit, although what stood at the hole was durable.
func (p *proof) endsIn(hole int64, reader Reader, f *Frame, size int64) bool {
	return hole < f.Durable && f.Durable < reader.Off && !p.isOfHole(reader, f.FirstSeq, reader.Off, size)
}
