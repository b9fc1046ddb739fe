package formats

import "bytes"

// framing is what a runtime puts before a line, at most.
const framing = 128

// prefixBytes is how much of a line that is too long is kept with its refusal.
const prefixBytes = 1 << 10

// splitter cuts the bytes of a file into lines. It holds what there is of a line whose
// end has not come, and of one that is too long only the beginning.
type splitter struct {
	limit int // the longest line that is held
	part  []byte
	long  int64 // length so far of a line that is over the limit; 0: it is not
}

// split takes the next bytes and calls line for each line that they end, without its
// newline. The line is valid until line returns. length is 0, or that of a line over
// the limit, of which line is the beginning.
//
// NUL bytes before a line are dropped: a writer that does not append leaves a hole of
// any size before its next line when its file is truncated.
func (s *splitter) split(data []byte, line func(line []byte, length int64)) {
	for len(data) > 0 {
		if s.empty() {
			data = bytes.TrimLeft(data, "\x00")
			if len(data) == 0 {
				return
			}
		}
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			s.hold(data)
			return
		}
		switch {
		case s.empty() && end <= s.limit:
			line(data[:end], 0)
		default:
			s.hold(data[:end])
			line(s.rest())
			s.clear()
		}
		data = data[end+1:]
	}
}

// rest is the line that has not ended, as split gives it.
func (s *splitter) rest() (line []byte, length int64) { return s.part, s.long }

func (s *splitter) empty() bool { return len(s.part) == 0 && s.long == 0 }

func (s *splitter) hold(data []byte) {
	switch {
	case s.long > 0:
		s.long += int64(len(data))
	case len(s.part)+len(data) > s.limit:
		s.long = int64(len(s.part) + len(data))
		s.part = append(s.part, data[:min(len(data), max(0, prefixBytes-len(s.part)))]...)
		s.part = bytes.Clone(s.part[:min(len(s.part), prefixBytes)]) // the rest need not be kept
	default:
		s.part = append(s.part, data...)
	}
}

func (s *splitter) clear() {
	s.long = 0
	if s.part = s.part[:0]; cap(s.part) > keptBuffer {
		s.part = nil
	}
}

// keptBuffer bounds what is kept for the next line that comes in pieces.
const keptBuffer = 64 << 10
