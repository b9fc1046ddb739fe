// Package linecut cuts the bytes of a file into lines, within bounds.
package linecut

import "bytes"

// MaxPrefix is how much of a line that is too long is kept.
const MaxPrefix = 1 << 10

// keptBuffer bounds what is kept for the next line that comes in pieces.
const keptBuffer = 64 << 10

// Cutter cuts bytes into lines. It holds what there is of a line whose end has not come,
// and of one that is too long only the beginning.
type Cutter struct {
	Limit int // the longest line that is held
	// SkipHoles drops NUL bytes before a line: a writer that does not append leaves a hole
	// of any size before its next line when its file is truncated.
	SkipHoles bool

	part []byte
	long int64 // length so far of a line that is over the limit; 0: it is not
}

// Cut takes the next bytes and calls line for each line that they end, without its
// newline. The line is valid until line returns. length is 0, or that of a line over
// the limit, of which line is the beginning. An error of line ends the cutting.
func (c *Cutter) Cut(data []byte, line func(text []byte, length int64) error) error {
	for len(data) > 0 {
		if c.SkipHoles && c.IsBetween() {
			if data = bytes.TrimLeft(data, "\x00"); len(data) == 0 {
				return nil
			}
		}
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			c.hold(data)
			return nil
		}
		text, length := data[:end], int64(0)
		if !c.IsBetween() || end > c.Limit {
			c.hold(data[:end])
			text, length = c.Rest()
		}
		err := line(text, length)
		c.clear()
		if err != nil {
			return err
		}
		data = data[end+1:]
	}
	return nil
}

// Rest is the line that has not ended, as Cut gives it.
func (c *Cutter) Rest() (text []byte, length int64) { return c.part, c.long }

// IsBetween reports whether no line has begun.
func (c *Cutter) IsBetween() bool { return len(c.part) == 0 && c.long == 0 }

func (c *Cutter) hold(data []byte) {
	switch {
	case c.long > 0:
		c.long += int64(len(data))
	case len(c.part)+len(data) > c.Limit:
		c.long = int64(len(c.part) + len(data))
		c.part = append(c.part, data[:min(len(data), max(0, MaxPrefix-len(c.part)))]...)
		c.part = bytes.Clone(c.part[:min(len(c.part), MaxPrefix)]) // the rest need not be kept
	default:
		c.part = append(c.part, data...)
	}
}

func (c *Cutter) clear() {
	c.long = 0
	if c.part = c.part[:0]; cap(c.part) > keptBuffer {
		c.part = nil
	}
}
