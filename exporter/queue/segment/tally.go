package segment

import (
	"fmt"
	"math"
)

// MaxLost bounds the count of a lost tally, and what those of a source add up to:
// no sum wraps, whatever a producer says, and a reader that keeps numbers as
// floating point has it exactly.
const MaxLost = 1 << 53

const (
	// maxTallies bounds the tallies of a chunk.
	maxTallies = 32 // of a kind; with maxName, keeps a header's length in its 16 bits

	// Bytes of a count. Refused lines are lines of the chunk, so they are few; a
	// loss is whatever a producer says.
	refusedCountBytes = 4
	lostCountBytes    = 8
)

// Tally counts by name.
type Tally struct {
	Name  string // at most 255 bytes
	Count uint64
}

func checkTallies(tallies []Tally, maxCount uint64) error {
	if len(tallies) > maxTallies {
		return fmt.Errorf("queue: %d tallies of a kind in one chunk, at most %d are allowed", len(tallies), maxTallies)
	}
	for _, t := range tallies {
		if len(t.Name) > maxName || t.Count > maxCount {
			return fmt.Errorf("queue: tally %.40q of %d: at most %d bytes and a count of %d are allowed", t.Name, t.Count, maxName, maxCount)
		}
	}
	return nil
}

// checkTallies returns an error when the tallies of c do not fit into a frame.
func (c *Chunk) checkTallies() error {
	if err := checkTallies(c.Refused, math.MaxUint32); err != nil {
		return err
	}
	return checkTallies(c.Lost, MaxLost)
}

func talliesSize(tallies []Tally, countBytes int) (n int) {
	for _, t := range tallies {
		n += 1 + len(t.Name) + countBytes
	}
	return n
}

// appendTallies writes of each count the lower countBytes: the others are zero.
func appendTallies(b []byte, tallies []Tally, countBytes int) []byte {
	for _, t := range tallies {
		b = append(b, byte(len(t.Name)))
		b = append(b, t.Name...)
		b = le.AppendUint64(b, t.Count)[:len(b)+countBytes]
	}
	return b
}

// decodeTallies calls fn for n tallies at the start of b and returns what follows.
func decodeTallies(b []byte, n, countBytes int, fn func(name []byte, count uint64)) (rest []byte) {
	for range n {
		if len(b) < 1 || len(b) < 1+int(b[0])+countBytes {
			return nil // the checksum held, so this is a writer's fault: count what is whole
		}
		name, behind := b[1:1+int(b[0])], b[1+int(b[0]):]
		var count [8]byte
		copy(count[:], behind[:countBytes])
		fn(name, le.Uint64(count[:]))
		b = behind[countBytes:]
	}
	return b
}

// EachTally calls refused and lost for every tally of the frame.
func (f *Frame) EachTally(refused, lost func(name []byte, count uint64)) {
	rest := decodeTallies(f.tallies, f.refused, refusedCountBytes, refused)
	decodeTallies(rest, f.lost, lostCountBytes, lost)
}
