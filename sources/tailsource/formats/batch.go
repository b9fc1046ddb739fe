package formats

import "bytes"

// keptRecords bounds the room that is kept for the next records.
const keptRecords = 1 << 20

// Batch is what a decoder has chosen, in order.
type Batch struct {
	records []byte // each ended by "\n"
	lines   int
	large   []oversize
}

// oversize is a record over the limit.
type oversize struct {
	bytes, lines int // of the records before it
	prefix       []byte
	length       int64
}

// Count is how many numbers the batch takes.
func (b *Batch) Count() int { return b.lines + len(b.large) }

// Send hands the batch over in order: lines that are each ended by "\n", and the beginning
// of records over the limit.
func (b *Batch) Send(lines func(text []byte, n int) error, tooLarge func(prefix []byte, length int64) error) error {
	from, sent := 0, 0
	for _, o := range b.large {
		if err := lines(b.records[from:o.bytes], o.lines-sent); err != nil {
			return err
		}
		if err := tooLarge(o.prefix, o.length); err != nil {
			return err
		}
		from, sent = o.bytes, o.lines
	}
	return lines(b.records[from:], b.lines-sent)
}

// Clear empties the batch.
func (b *Batch) Clear() {
	if b.records = b.records[:0]; cap(b.records) > keptRecords {
		b.records = nil
	}
	b.lines, b.large = 0, nil
}

func (b *Batch) add(record []byte) {
	b.records = append(append(b.records, record...), '\n')
	b.lines++
}

func (b *Batch) addTooLarge(prefix []byte, length int64) {
	b.large = append(b.large, oversize{len(b.records), b.lines, bytes.Clone(prefix), length})
}
