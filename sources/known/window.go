package known

// Window is how many identities are known at least, once that many were seen.
const Window = 1 << 16

// MaxIDs is how many are known at most, but for those that are not stored yet.
const MaxIDs = 2 * Window

// window holds the identities that are known, and the numbers of their records.
// Its memory grows with what it holds: some 80 bytes for each.
type window struct {
	records []numbered // in the order of their numbers
	numbers map[ID]uint64
}

type numbered struct {
	id     ID
	number uint64
}

func (w *window) add(id ID, number uint64) {
	if id == (ID{}) {
		return
	}
	if w.numbers == nil {
		w.numbers = make(map[ID]uint64)
	}
	w.records = append(w.records, numbered{id, number})
	w.numbers[id] = number
}

// cut forgets the numbers from next on.
func (w *window) cut(next uint64) {
	n := len(w.records)
	for ; n > 0 && w.records[n-1].number >= next; n-- {
		w.drop(w.records[n-1])
	}
	w.records = w.records[:n]
}

// trim forgets the oldest beyond Window. Those above settled stay: their records are on
// their way, and one that comes again must wait for them.
func (w *window) trim(settled uint64) {
	n := 0
	for len(w.records)-n > Window && w.records[n].number <= settled {
		w.drop(w.records[n])
		n++
	}
	w.records = w.records[n:]
}

func (w *window) drop(r numbered) {
	if w.numbers[r.id] == r.number {
		delete(w.numbers, r.id)
	}
}

// below returns what is known of the numbers below next.
func (w *window) below(next uint64) []numbered {
	n := len(w.records)
	for n > 0 && w.records[n-1].number >= next {
		n--
	}
	return w.records[:n]
}

// bytes is what the records take in the file, at least.
func (w *window) bytes() int64 { return int64(len(w.records) * len(ID{})) }
